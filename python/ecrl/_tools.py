"""What there is, and what is made of many runs."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Literal, Union

from ecrl import _ecrl
from ecrl._run import Run

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An algorithm and all its values."""

    name: str
    description: str
    values: dict[str, dict[str, Any]] = dataclasses.field(repr=False)
    """Its usual values, section by section; `train` takes them by name."""
    presets: dict[str, str] = dataclasses.field(repr=False)
    """The presets it brings, and what each is for."""
    metrics: dict[str, str] = dataclasses.field(repr=False)
    """What it measures, beside what every run does."""
    choices: bool = dataclasses.field(repr=False)
    """Whether it can learn Discrete actions."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A built-in robot."""

    name: str
    description: str
    observation: int
    action: int
    steps: int
    speed_limit: float
    costs: list[dict[str, Any]] = dataclasses.field(repr=False)


def algorithms() -> dict[str, Algorithm]:
    """All algorithms, by name."""
    names = [field.name for field in dataclasses.fields(Algorithm)]
    return {row["name"]: Algorithm(**{name: row[name] for name in names}) for row in json.loads(_ecrl.algorithms_json())}


def tasks() -> dict[str, Task]:
    """The built-in robots, by name."""
    return {row["name"]: Task(**row) for row in json.loads(_ecrl.tasks())}


def report(runs: Path | Run | list[Path | Run], out: Path = "report", band: Literal["ci", "sd"] = "ci") -> pathlib.Path:
    """Makes curves, a table and statistics of runs, or of all runs in folders; returns the page."""
    if band not in ("ci", "sd"):
        raise ValueError(f"band is '{band}'; expected ci or sd")
    several = runs if isinstance(runs, list) else [runs]
    paths = [run.path if isinstance(run, Run) else pathlib.Path(run) for run in several]
    for note in _ecrl.write_report(paths, pathlib.Path(out), band == "sd"):
        print(f"note: {note}")
    return pathlib.Path(out) / "index.html"


def grid(
    file: Path, out: Path | None = None, *, on: str = "local", jobs: int | None = None, threads: int | None = None
) -> list[Run]:
    """Runs a grid of robots, algorithms and seeds, as `ecrl grid` does; returns its runs.

    on: this machine, or `ray`, `ray://HOST:PORT` or `slurm`, which returns before there are any. Started again, it goes on
    with what is unfinished.
    """
    out = pathlib.Path("experiments", pathlib.Path(file).stem) if out is None else pathlib.Path(out)
    arguments = ["grid", os.fspath(file), "--out", str(out), "--on", on]
    for name, number in (("--jobs", jobs), ("--threads", threads)):
        arguments += [] if number is None else [name, str(number)]
    command(*arguments, show=True)
    return [Run(path.parent) for path in sorted(out.glob("*/config.toml"))]


def command(*arguments: str, show: bool = False) -> None:
    """Runs the `ecrl` command in a process of its own; what it refuses is raised."""
    program = [sys.executable, "-m", "ecrl", *arguments]
    done = subprocess.run(program, stdout=None if show else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode in (130, -2):
        raise KeyboardInterrupt
    if done.returncode:
        kind = ValueError if done.returncode == 2 else RuntimeError
        raise kind(done.stderr.strip().removeprefix("error: "))
