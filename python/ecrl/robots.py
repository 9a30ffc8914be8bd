"""The built-in robots as Gymnasium environments, one at a time or many at full speed.

    env = gymnasium.make("ecrl/Hopper-v0")
    envs = gymnasium.make_vec("ecrl/Hopper-v0", num_envs=8)

Each is Gymnasium's own `-v4` to the bit, with the same start for the same seed, and tells its costs: `torque`, the
mean over motors of |action|; `velocity`, 1 in a step faster than the task's speed limit; and `cost`, one of
these, as `cost=` says (`velocity`, as in Safety-Gymnasium).
"""

from __future__ import annotations

import json
import os
from typing import Any, Literal, TypeGuard

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ecrl import _mujoco  # noqa: F401
from ecrl import _ecrl

_TASKS = {task["name"]: task for task in json.loads(_ecrl.tasks())}
NAMES = list(_TASKS)
"""The names of the robots."""


def is_task_file(env: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether an environment is named by the file of a task of one's own: a robot, too."""
    return isinstance(env, str | os.PathLike) and os.fspath(env).endswith(".toml")


_IDS = {"ant": "Ant", "half-cheetah": "HalfCheetah", "walker2d": "Walker2d", "hopper": "Hopper", "swimmer": "Swimmer"}

Cost = Literal["torque", "velocity"]
Observations = NDArray[np.float64]
Actions = NDArray[np.float32]


def _spaces(task: str) -> tuple[Any, Any]:
    sizes = _TASKS[task]
    observation = gym.spaces.Box(-np.inf, np.inf, (sizes["observation"],), np.float64)
    return observation, gym.spaces.Box(-1.0, 1.0, (sizes["action"],), np.float32)


def _check(task: str, cost: str) -> None:
    if task not in _TASKS:
        raise ValueError(f"task is '{task}'; expected one of {', '.join(NAMES)}")
    if cost not in ("torque", "velocity"):
        raise ValueError(f"cost is '{cost}'; expected torque or velocity")


def _info(torque: Any, velocity: Any, cost: Cost) -> dict[str, Any]:
    return {"torque": torque, "velocity": velocity, "cost": torque if cost == "torque" else velocity}


class _Start:
    """Draws starts as Gymnasium does."""

    def __init__(self, robots: _ecrl.Robots) -> None:
        self.qpos, self.qvel, self.scale, self.normal = robots.start_of()

    def draw(self, rng: np.random.Generator) -> tuple[Observations, Observations]:
        qpos = self.qpos + rng.uniform(low=-self.scale, high=self.scale, size=self.qpos.size)
        if self.normal:
            return qpos, self.qvel + self.scale * rng.standard_normal(self.qvel.size)
        return qpos, self.qvel + rng.uniform(low=-self.scale, high=self.scale, size=self.qvel.size)


class RobotEnv(gym.Env[Observations, Actions]):
    """One robot."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, task: str, cost: Cost = "velocity", render_mode: str | None = None) -> None:
        _check(task, cost)
        self._robots = _ecrl.Robots(task, 1, 1)
        self._start = _Start(self._robots)
        self._cost: Cost = cost
        self.render_mode = render_mode
        self.observation_space, self.action_space = _spaces(task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        super().reset(seed=seed)
        qpos, qvel = self._start.draw(self.np_random)
        if options is not None:
            qpos = np.ascontiguousarray(options.get("qpos", qpos), dtype=np.float64)
            qvel = np.ascontiguousarray(options.get("qvel", qvel), dtype=np.float64)
        return self._robots.start(0, qpos, qvel), {}

    def step(self, action: Actions) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        row = np.ascontiguousarray(action, dtype=np.float32)[None]
        obs, reward, fallen, torque, velocity = self._robots.step(row)
        info = _info(float(torque[0]), float(velocity[0]), self._cost)
        return obs[0], float(reward[0]), bool(fallen[0]), False, info

    def get_state(self) -> NDArray[np.float64]:
        """The whole state, for `set_state`: from there on, the same actions give the same bits."""
        return self._robots.capture(0)

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Goes back to a state."""
        self._robots.restore(0, state)

    def joints(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Joint positions and velocities."""
        return self._robots.state(0)


class RobotVectorEnv(gym.vector.VectorEnv[Observations, Actions, NDArray[Any]]):
    """Many robots of a kind, stepped side by side on all cores, without a Python step for any of them."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        cost: Cost = "velocity",
        threads: int | None = None,
        max_episode_steps: int = 1000,
        render_mode: str | None = None,
    ) -> None:
        _check(task, cost)
        threads = len(os.sched_getaffinity(0)) if threads is None else threads
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._robots = _ecrl.Robots(task, num_envs, threads)
        self._start = _Start(self._robots)
        self._cost: Cost = cost
        self._limit = max_episode_steps
        self._width: int = _TASKS[task]["observation"]
        self.single_observation_space, self.single_action_space = _spaces(task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        if seed is not None:
            seeds = seed if isinstance(seed, list) else [seed + i for i in range(self.num_envs)]
            for i, one in enumerate(seeds):
                if one is not None:
                    self._rngs[i] = gym.utils.seeding.np_random(one)[0]
        observations = np.empty((self.num_envs, self._width))
        for i, rng in enumerate(self._rngs):
            observations[i] = self._robots.start(i, *self._start.draw(rng))
        self._steps[:] = 0
        self._over[:] = False
        return observations, {}

    def step(
        self, actions: Actions
    ) -> tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        # Those that are over take no step: they begin anew.
        begins = self._over.nonzero()[0]
        for i in begins:
            self._robots.begin(int(i), *self._start.draw(self._rngs[i]))
        obs, reward, terminated, torque, velocity = self._robots.step(np.ascontiguousarray(actions, dtype=np.float32))
        self._steps += 1
        self._steps[begins] = 0
        truncated = self._steps >= self._limit
        info = _info(torque, velocity, self._cost)
        if begins.size:
            there = ~self._over
            info |= {f"_{name}": there for name in list(info)}
        self._over = terminated | truncated
        return obs, reward, terminated, truncated, info


def register() -> None:
    """Makes the robots known to Gymnasium; importing ecrl does, and so does `gymnasium.make("ecrl:ecrl/Hopper-v0")`."""
    for task, name in _IDS.items():
        if f"ecrl/{name}-v0" not in gym.registry:
            gym.register(
                id=f"ecrl/{name}-v0",
                entry_point="ecrl.robots:RobotEnv",
                vector_entry_point="ecrl.robots:RobotVectorEnv",
                max_episode_steps=_TASKS[task]["steps"],
                kwargs={"task": task},
            )

