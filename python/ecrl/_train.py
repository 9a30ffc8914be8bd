"""Training: what `ecrl train` and `ecrl resume` do, in any Gymnasium environment."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium as gym

from ecrl import _constraints, _ecrl, _environment, robots
from ecrl._constraints import Constraints
from ecrl._run import Run

# Steps between tests that end the episodes under way, in an environment or VectorEnv itself.
TEST_EVERY = 50_000

OnGeneration = Callable[[dict[str, Any]], "bool | None"]


def train(
    algorithm: str,
    env: Any,
    *,
    constraints: Constraints | None = None,
    steps: float | None = None,
    seed: int | None = None,
    out: str | os.PathLike[str] | None = None,
    n_envs: int | None = None,
    max_episode_steps: int | None = None,
    preset: str | None = None,
    config: str | os.PathLike[str] | None = None,
    until: str | Iterable[str] | None = None,
    start: str | os.PathLike[str] | None = None,
    force: bool = False,
    threads: int | None = None,
    checkpoint_every: str = "5min",
    on_generation: OnGeneration | None = None,
    progress: bool | None = None,
    **values: Any,
) -> Run:
    """Trains a policy that earns reward and keeps its constraints; returns the run.

    algorithm: one of `ecrl.algorithms()`.
    env: a Gymnasium id, a callable that makes an environment, an environment, a `VectorEnv`, the name of a robot
        (`ecrl.tasks()`), or the file of one of your own (FILE.toml, docs/own-robot.md).
    constraints: bounds by name, as in {"cost": 25}; costs come as info[name] of every step, or `cost` as the
        third of a step's six values. A number bounds the sum over an episode (of a robot's cost, what that
        cost implies); text says it itself, as in "mean(torque)<=0.4". Robots have torque<=0.4 unless it is said
        otherwise; () is none.
    steps: environment steps of the whole run [1e6]. seed: of all randomness [0].
    out: the run directory [runs/TASK-ALGORITHM-SEED].
    n_envs: worker processes that play, all cores by default; with 1 it is played in this process. The result
        does not depend on it. An environment itself, or a VectorEnv, is played in here.
    max_episode_steps: truncates episodes, for environments without a time limit.
    preset, config, until, start, force, threads, checkpoint_every: as the command's options.
    on_generation: called after every generation with all that was measured; False ends the training well.
    progress: whether to show how it goes; by default, as fits where it runs.
    values: any value of the algorithm by its name, as in lr=1e-3 or hidden=[64, 64]; `lambda_` is lambda.
    """
    _ecrl.find_algorithm(algorithm)
    asked: dict[str, Any] = {
        "algorithm": algorithm,
        "task": None,
        "constraints": None,
        "steps": _whole("steps", steps),
        "seed": _whole("seed", seed),
        "preset": preset,
        "config": None if config is None else pathlib.Path(config),
        "until": _texts(until),
        "start": None if start is None else pathlib.Path(start),
        "out": None if out is None else _folder(out),
        "force": force,
    }
    assignments = _assignments(values)
    place = None
    if robots.is_task_file(env) or isinstance(env, str) and env in robots.NAMES:
        if n_envs is not None or max_episode_steps is not None:
            raise ValueError(f"{env} is built in: expected threads instead of n_envs, and no max_episode_steps")
        asked["task"] = os.fspath(env)
        asked["constraints"] = None if constraints is None else _constraints.as_texts(constraints)
    else:
        if constraints is None and config is not None:
            constraints = _ecrl.constraints_in(pathlib.Path(config))
        texts = _constraints.written_out(constraints)
        place, description = _environment.place_of(env, texts, max_episode_steps, n_envs)
        lanes = description.get("lanes")
        if lanes is not None and _runs_side_by_side(algorithm):
            if not {"envs", "ppo.envs"} & values.keys():
                assignments.append(f"envs={lanes}")
            # There is nowhere else to test: each test ends the episodes under way.
            if not {"every", "test.every"} & values.keys():
                assignments.append(f"test.every={TEST_EVERY}")
    asked["values"] = assignments
    return Run(_ecrl.train(asked, place, _driving(threads, checkpoint_every, on_generation, progress)))


def resume(
    run: str | os.PathLike[str] | Run,
    env: Any = None,
    *,
    steps: float | None = None,
    constraints: Constraints | None = None,
    until: str | Iterable[str] | None = None,
    n_envs: int | None = None,
    threads: int | None = None,
    checkpoint_every: str = "5min",
    on_generation: OnGeneration | None = None,
    progress: bool | None = None,
    **values: Any,
) -> Run:
    """Goes on with a run from its last checkpoint, to more steps if asked for; returns it.

    env: as for `train`; not needed for robots, nor where Gymnasium can make the environment again.
    constraints: other thresholds from here on. values: other values from here on, such as a learning rate.
    until: as for `train`; () lifts what it was to end with.
    """
    path = run.path if isinstance(run, Run) else pathlib.Path(run)
    there = json.loads(_ecrl.config(path))
    changes = _assignments(values)
    if until is not None:
        changes.append(f"test.until={json.dumps(_texts(until))}")
    place = None
    texts: list[str] = there["constraints"]
    interface = json.loads(there["environment"] or "{}")
    if interface and "task_file" not in interface:
        if constraints is not None:
            texts = _constraints.written_out(constraints)
        if env is None:
            env = interface.get("recipe")
            if env is None:
                raise ValueError(f"{there['task']} cannot be made from what {path} has of it; expected env to be given")
        limit = None if isinstance(env, gym.vector.VectorEnv) else interface.get("max_episode_steps")
        place, description = _environment.place_of(env, texts, limit, n_envs)
        _verify(there["task"], interface, description)
    elif robots.is_task_file(env):
        raise ValueError(f"{path} keeps its own copy of its task; expected no env")
    elif env is not None and env != there["task"]:
        raise ValueError(f"{path} is a run of {there['task']}; expected that, or no env")
    elif constraints is not None:
        texts = _constraints.as_texts(constraints)
    if constraints is not None:
        changes.append(f"constraints={json.dumps(texts)}")
    driving = _driving(threads, checkpoint_every, on_generation, progress)
    _ecrl.resume(path, _whole("steps", steps), changes, place, driving)
    return Run(path)


def _verify(task: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuses another environment than the one a run was begun in."""
    if now["name"] != task:
        raise ValueError(f"the environment is {now['name']}; expected {task}, with which the run began")
    for key in ("observation", "action"):
        if now["interface"][key] != before[key]:
            raise ValueError(f"{key} is {now['interface'][key]}; expected {before[key]}, with which the run began")


