"""What runs on the nodes of a Ray cluster, and how it is reached."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from ecrl import _ecrl

# How often, in seconds, a run that is made where nobody else can read it is brought back.
SYNC = 10.0

Files = dict[str, bytes]


class CannotConnect(Exception):
    """Ray is not there, in one line."""


def connect(address: str) -> Any:
    """Ray's module, connected with the cluster at an address: `ray://HOST:PORT`, or the one found here."""
    try:
        import ray
    except ImportError:
        raise CannotConnect(f"{sys.executable} has no package ray: pip install 'ray[client]'") from None
    # What Ray warns of is of its next versions.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray.init(address=address or None, namespace="ecrl", log_to_driver=False, logging_level="error")
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise CannotConnect(f"{address or 'ray'}: {lines[0]}") from None
    return ray


def end_with_parent() -> None:
    """Has this process asked to end when the one that started it does."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def read_tree(folder: pathlib.Path) -> Files:
    """All files of a run, by their paths from there, but for who writes to it. Logs come last: they may be longer than a
    checkpoint says, and must not be shorter."""
    files: Files = {}
    checkpoint = folder / "checkpoint"
    while True:
        before = _manifests(checkpoint)
        parts: Files = {}
        for path in _within(checkpoint):
            with contextlib.suppress(FileNotFoundError):
                parts[str(path.relative_to(folder))] = path.read_bytes()
        if _manifests(checkpoint) == before:
            break
    files.update(parts)
    for path in _within(folder):
        if path.parent != checkpoint and path.name != "run.lock":
            with contextlib.suppress(FileNotFoundError):
                files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def _within(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and ".part" not in path.name)


def _manifests(checkpoint: pathlib.Path) -> Files:
    return {path.name: path.read_bytes() for path in checkpoint.glob("*.json") if path.is_file()}


class Runner:
    """Makes one run of a grid, or goes on with it, in a process of its own."""

    def __init__(self, call: dict[str, Any], index: int, name: str, files: Files | None) -> None:
        self.name = name
        folder = pathlib.Path(call["folder"])
        self.shared = _text(folder / "ray.token") == call["token"]
        self.out = pathlib.Path(call["out"])
        grid = folder / "grid.toml"
        self.sent: dict[str, bytes] = {}
        self.synced = 0.0
        if not self.shared:
            self.out = pathlib.Path(tempfile.mkdtemp(prefix="ecrl-ray-"))
            grid = self.out / "grid.toml"
            grid.write_text(call["grid"])
            self.sent = dict(files or {})
            for path, data in self.sent.items():
                target = self.out / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        words = [sys.executable, "-m", "ecrl", "grid", "run", grid, "--out", self.out]
        words += ["--threads", str(call["threads"]), "--log", "--index", str(index)]
        self.said = tempfile.TemporaryFile()
        origin = pathlib.Path(call["from"])
        self.process = subprocess.Popen(
            words,
            # Whoever comes after this one's end knows that it has ended.
            env={**os.environ, "ECRL_TASK": f"ray:{call['token']}:{index}"},
            cwd=origin if origin.is_dir() else self.out,
            stdin=subprocess.DEVNULL,
            stdout=self.said,
            stderr=self.said,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )

    def poll(self) -> dict[str, Any]:
        """How it stands; of a run that nobody else can read, what has changed since it was asked last."""
        code = self.process.poll()
        told: dict[str, Any] = {"place": socket.gethostname(), "code": code, "version": _ecrl.__version__}
        if code:
            self.said.seek(0)
            lines = [line.strip() for line in self.said.read().decode(errors="replace").splitlines() if line.strip()]
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            told["fault"] = f"{lines[-1].removeprefix('error: ')} ({how})" if lines else how
        if not self.shared and (code is not None or time.monotonic() - self.synced > SYNC):
            self.synced = time.monotonic()
            files = read_tree(self.out / self.name)
            told["files"] = {path: data for path, data in files.items() if self.sent.get(path) != data}
            told["gone"] = [path for path in self.sent if path not in files]
            told["log"] = _bytes(self.out / "logs" / f"{self.name}.txt")
            told["lock"] = _bytes(self.out / self.name / "run.lock")
            self.sent = files
        if code is not None and not self.shared:
            shutil.rmtree(self.out, ignore_errors=True)
        return told

    def stop(self) -> None:
        """Asks it to store what it has and end."""
        if self.process.poll() is None:
            self.process.terminate()


def _text(path: pathlib.Path) -> str | None:
    return (_bytes(path) or b"").decode(errors="replace") or None


def _bytes(path: pathlib.Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None
