"""Whatever a user calls an environment, as what trains can be played in."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import pathlib
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ecrl import _constraints, _spaces
from ecrl._ecrl import Place
from ecrl._state import State

PACKAGE = str(pathlib.Path(__file__).parents[1])
"""The folder in which this package was found."""

# An episode that is longer is taken for one that never ends, unless the environment says how long it may be.
LONGEST = 10_000

Json = dict[str, Any]


class RemoteTraceback(Exception):
    """The traceback of an exception in a worker process."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


def as_doubles(value: Any) -> NDArray[np.float64]:
    """Whatever it is as an array of doubles, row after row."""
    return np.require(value, np.float64, ["C", "A"])


def close(env: Any) -> None:
    """Closes an environment that has something to close."""
    getattr(env, "close", lambda: None)()


class Adapter:
    """One environment and what there is to know of it."""

    def __init__(self, env: Any, description: Json, own: bool) -> None:
        self.env = env
        self.description = json.dumps(description)
        self.state = State.of(env)
        self._own = own

    def close(self) -> None:
        """Closes it, if we have made it."""
        if self._own:
            close(self.env)


class Recipe:
    """How environments are made, under some constraints."""

    def __init__(self, make: Callable[[], Any], constraints: list[str], limit: int | None) -> None:
        self._make, self.constraints, self.limit = make, constraints, limit
        self._made: list[weakref.ref[Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": []}

    def make(self) -> Any:
        """An environment, which must be another each time."""
        env = self._make()
        self._made = [ref for ref in self._made if ref() is not None]
        if any(ref() is env for ref in self._made):
            raise ValueError(
                "the callable has returned the same environment twice; expected a new one each time, or the "
                "environment itself instead of the callable"
            )
        with contextlib.suppress(TypeError):  # not everything can be watched
            self._made.append(weakref.ref(env))
        return env

    def adapter(self) -> Adapter:
        """A new environment."""
        env = self.make()
        return Adapter(env, describe(env, self.constraints, self.limit), own=True)

    def payload(self) -> bytes:
        """What a worker process makes the same from."""
        try:
            # What is defined in the main module goes along by value.
            pickled = cloudpickle.dumps(self)
        except Exception as error:
            raise ValueError(
                f"the environment cannot be sent to worker processes ({type(error).__name__}: {error}); "
                "expected one that can be pickled, or n_envs=1"
            ) from None
        return pickle.dumps((sys.path, pickled, _registered()))


def _registered() -> list[bytes]:
    """What this program has made known to Gymnasium, as far as that can be sent."""
    own: list[bytes] = []
    for spec in gym.registry.values():
        if not str(spec.entry_point).startswith(("gymnasium.", "ecrl.")):
            with contextlib.suppress(Exception):  # if it is needed, Gymnasium says that it is missing
                own.append(cloudpickle.dumps(spec))
    return own


def describe(env: Any, constraints: list[str], limit: int | None) -> Json:
    """What there is to know of an environment, or of each in a `VectorEnv`."""
    vector = isinstance(env, gym.vector.VectorEnv)
    for name in ("observation_space", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise TypeError(f"the environment is a {type(env).__name__} without {name}; expected a Gymnasium environment")
    observation = env.single_observation_space if vector else env.observation_space
    action = env.single_action_space if vector else env.action_space
    parts = _spaces.observation_parts(observation)
    if _spaces.size(parts) == 0:
        raise ValueError(f"observation_space is {observation}; expected at least one number")
    spec = getattr(env, "spec", None)
    spec = spec if isinstance(spec, gym.envs.registration.EnvSpec) else None
    known = spec.max_episode_steps if spec is not None else None
    interface: Json = {"observation": parts, "action": _spaces.action_of(action)}
    if limit is not None:
        interface["max_episode_steps"] = limit
    if spec is not None and not vector:
        try:
            interface["recipe"] = spec.to_json()
        except Exception:
            pass  # it cannot be made again from words: whoever goes on with the run brings it
    inner = env if vector else getattr(env, "unwrapped", env)
    return {
        "name": spec.id if spec is not None else type(inner).__name__,
        "constraints": constraints,
        "max_steps": limit or known or LONGEST,
        "endless": not (limit or known),
        "interface": interface,
    }


def whole(name: str, number: Any, least: int, most: int) -> int | None:
    """A whole number within bounds, or none."""
    if number is None:
        return None
    try:
        value = operator.index(number)
    except TypeError:
        value = least - 1
    if isinstance(number, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {number!r}; expected a whole number from {least} to {most}")
    return value


def is_instance(env: Any) -> bool:
    """Whether it is an environment itself, and not what makes one."""
    return not isinstance(env, type) and hasattr(env, "step") and hasattr(env, "reset")


def place_of(env: Any, constraints: list[str], limit: int | None, n_envs: int | None) -> tuple[Place, Json]:
    """Where to play in what a user calls an environment, and what there is to know of it."""
    limit = whole("max_episode_steps", limit, 1, 10**15)
    n_envs = whole("n_envs", n_envs, 1, 1024)
    if isinstance(env, str):
        make: Callable[[], Any] = _Made(env)
    elif is_instance(env):
        return _place_of_instance(env, constraints, limit, n_envs)
    elif callable(env):
        make = env
    else:
        raise TypeError(
            f"env is a {type(env).__name__}; expected a Gymnasium id, a callable that makes an environment, an "
            "environment, or the name of a robot as in ecrl.tasks()"
        )
    recipe = Recipe(make, constraints, limit)
    first = recipe.make()
    if isinstance(first, gym.vector.VectorEnv):
        return _place_of_instance(first, constraints, limit, n_envs, own=True)
    try:
        description = describe(first, constraints, limit)
    finally:
        close(first)
    count = len(os.sched_getaffinity(0)) if n_envs is None else n_envs
    text = json.dumps(description)
    if count == 1:
        return Place("here", recipe.adapter, text), description
    return Place("workers", recipe.payload(), text, count), description


def _place_of_instance(
    env: Any, constraints: list[str], limit: int | None, n_envs: int | None, own: bool = False
) -> tuple[Place, Json]:
    if n_envs not in (None, 1):
        kind = "a VectorEnv" if isinstance(env, gym.vector.VectorEnv) else "an environment"
        raise ValueError(f"n_envs is {n_envs} with {kind} itself; expected a callable that makes one, or n_envs=1")
    description = describe(env, constraints, limit)
    text = json.dumps(description)
    if isinstance(env, gym.vector.VectorEnv):
        if limit is not None:
            raise ValueError("max_episode_steps with a VectorEnv; expected environments that have a time limit")
        description["lanes"] = env.num_envs
        return Place("lanes", Lanes(env, description["interface"], constraints, own), text), description
    description["lanes"] = 1
    return Place("shared", Adapter(env, description, own), text), description


class _Made:
    """Makes an environment from an id, or from what a run has stored of it."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self) -> Any:
        from ecrl import robots

        robots.register()
        if self.what.startswith("{"):
            return gym.make(_trusted(self.what))
        try:
            return gym.make(self.what)
        except gym.error.Error as error:
            raise ValueError(f"{error}; or one of the robots: {', '.join(robots.NAMES)}") from None


def _trusted(text: str) -> Any:
    """What a run has stored of its environment, if it is one that this program knows: a recipe of somebody else's
    must not name what is called."""
    spec = gym.envs.registration.EnvSpec.from_json(text)
    known = gym.registry.get(spec.id)
    wrappers = [wrapper.entry_point for wrapper in spec.additional_wrappers]
    if known is None or known.entry_point != spec.entry_point:
        raise ValueError(f"{spec.id} is not registered here as it was there; expected env to be given")
    if not all(point.startswith("gymnasium.wrappers.") for point in wrappers):
        raise ValueError(f"{spec.id} has wrappers that are not Gymnasium's own; expected env to be given")
    return spec


class Lanes:
    """The environments of a `VectorEnv`, which move in step."""

    def __init__(self, env: Any, interface: Json, constraints: list[str], own: bool = False) -> None:
        self.env, self.count, self._own = env, int(env.num_envs), own
        self._parts, self._action = interface["observation"], interface["action"]
        self._costs = _constraints.names(constraints)
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise ValueError(
                "metadata['autoreset_mode'] of the VectorEnv is missing; expected a gymnasium.vector.AutoresetMode"
            )
        self._mode = gym.vector.AutoresetMode(mode)
        self._over = np.zeros(self.count, dtype=bool)

    def close(self) -> None:
        """Closes it, if we have made it."""
        if self._own:
            close(self.env)

    def _rows(self, observation: Any) -> NDArray[np.float64]:
        return _spaces.lay_out(self._parts, observation, self.count)

    def reset(self, seed: int) -> NDArray[np.float64]:
        """All lanes begin anew; returns where they are."""
        observation, _ = self.env.reset(seed=seed)
        self._over[:] = False
        return self._rows(observation).ravel()

    def step(self, actions: NDArray[np.float32]) -> tuple[NDArray[Any], ...]:
        """One step of all lanes: where each is, where it got to before another episode began, rewards, costs,
        terminated, truncated, and whose next step only begins an episode."""
        result = self.env.step(_spaces.to_actions(self._action, actions.reshape(self.count, -1)))
        if not (isinstance(result, tuple) and len(result) in (5, 6)):
            kind = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
            raise TypeError(f"step returned {kind}; expected 5 values, or 6 with a cost after the reward")
        observation, reward, *own, terminated, truncated, info = result
        now = self._rows(observation)
        reward = self._each("the reward", reward, np.float64)
        terminated = self._each("terminated", terminated, np.bool_)
        truncated = self._each("truncated", truncated, np.bool_)
        last = terminated | truncated
        costs = self._costs_of(info, own[0] if own else None, last)
        reached = now
        if last.any() and self._mode == gym.vector.AutoresetMode.SAME_STEP:
            reached = now.copy()
            for i in np.flatnonzero(last):
                reached[i] = _spaces.lay_out(self._parts, info["final_obs"][i])[0]
        elif last.any() and self._mode == gym.vector.AutoresetMode.DISABLED:
            reached = now.copy()
            observation, _ = self.env.reset(options={"reset_mask": last})
            now = self._rows(observation)
        self._over = last if self._mode == gym.vector.AutoresetMode.NEXT_STEP else np.zeros(self.count, dtype=bool)
        return now.ravel(), reached.ravel(), reward, costs.ravel(), terminated, truncated, self._over

    def _each(self, what: str, values: Any, dtype: Any) -> NDArray[Any]:
        array = np.array(values, dtype=dtype)
        if array.shape != (self.count,):
            raise ValueError(f"{what} has shape {array.shape}; expected one for each of {self.count} environments")
        return array

    def _costs_of(self, info: Json, own: Any, last: NDArray[np.bool_]) -> NDArray[np.float64]:
        costs = np.zeros((self.count, len(self._costs)))
        if not isinstance(info, dict):
            raise TypeError(f"info is a {type(info).__name__}; expected a dict of arrays, as Gymnasium's vectors give it")
        # Where another episode has begun within the step, what the step brought is told apart.
        same = self._mode == gym.vector.AutoresetMode.SAME_STEP
        of_ended = info.get("final_info", {}) if same else info
        for i, name in enumerate(self._costs):
            if own is not None and name == "cost":
                costs[:, i] = self._each("the cost", own, np.float64)
                continue
            # Where an episode only begins, nothing costs.
            told = self._over.copy()
            for infos, lanes in ((info, ~last), (of_ended, last)):
                if name in infos:
                    lanes = lanes & ~self._over & infos.get(f"_{name}", True)
                    costs[lanes, i] = self._each(f"the cost '{name}'", infos[name], np.float64)[lanes]
                    told |= lanes
            if not told.all():
                keys = ", ".join(key for key in info if not key.startswith("_")) or "nothing"
                where = "of every environment" if name in info else "in info"
                raise ValueError(f"there is no cost '{name}' {where}; there is {keys}")
        return costs
