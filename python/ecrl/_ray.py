"""What runs on the nodes of a Ray cluster, and how it is reached."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
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

# Of the folders in which runs are made that nobody else can read.
PREFIX = "ecrl-ray-"

# What the name of a file ends in as long as it is being written.
PART = ".ecrl-part"

Files = dict[str, bytes]
Stamps = dict[str, tuple[int, int]]


class CannotConnect(Exception):
    """Ray is not there, in one line."""


def ignore(*signs: signal.Signals) -> None:
    """The end of what it is told is the sign to end; Ctrl-C is the command's to answer."""
    for sign in signs:
        signal.signal(sign, signal.SIG_IGN)


def connect(address: str) -> Any:
    """Ray's module, connected with the cluster at an address: `ray://HOST:PORT`, or the one found here."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise CannotConnect(f"{sys.executable} has no package ray: pip install 'ray[client]'") from None
    try:
        ray.init(address=address or None, namespace="ecrl", log_to_driver=False, logging_level="error")
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise CannotConnect(f"{address or 'ray'}: {lines[0]}") from None
    # Ray listens to signals by itself.
    ignore(signal.SIGTERM, signal.SIGINT)
    return ray


def end_with_parent() -> None:
    """Has this process asked to end when the one that started it does."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def read_tree(folder: pathlib.Path, known: Stamps) -> tuple[Files, Stamps]:
    """The files of a run that are other than known, by their paths from there, and what all of them are now; without
    who writes to it. Logs are read last: they may be longer than a checkpoint says, and must not be shorter."""
    checkpoint = folder / "checkpoint"
    while True:
        before = _manifests(checkpoint)
        files, stamps = _read(folder, _within(checkpoint), known)
        if _manifests(checkpoint) == before:
            break
    others = [path for path in _within(folder) if path.parent != checkpoint and path.name != "run.lock"]
    more, rest = _read(folder, others, known)
    return files | more, stamps | rest


def _read(folder: pathlib.Path, paths: list[pathlib.Path], known: Stamps) -> tuple[Files, Stamps]:
    files: Files = {}
    stamps: Stamps = {}
    for path in paths:
        name = str(path.relative_to(folder))
        with contextlib.suppress(FileNotFoundError):
            # Before it is read: what changes meanwhile is read again.
            stamp = _stamp(path)
            if known.get(name) != stamp:
                files[name] = path.read_bytes()
            stamps[name] = stamp
    return files, stamps


def _stamp(path: pathlib.Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _within(folder: pathlib.Path) -> list[pathlib.Path]:
    """Its files, but for links and those that are being written."""
    every = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in every if not path.name.endswith(PART))


def _manifests(checkpoint: pathlib.Path) -> list[str]:
    return sorted(path.name for path in checkpoint.glob("manifest-*"))


class Runner:
    """Makes one run of a grid, or goes on with it, in a process of its own."""

    def __init__(self, call: dict[str, Any], index: int, name: str) -> None:
        self.call, self.index, self.name = call, index, name
        self.shared = _bytes(pathlib.Path(call["folder"]) / "ray.token") == call["token"].encode()
        self.out = pathlib.Path(call["out"])
        self.process: subprocess.Popen[bytes] | None = None
        self.sent: Stamps = {}
        self.synced = 0.0

    def about(self) -> dict[str, Any]:
        """Where it is, and whether it can read the folder of the runs."""
        return {"place": socket.gethostname(), "version": _ecrl.__version__, "shared": self.shared}

    def begin(self, files: Files | None, times: dict[str, int] | None) -> None:
        """Begins, from what there is of the run where that cannot be read here."""
        grid = pathlib.Path(self.call["folder"]) / "grid.toml"
        keep: tuple[int, ...] = ()
        if not self.shared:
            sweep()
            self.out = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
            # Held as long as this or the run's process lives.
            self.alive = (self.out / "alive").open("wb")
            fcntl.flock(self.alive, fcntl.LOCK_EX)
            keep = (self.alive.fileno(),)
            grid = self.out / "grid.toml"
            grid.write_text(self.call["grid"])
            for path, data in (files or {}).items():
                target = self.out / self.name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
                os.utime(target, ns=((times or {})[path],) * 2)
                self.sent[path] = _stamp(target)
        words = [sys.executable, "-m", "ecrl", "grid", "run", str(grid), "--out", str(self.out)]
        words += ["--threads", str(self.call["threads"]), "--log", "--index", str(self.index)]
        self.said = tempfile.TemporaryFile()
        origin = pathlib.Path(self.call["from"])
        self.process = subprocess.Popen(
            words,
            # Whoever comes after this one's end knows that it has ended.
            env={**os.environ, "ECRL_TASK": f"ray:{self.call['token']}:{self.index}"},
            cwd=origin if origin.is_dir() else self.out,
            stdin=subprocess.DEVNULL,
            stdout=self.said,
            stderr=self.said,
            start_new_session=True,
            preexec_fn=end_with_parent,
            pass_fds=keep,
        )

    def poll(self) -> dict[str, Any]:
        """How it stands; of a run that nobody else can read, what has changed since it was asked last."""
        assert self.process is not None
        code = self.process.poll()
        told: dict[str, Any] = {"code": code}
        if code:
            self.said.seek(0)
            lines = [line.strip() for line in self.said.read().decode(errors="replace").splitlines() if line.strip()]
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            told["fault"] = f"{lines[-1].removeprefix('error: ')} ({how})" if lines else how
        if not self.shared and (code is not None or time.monotonic() - self.synced > SYNC):
            self.synced = time.monotonic()
            told["files"], stamps = read_tree(self.out / self.name, self.sent)
            told["times"] = {path: stamps[path][1] for path in told["files"]}
            told["gone"] = [path for path in self.sent if path not in stamps]
            told["log"] = _bytes(self.out / "logs" / f"{self.name}.txt") or b""
            self.sent = stamps
        return told

    def stop(self) -> None:
        """Asks it to store what it has and end."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def clear(self) -> None:
        """Takes away what was brought back."""
        if not self.shared and self.process is not None:
            shutil.rmtree(self.out, ignore_errors=True)


def sweep() -> None:
    """Takes away what runs have left whose actor and process are gone."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / "alive").open("rb") as alive:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


def _bytes(path: pathlib.Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return path.read_bytes() if path.is_file() else None
    return None


class Player:
    """Plays episodes for a training that is elsewhere."""

    def __init__(self, payload: bytes) -> None:
        self.player = _ecrl.Player(payload)

    def serve(self, request: bytes) -> bytes:
        """Answers a request; nothing asks whether it is ready, and which version it is."""
        return self.player.serve(request) if request else _ecrl.__version__.encode()
