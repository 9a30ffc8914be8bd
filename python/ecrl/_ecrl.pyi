"""The compiled part: what the package calls. Users need nothing of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EnvError",
    "Held",
    "Place",
    "Player",
    "Policy",
    "Robots",
    "__version__",
    "algorithms_json",
    "command",
    "config",
    "constraints_in",
    "find_algorithm",
    "resume",
    "tasks",
    "train",
    "work",
    "write_report",
]

__version__: str

class EnvError(RuntimeError):
    """The environment raised an exception, or brought what nobody can learn from."""

    run: str
    """The run directory, which can be gone on with from its last checkpoint."""

@final
class Place:
    """Where Python's environments are played in."""

    def __new__(cls, kind: str, how: Any, description: str, count: int = 1) -> Place: ...

@final
class Held:
    """Holds a run's folder until it is given back."""

    def __new__(cls, folder: Path) -> Held: ...
    def release(self) -> None:
        """Gives it back."""

@final
class Player:
    """Plays for a training elsewhere."""

    def __new__(cls, made_of: bytes) -> Player: ...
    def serve(self, request: bytes) -> bytes:
        """Answers a request."""

@final
class Policy:
    """A policy: rows of numbers to rows of numbers."""

    @staticmethod
    def open(path: Path) -> Policy: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Policy: ...
    def to_bytes(self) -> bytes: ...
    def about(self) -> str: ...
    def sizes(self) -> list[int]: ...
    def act(self, observations: NDArray[np.float32], seed: int | None = None) -> NDArray[np.float32]: ...
    def export(self, path: Path, format: str) -> None: ...
    def evaluate(
        self,
        place: Place | None,
        constraints: list[str] | None,
        episodes: int,
        seed: int,
        threads: int | None,
        main: bool,
        task: Path | None = None,
    ) -> str: ...

@final
class Robots:
    """Some robots of a kind, stepped side by side."""

    def __new__(cls, task: str, count: int, threads: int) -> Robots: ...
    def start_of(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float, bool]: ...
    def start(self, robot: int, qpos: NDArray[np.float64], qvel: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def begin(self, robot: int, qpos: NDArray[np.float64], qvel: NDArray[np.float64]) -> None: ...
    def state(self, robot: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def capture(self, robot: int) -> NDArray[np.float64]: ...
    def restore(self, robot: int, state: NDArray[np.float64]) -> None: ...
    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[
        NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]
    ]: ...

def command(arguments: list[str], program: list[str]) -> int: ...
def tasks() -> str: ...
def algorithms_json() -> str: ...
def find_algorithm(name: str) -> None: ...
def config(run: Path) -> str: ...
def constraints_in(file: Path) -> list[str]: ...
def write_report(runs: list[Path], out: Path, deviation: bool) -> list[str]: ...
def train(asked: dict[str, Any], place: Place | None, driving: dict[str, Any]) -> Path: ...
def resume(
    run: Path, steps: int | None, changes: list[str], place: Place | None, driving: dict[str, Any]
) -> None: ...
def work(line: int, make: Callable[[bytes], Callable[[], Any]]) -> None: ...
