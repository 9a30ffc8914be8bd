"""Speaks with Ray for `ecrl grid --on ray`: is told which runs to make, has each made by an actor, tells how they stand.

Both by lines of JSON. Where the nodes cannot read the folder of the runs, these are brought back as they grow, and a run
whose node is lost goes on from what has come back.
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
    print(json.dumps({"says": says, **more}), flush=True)


class Run:
    """A run that is being made."""

    def __init__(self, index: int, name: str) -> None:
        self.index, self.name = index, name
        self.actor: Any = None
        self.answer: Any = None
        self.asked = 0.0
        self.begun = 0.0
        self.losses = 0
        self.place: str | None = None
        self.brought: set[str] = set()


class Speaker:
    """All runs of a call."""

    def __init__(self, ray: Any, call: dict[str, Any], told: queue.Queue[dict[str, Any] | None]) -> None:
        folder = pathlib.Path(call["folder"])
        token = uuid.uuid4().hex
        # Who can read this can read the runs.
        (folder / "ray.token").write_text(token)
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
                    self.begin(run)

    def begin(self, run: Run) -> None:
        folder = self.out / run.name
        files = _ray.read_tree(folder, {})[0] if (folder / "config.toml").is_file() else None
        if files is None and folder.exists() and any(folder.iterdir()):
            return self.end(run, f"{folder} holds something else than a run")
        run.begun = time.monotonic()
        run.brought = set(files or ())
        # Where the folder is shared, its files are read there.
        payload = self.ray.put(files) if files is not None else None
        run.actor = self.runner.options(name=f"{self.call['token']}-{run.index}-{run.losses}").remote(
            self.call, run.index, run.name, payload
        )
        run.answer, run.asked, run.place = run.actor.poll.remote(), run.begun, None
        tell("waiting", run=run.index, why="Ray has no room yet" if not run.losses else "its node was lost")

    def hear(self, run: Run) -> None:
        """What an actor answered, or that it is there no more."""
        answer, run.answer = run.answer, None
        try:
            told = self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            return self.lost(run, error)
        if told["version"] != _ecrl.__version__:
            self.ray.kill(run.actor)
            versions = f"{told['version']}; expected {_ecrl.__version__}, as here"
            return self.end(run, f"{told['place']} has ecrl {versions}")
        if "files" in told:
            try:
                self.bring(run, told)
            except OSError as error:
                self.ray.kill(run.actor)
                return self.end(run, f"cannot bring it back: {error}")
        if told["code"] is None:
            if run.place != told["place"]:
                run.place = told["place"]
                tell("running", run=run.index, place=run.place)
            return None
        self.ray.kill(run.actor)
        return self.end(run, told.get("fault"))

    def lost(self, run: Run, error: Exception) -> None:
        """Its node is gone, or Ray has ended its actor: it goes on elsewhere."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        if not isinstance(error, self.ray.exceptions.RayActorError) or "creation task" in str(error):
            return self.end(run, lines[-1])
        if self.stopping:
            return self.end(run, None)
        run.losses = run.losses + 1 if time.monotonic() - run.begun < SHORT else 1
        if run.losses >= LOSSES:
            return self.end(run, f"its actor was lost {run.losses} times: {lines[0]}")
        if run.brought:
            self.unlock(run)
        return self.begin(run)

    def bring(self, run: Run, told: dict[str, Any]) -> None:
        """Writes what has changed, each file as a whole; parts of a checkpoint before what names them."""
        folder = self.out / run.name
        late = ("manifest-", "config.toml")
        for path, data in sorted(told["files"].items(), key=lambda item: pathlib.Path(item[0]).name.startswith(late)):
            write(folder, path, data)
            run.brought.add(path)
        for path in told["gone"]:
            if path in run.brought and path.startswith("checkpoint/"):
                place(folder, path).unlink(missing_ok=True)
        if told["log"] is not None:
            write(self.out / "logs", f"{run.name}.txt", told["log"])
        if folder.exists() and told["lock"] is not None:
            # So that others here see who is at it.
            write(folder, "run.lock", told["lock"])

    def unlock(self, run: Run) -> None:
        lock = self.out / run.name / "run.lock"
        if lock.exists():
            lock.write_bytes(b"")

    def end(self, run: Run, fault: str | None) -> None:
        self.runs.remove(run)
        tell("ended", run=run.index, fault=fault)

    def stop(self) -> None:
        """All store what they have; those that have not begun do not begin."""
        if self.stopping:
            return
        self.stopping = True
        for run in list(self.runs):
            if run.place is None:
                ready, _ = self.ray.wait([run.answer], timeout=0)
                if not ready:
                    self.ray.kill(run.actor)
                    self.end(run, None)
                    continue
            run.actor.stop.remote()


def size(text: str) -> int:
    """Bytes, as Slurm writes them: 2G; without a letter in megabytes."""
    letters = {"K": 10, "M": 20, "G": 30, "T": 40}
    number, letter = (text[:-1], text[-1].upper()) if text[-1:].upper() in letters else (text, "M")
    return int(float(number) * 2 ** letters[letter])


def place(folder: pathlib.Path, path: str) -> pathlib.Path:
    """A file within a folder and nowhere else."""
    parts = pathlib.PurePosixPath(path).parts
    if not parts or pathlib.PurePosixPath(path).is_absolute() or ".." in parts:
        raise OSError(f"{path} is no file of a run")
    if (folder / parts[0]).is_symlink() or folder.is_symlink():
        raise OSError(f"{folder / parts[0]} is a link; expected a file or folder of its own")
    return folder / path


def write(folder: pathlib.Path, path: str, data: bytes) -> None:
    target = place(folder, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + _ray.PART)
    part.write_bytes(data)
    os.replace(part, target)


def main() -> None:
    # The end of what it is told is the sign to end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    told: queue.Queue[dict[str, Any] | None] = queue.Queue()
    call = json.loads(sys.stdin.readline() or "null")
    if call is None:
        return

    def read() -> None:
        for line in sys.stdin:
            told.put(json.loads(line))
        told.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        ray = _ray.connect(sys.argv[1] if len(sys.argv) > 1 else "")
        Speaker(ray, call, told).work()
    except (_ray.CannotConnect, OSError, ValueError) as error:
        tell("gone", why=str(error))
        sys.exit(1)
    except ConnectionError as error:
        tell("gone", why=f"the connection was lost: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
