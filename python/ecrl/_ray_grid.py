"""Speaks with Ray for `ecrl grid --on ray`: is told which runs to make, has each made by an actor, tells how they stand.

Both by lines of JSON. Where the nodes cannot read the folder of the runs, these are held here and brought back as they
grow, and a run whose node is lost goes on from what has come back.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import signal
import sys
import threading
import time
import uuid
from typing import Any

from ecrl import _ecrl, _ray

# How often a run is asked how it stands, in seconds.
POLL = 1.0
# So many actors of a run may be lost within a short time each.
LOSSES = 5
SHORT = 60.0


def tell(says: str, **more: Any) -> None:
    # Where nobody listens any more, all that is left is to end well.
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps({"says": says, **more}), flush=True)


class Run:
    """A run that is being made."""

    def __init__(self, index: int, name: str) -> None:
        self.index, self.name = index, name
        self.actor: Any = None
        self.answer: Any = None
        self.asked = 0.0
        # When its actor answered for the first time, and how often one was lost soon after that.
        self.begun: float | None = None
        self.losses = 0
        self.place = ""
        self.held: _ecrl.Held | None = None
        self.brought: set[str] = set()
        self.log = b""


class Speaker:
    """All runs of a call."""

    def __init__(self, ray: Any, call: dict[str, Any], told: queue.Queue[dict[str, Any] | None]) -> None:
        folder = pathlib.Path(call["folder"])
        token = uuid.uuid4().hex
        # Who can read this can read the runs.
        write(folder, "ray.token", token.encode())
        self.call = {**call, "token": token, "grid": (folder / "grid.toml").read_text()}
        self.out = pathlib.Path(call["out"])
        self.ray, self.told = ray, told
        self.runs: list[Run] = []
        self.stopping = False
        options: dict[str, Any] = {"num_cpus": call["threads"], "max_restarts": 0}
        for option in call["options"]:
            name, _, value = option.partition("=")
            if name == "--mem":
                options["memory"] = size(value)
        self.runner = ray.remote(**options)(_ray.Runner)

    def work(self) -> None:
        counted = 0.0
        while self.runs or not self.stopping:
            self.listen()
            now = time.monotonic()
            if now - counted > 5.0:
                counted = now
                tell("room", processors=int(self.ray.cluster_resources().get("CPU", 0)))
            for run in self.runs:
                if run.answer is None and now - run.asked > POLL:
                    run.answer, run.asked = run.actor.poll.remote(), now
            waiting = [run.answer for run in self.runs if run.answer is not None]
            if not waiting:
                time.sleep(0.1)
                continue
            ready, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=0.2)
            for run in [run for run in self.runs if run.answer in ready]:
                self.hear(run)

    def listen(self) -> None:
        """What has been asked for since."""
        with contextlib.suppress(queue.Empty):
            while True:
                asked = self.told.get_nowait()
                if asked is None or "stop" in asked:
                    self.stop()
                elif not self.stopping:
                    run = Run(asked["run"], asked["name"])
                    self.runs.append(run)
                    self.place(run, "Ray has no room yet")

    def place(self, run: Run, why: str) -> None:
        """Asks for an actor; what it answers first is where it is."""
        run.begun, run.place = None, ""
        run.actor = self.runner.remote(self.call, run.index, run.name)
        run.answer, run.asked = run.actor.about.remote(), time.monotonic()
        tell("waiting", run=run.index, why=why)

    def hear(self, run: Run) -> None:
        """What an actor answered, or that it is there no more."""
        answer, run.answer = run.answer, None
        try:
            told = self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            return self.lost(run, error)
        try:
            if run.begun is None:
                return self.begin(run, told)
            if "files" in told:
                self.bring(run, told)
        except (OSError, ValueError) as error:
            return self.end(run, str(error))
        if told["code"] is None:
            return None
        with contextlib.suppress(Exception):
            self.ray.get(run.actor.clear.remote(), timeout=30)
        return self.end(run, told.get("fault"))

    def begin(self, run: Run, told: dict[str, Any]) -> None:
        """An actor has found room."""
        if told["version"] != _ecrl.__version__:
            expected = f"expected {_ecrl.__version__}, as here"
            return self.end(run, f"{told['place']} has ecrl {told['version']}; {expected}")
        files, times = None, None
        if not told["shared"]:
            folder = self.out / run.name
            if folder.exists() and any(folder.iterdir()) and not (folder / "config.toml").is_file():
                if any(path.name != "run.lock" for path in folder.iterdir()):
                    return self.end(run, f"{folder} holds something else than a run")
            # Only now: it may have been made meanwhile, or somebody may be at it.
            if run.held is None:
                try:
                    run.held = _ecrl.Held(folder)
                except ValueError:
                    return self.end(run, None)
                log = self.out / "logs" / f"{run.name}.txt"
                run.log = log.read_bytes() if log.is_file() else b""
            if (folder / "config.toml").is_file():
                files, stamps = _ray.read_tree(folder, {})
                times = {path: stamp[1] for path, stamp in stamps.items()}
                run.brought = set(files)
        run.begun, run.place = time.monotonic(), told["place"]
        run.actor.begin.remote(files, times)
        tell("running", run=run.index, place=run.place)
        return None

    def lost(self, run: Run, error: Exception) -> None:
        """Its node is gone, or Ray has ended its actor: it goes on elsewhere."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        # What it raised itself it would raise again.
        own = isinstance(error, self.ray.exceptions.RayTaskError) or "creation task" in str(error)
        if self.stopping or own:
            return self.end(run, lines[-1] if own else None)
        soon = run.begun is not None and time.monotonic() - run.begun < SHORT
        run.losses = run.losses + 1 if soon else 1
        if run.losses >= LOSSES:
            return self.end(run, f"its actor was lost {run.losses} times: {lines[0]}")
        with contextlib.suppress(Exception):
            self.ray.kill(run.actor)
        return self.place(run, "its node was lost")

    def bring(self, run: Run, told: dict[str, Any]) -> None:
        """Writes what has changed, each file as a whole: what says that it is a run first, what names the parts of a
        checkpoint after them."""
        folder = self.out / run.name

        def order(path: str) -> tuple[bool, bool]:
            name = pathlib.PurePosixPath(path).name
            return name != "config.toml", name.startswith("manifest-")

        for path in sorted(told["files"], key=order):
            write(folder, path, told["files"][path], told["times"][path])
            run.brought.add(path)
        for path in told["gone"]:
            if path in run.brought:
                within(folder, path).unlink(missing_ok=True)
        write(self.out / "logs", f"{run.name}.txt", run.log + told["log"])

    def end(self, run: Run, fault: str | None) -> None:
        self.runs.remove(run)
        if run.held is not None:
            run.held.release()
        # Its processors are free as soon as it is gone.
        with contextlib.suppress(Exception):
            self.ray.kill(run.actor)
        tell("ended", run=run.index, fault=fault)

    def stop(self) -> None:
        """All store what they have; those that have not begun do not begin."""
        if self.stopping:
            return
        self.stopping = True
        for run in list(self.runs):
            if run.begun is None:
                self.end(run, None)
            else:
                run.actor.stop.remote()


