"""A trained policy: acts, is measured, is shipped."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import threading
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ecrl import _constraints, _ecrl, _environment, _spaces, robots
from ecrl._constraints import Constraints
from ecrl._run import Run


@dataclasses.dataclass(frozen=True)
class Face:
    """How a policy did with its mean action, or with sampled ones."""

    reward: float
    """The mean return."""
    reward_sd: float
    """Its standard deviation over episodes."""
    costs: dict[str, float]
    """The mean J_C of every constraint, by its text."""
    feasible: bool
    """Whether that keeps every constraint."""
    feasible_share: float
    """The share of episodes that kept every constraint."""
    length: float
    """The mean length of an episode."""
    episodes: list[dict[str, Any]]
    """Every episode: reward, steps, constraints."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a policy is worth, with both of its faces."""

    mean_action: Face
    """With its mean action, as a robot is shipped with it."""
    sampled_actions: Face
    """With sampled actions, as it was trained."""
    feasible: bool
    """Whether both keep every constraint."""

    def __str__(self) -> str:
        faces = [("mean action", self.mean_action), ("sampled actions", self.sampled_actions)]
        lines = []
        for name, face in faces:
            costs = "".join(f", {text}: {value:.3f}" for text, value in face.costs.items())
            lines.append(f"{name:<16}reward {face.reward:.1f} ± {face.reward_sd:.1f}{costs}")
        return "\n".join([*lines, f"feasible: {'yes' if self.feasible else 'no'}"])


class Policy:
    """A policy: from an observation to an action, both as its environment has them."""

    def __init__(self, policy: _ecrl.Policy, run: pathlib.Path | None = None) -> None:
        self._policy = policy
        # Which keeps a copy of its task, where that is a file's.
        self._run = run
        self.about: dict[str, Any] = json.loads(policy.about())
        """Where it comes from and how it did."""
        interface = self.about.get("interface")
        size = policy.sizes()[0], policy.sizes()[-1] // 2
        # The robots take and give plain rows.
        robot = {"kind": "box", "low": [-1.0] * size[1], "high": [1.0] * size[1], "shape": [size[1]], "dtype": "float32"}
        self._parts = interface["observation"] if interface else [{"path": [], "shape": [size[0]]}]
        self._action = interface["action"] if interface else robot
        self._draws = 0

    def __repr__(self) -> str:
        about = self.about
        return f"<ecrl.Policy of {about['algorithm']} on {about['task']} after {about['env_steps']} steps>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._policy.to_bytes(), self._run)

    @property
    def task(self) -> str:
        """What it was trained on."""
        return str(self.about["task"])

    @property
    def constraints(self) -> list[str]:
        """The constraints it was trained under."""
        return list(self.about["constraints"])

    def __call__(self, observation: Any, *, sample: bool = False) -> Any:
        """The action it takes: its mean action, or a drawn one."""
        row = _spaces.lay_out(self._parts, observation)
        return _spaces.to_actions(self._action, self._act(row, sample))[0]

    def batch(self, observations: Any, *, sample: bool = False) -> NDArray[Any]:
        """The actions for many observations, stacked along the first axis, each part of a Dict by itself."""
        first = observations
        for key in self._parts[0]["path"]:
            first = first[key]
        rows = _spaces.lay_out(self._parts, observations, len(first))
        return _spaces.to_actions(self._action, self._act(rows, sample))

    def _act(self, rows: NDArray[np.float64], sample: bool) -> NDArray[np.float32]:
        self._draws += sample
        seed = self._draws if sample else None
        return self._policy.act(rows.astype(np.float32), seed)

    def seed(self, seed: int) -> None:
        """Begins what `sample=True` draws anew."""
        self._draws = int(seed) % 2**31 << 32

    def evaluate(
        self,
        env: Any = None,
        *,
        episodes: int = 20,
        seed: int = 0,
        constraints: Constraints | None = None,
        n_envs: int | None = 1,
        max_episode_steps: int | None = None,
        threads: int | None = None,
    ) -> Evaluation:
        """What it is worth: plays episodes with its mean action and with sampled ones.

        Without `env`, in the robot it moves or in what Gymnasium makes of the recipe stored with it; under the
        constraints it was trained with, or others.
        """
        if episodes < 1:
            raise ValueError(f"episodes is {episodes}; expected at least 1")
        interface = self.about.get("interface") or {}
        main = threading.current_thread() is threading.main_thread()
        if isinstance(env, str) and env in robots.NAMES:
            if env != self.task:
                raise ValueError(f"env is {env}; expected {self.task}, which it was trained on")
            env = None
        task = self._run
        if robots.is_task_file(env):
            if interface:
                raise ValueError(f"{env} is a robot's; expected an environment like {self.task}")
            env, task = None, pathlib.Path(env)
        if not interface and env is None:
            if task is None and self.task not in robots.NAMES:
                raise ValueError(f"{self.task} is the task of a file; expected that file for env, as in env='{self.task}.toml'")
            texts = None if constraints is None else _constraints.as_texts(constraints)
            return _evaluation(self._policy.evaluate(None, texts, episodes, seed, threads, main, task))
        if env is None:
            env = interface.get("recipe")
            if env is None:
                raise ValueError(f"{self.task} cannot be made from what was stored of it; expected env to be given")
        texts = self.constraints if constraints is None else _constraints.written_out(constraints)
        limit = max_episode_steps
        if limit is None and not isinstance(env, gym.vector.VectorEnv):
            limit = interface.get("max_episode_steps")
        place, _ = _environment.place_of(env, texts, limit, None if _environment.is_instance(env) else n_envs)
        return _evaluation(self._policy.evaluate(place, None, episodes, seed, threads, main))

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> pathlib.Path:
        """Writes it for other programs: as ONNX, JSON or safetensors, by the file's name or `format`."""
        path = pathlib.Path(path)
        self._policy.export(path, format or path.suffix.lstrip("."))
        return path


def _unpickled(data: bytes, run: pathlib.Path | None = None) -> Policy:
    return Policy(_ecrl.Policy.from_bytes(data), run)


def _evaluation(text: str) -> Evaluation:
    told = json.loads(text)

    def face(one: dict[str, Any]) -> Face:
        return Face(
            reward=one["reward_mean"],
            reward_sd=one["reward_sd"],
            costs={c["constraint"]: c["mean"] for c in one["constraints"]},
            feasible=one["feasible"],
            feasible_share=one["feasible_share"],
            length=one["steps_mean"],
            episodes=[{key: e[key] for key in ("reward", "steps", "constraints")} for e in one["each"]],
        )

    return Evaluation(face(told["mean_action"]), face(told["sampled_actions"]), told["feasible"])


def load(path: str | os.PathLike[str] | Run, which: Literal["best", "final"] = "best") -> Policy:
    """A policy of a run: the best that was tested again, or the learner's last; or a .safetensors file."""
    path = path.path if isinstance(path, Run) else pathlib.Path(path)
    if path.suffix == ".safetensors" and path.is_file():
        return Policy(_ecrl.Policy.open(path))
    if which not in ("best", "final"):
        raise ValueError(f"which is '{which}'; expected best or final")
    _ecrl.config(path)  # says what is wrong where it is no run
    file = path / {"best": "best.safetensors", "final": "policy.safetensors"}[which]
    if which == "best" and not file.exists() and (path / "policy.safetensors").exists():
        raise ValueError(f"{file}: not there yet: the best is chosen now and then and at the end; expected which='final'")
    # A task of one's own is the run's to tell.
    own = (path / "task.toml").exists()
    return Policy(_ecrl.Policy.open(file), path if own else None)