def _runs_side_by_side(algorithm: str) -> bool:
    return any(row["name"] == algorithm and row["running"] for row in json.loads(_ecrl.algorithms_json()))


def _whole(name: str, number: float | None) -> int | None:
    """A whole number, which may be written as 1e6."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return _environment.whole(name, number, 0, 2**63 - 1)


def _assignments(values: dict[str, Any]) -> list[str]:
    """Values as the command takes them."""
    out = []
    for name, value in values.items():
        try:
            out.append(f"{name.removesuffix('_')}={json.dumps(value, default=_plain)}")
        except TypeError:
            raise TypeError(f"{name} is a {type(value).__name__}; expected a number, text, a flag or a list of such") from None
    return out


def _folder(out: str | os.PathLike[str]) -> pathlib.Path:
    if not os.fspath(out):
        raise ValueError("out is empty; expected a folder for the run")
    return pathlib.Path(out)


def _texts(until: str | Iterable[str] | None) -> list[str]:
    return [until] if isinstance(until, str) else list(until or ())


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy's
        return value.tolist()
    raise TypeError


def _driving(
    threads: int | None, checkpoint_every: str, on_generation: OnGeneration | None, progress: bool | None
) -> dict[str, Any]:
    if not isinstance(checkpoint_every, str):
        raise TypeError(f"checkpoint_every is {checkpoint_every!r}; expected text, as in '5min', '30s' or '10gen'")
    view, show = _view() if progress in (None, True) else ("quiet", None)
    return {
        "threads": _environment.whole("threads", threads, 1, 1024),
        "checkpoint_every": checkpoint_every,
        "callback": on_generation,
        "view": view,
        "show": show,
        # Only there can Ctrl-C be answered.
        "main": threading.current_thread() is threading.main_thread(),
    }


def _view() -> tuple[str, Callable[[str], None] | None]:
    """How a training is shown here, and where."""
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return "pages", _notebook()
    if sys.stdout is sys.__stdout__ and sys.stdout is not None and sys.stdout.isatty():
        return "terminal", None
    return "lines", _write


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _notebook() -> Callable[[str], None]:
    """Shows pictures in a notebook, each in place of the last, and all else below."""
    display: Any = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: str) -> None:
        before, *pages = text.split("\x0c")
        if before:
            _write(before)
        if pages:
            # What follows a picture's end is said, not drawn: the last page ends with the text.
            handle.update({"text/plain": pages[-1].rstrip("\n")}, raw=True)

    return show