def size(text: str) -> int:
    """Bytes, as Slurm writes them: 2G; without a letter in megabytes."""
    letters = {"K": 10, "M": 20, "G": 30, "T": 40}
    number, letter = (text[:-1], text[-1].upper()) if text[-1:].upper() in letters else (text, "M")
    return int(number) << letters[letter]


def within(folder: pathlib.Path, path: str) -> pathlib.Path:
    """A file within a folder and nowhere else."""
    parts = pathlib.PurePosixPath(path).parts
    if not parts or pathlib.PurePosixPath(path).is_absolute() or ".." in parts:
        raise OSError(f"{path} is no file of a run")
    for link in (folder, folder / parts[0]):
        if link.is_symlink():
            raise OSError(f"{link} is a link; expected a file or folder of its own")
    return folder / path


def write(folder: pathlib.Path, path: str, data: bytes, time_ns: int | None = None) -> None:
    target = within(folder, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + _ray.PART)
    part.unlink(missing_ok=True)  # of a process that was killed
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb") as file:
        file.write(data)
    if time_ns is not None:
        # Which of two files is newer tells whether a run has ended.
        os.utime(part, ns=(time_ns, time_ns))
    os.replace(part, target)


def main() -> None:
    _ray.ignore(signal.SIGTERM, signal.SIGINT)
    told: queue.Queue[dict[str, Any] | None] = queue.Queue()
    call = json.loads(sys.stdin.readline() or "null")
    if call is None:
        return

    def read() -> None:
        # The end of what it is told, or of half a line, is the sign to end.
        with contextlib.suppress(ValueError):
            for line in sys.stdin:
                told.put(json.loads(line))
        told.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        ray = _ray.connect(sys.argv[1] if len(sys.argv) > 1 else "")
        Speaker(ray, call, told).work()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        tell("gone", why=lines[0])
        sys.exit(1)


if __name__ == "__main__":
    main()
