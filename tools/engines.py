"""What the tests of grids on real engines share."""

import json
import re
import socket
import time


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def until(what, seconds, name):
    """What it comes to, once that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"waited {seconds} s for {name}")


def lasting(run):
    """What a run leaves behind that must not depend on who made it, or how often it was cut off."""
    times = re.compile(r"seconds|steps_per_second")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [{name: value for name, value in line.items() if not times.search(name)} for line in lines]
    names = ("config.toml", "policy.safetensors", "best.safetensors", "population.jsonl")
    return lines, {name: (run / name).read_bytes() for name in names if (run / name).exists()}


def runs_in(folder):
    return {path.parent.name: lasting(path.parent) for path in folder.glob("*/config.toml")}
