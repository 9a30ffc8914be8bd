"""A run as it stands on disk."""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ecrl import _ecrl

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped,unused-ignore]

    from ecrl._policy import Policy


class Metrics(dict[str, NDArray[Any]]):
    """What a run has measured: an array for each metric, an entry for each generation.

    Costs and multipliers have a column for each constraint. Where a generation has no such number, as most have
    no test, it is not a number. `ecrl algorithms NAME` and docs/metrics.md say what each is.
    """

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a table: a column for each number, those of constraints numbered from 0."""
        import pandas

        columns: dict[str, NDArray[Any]] = {}
        for name, values in self.items():
            if values.ndim == 1:
                columns[name] = values
            else:
                columns.update({f"{name}_{i}": values[:, i] for i in range(values.shape[1])})
        return pandas.DataFrame(columns)


class Run:
    """A run directory: what was trained, how it went, and its policies."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path).absolute()
        self.config: dict[str, Any] = json.loads(_ecrl.config(self.path))

    def __repr__(self) -> str:
        return f"<ecrl.Run {str(self.path)!r}: {self.config['algorithm']} on {self.config['task']}>"

    def metrics(self) -> Metrics:
        """What it has measured so far."""
        text = (self.path / "metrics.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        names = list(dict.fromkeys(name for line in lines for name in line))
        return Metrics({name: _column([line.get(name) for line in lines]) for name in names})

    def policy(self, which: Literal["best", "final"] = "best") -> Policy:
        """One of its policies: the best that was tested again, or the learner's last."""
        from ecrl._policy import load

        return load(self.path, which)

    def play(self, out: str | os.PathLike[str] = "play.html") -> pathlib.Path:
        """Makes a page on which a robot's best policy plays a typical episode, in 3-D; returns it."""
        from ecrl._tools import command

        command("play", str(self.path), "--html", os.fspath(out))
        return pathlib.Path(out)

    def report(self, out: str | os.PathLike[str] = "report") -> pathlib.Path:
        """Makes a report of it alone; returns its page."""
        from ecrl._tools import report

        return report(self.path, out)


def _column(values: list[Any]) -> NDArray[Any]:
    """Numbers of every generation; what is missing is not a number."""
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there):
        return np.array(["" if value is None else value for value in values])
    if any(isinstance(value, list) for value in there):
        width = max(len(value) for value in there)
        empty = [np.nan] * width
        return np.array([empty if value is None else value for value in values], dtype=np.float64).reshape(len(values), width)
    if len(there) == len(values) and all(type(value) in (int, bool) for value in there):
        return np.array(values)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
