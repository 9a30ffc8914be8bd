"""Speaks with Ray for `ecrl train --workers`: an actor for every player, and a thread here for each line to one."""

from __future__ import annotations

import contextlib
import queue
import signal
import struct
import sys
import threading
from typing import Any, BinaryIO

from ecrl import _ecrl, _ray

# Whoever speaks for all players.
ALL = 0xFFFFFFFF


class Speaker:
    def __init__(self, output: BinaryIO) -> None:
        self.output, self.lock = output, threading.Lock()
        self.ready = threading.Semaphore(0)

    def say(self, player: int, answer: bytes | Exception) -> None:
        status, said = (0, answer) if isinstance(answer, bytes) else (1, plain(answer).encode())
        with self.lock:
            self.output.write(struct.pack("<IQB", player, len(said) + 1, status) + said)
            self.output.flush()


def plain(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def serve(ray: Any, player: int, requests: queue.Queue[bytes], speaker: Speaker) -> None:
    """Hands requests to an actor; an empty one puts another in its place."""
    make = ray.remote(num_cpus=1, max_restarts=0)(_ray.Player)
    payload = requests.get()
    actor, request = make.remote(payload), b""
    while True:
        try:
            answer: bytes | Exception = ray.get(actor.serve.remote(request))
            if not request and answer != _ecrl.__version__.encode():
                answer = ValueError(f"a node has ecrl {answer!r}; expected {_ecrl.__version__}, as here")
            elif not request:
                speaker.ready.release()
        except Exception as error:
            answer = error
        speaker.say(player, answer)
        request = requests.get()
        if not request:
            with contextlib.suppress(Exception):
                ray.kill(actor)
            # Where it can be: the processor of the one before may be gone.
            actor = make.options(num_cpus=0, scheduling_strategy="SPREAD").remote(payload)


def wait(speaker: Speaker, count: int) -> None:
    """Says what is waited for where the cluster has no room."""
    for there in range(count):
        while not speaker.ready.acquire(timeout=15):
            print(f"waiting for the Ray cluster: it has room for {there} of {count} players; Ctrl-C twice gives up", file=sys.stderr, flush=True)


def main() -> None:
    _ray.ignore(signal.SIGTERM, signal.SIGINT)
    address, count = sys.argv[1], int(sys.argv[2])
    # What Ray or a library prints must not come between.
    output = sys.stdout.buffer
    sys.stdout = sys.stderr
    speaker = Speaker(output)
    try:
        ray = _ray.connect(address)
        processors = int(ray.cluster_resources().get("CPU", 0))
        if count > processors:
            raise ValueError(f"--players is {count}; expected at most {processors}, the processors of the cluster")
        if processors == 0:
            raise ValueError("the Ray cluster has no processors")
        count = count or processors
    except Exception as error:
        return speaker.say(ALL, error)
    speaker.say(ALL, str(count).encode())
    lines: list[queue.Queue[bytes]] = []
    for player in range(count):
        lines.append(queue.Queue())
        threading.Thread(target=serve, args=(ray, player, lines[player], speaker), daemon=True).start()
    threading.Thread(target=wait, args=(speaker, count), daemon=True).start()
    told = sys.stdin.buffer
    while len(head := told.read(12)) == 12:
        player, length = struct.unpack("<IQ", head)
        request = told.read(length)
        if len(request) < length:
            break
        lines[player].put(request)
    with contextlib.suppress(Exception):
        ray.shutdown()
    return None


if __name__ == "__main__":
    main()
