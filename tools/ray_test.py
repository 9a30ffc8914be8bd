"""Runs grids and trainings on a real Ray cluster of several nodes on this machine, and compares them with local ones.

    make ray        (or, with ecrl and ray installed: python tools/ray_test.py [shared|private|workers|cost])

shared, private: runs of which an actor is killed, and a node with all on it, where the nodes share the folder of the runs and where
they cannot read it. workers: trainings whose episodes actors play, of which one is lost. cost: what playing elsewhere costs.
Nothing is left running, and nothing is written but in a temporary folder.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from engines import free_ports, lasting, runs_in, until

ECRL = [sys.executable, "-m", "ecrl"]
RAY = str(pathlib.Path(sys.executable).parent / "ray")

GRID = """
tasks = ["hopper", "swimmer", "half-cheetah"]
algorithms = ["ipo preset=fast", "sac-lag hidden=[16,16] learning_starts=500 steps=20000"]
seeds = 2
steps = 1.5e5
"""


class Cluster:
    """A head without processors for runs, and nodes with one each."""

    def __init__(self, folder):
        self.folder, self.nodes, self.count = folder, {}, 0
        (folder / "private").mkdir()
        port, client = free_ports(1)[0], free_ports(1)[0]
        self.address, self.client = f"127.0.0.1:{port}", f"ray://127.0.0.1:{client}"
        self.env = {**os.environ, "RAY_ADDRESS": self.address, "RAY_USAGE_STATS_ENABLED": "0"}
        self.start("head", "--head", f"--port={port}", f"--ray-client-server-port={client}", "--num-cpus=0",
                   "--include-dashboard=false", f"--temp-dir={folder}/ray", "--node-ip-address=127.0.0.1")
        self.wait_for_nodes(1)

    def start(self, name, *words, within=()):
        with open(self.folder / f"{name}.out", "ab") as out:
            self.nodes[name] = subprocess.Popen(
                [*within, RAY, "start", "--block", "--object-store-memory=200000000", *words],
                env={key: value for key, value in self.env.items() if key != "RAY_ADDRESS"},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )

    def add(self, *, hidden=False):
        """Another node, which takes itself for a machine of its own; one that is hidden has another folder in the place of
        this one's `private`."""
        self.count += 1
        name = f"node{self.count}"
        boot = self.folder / f"{name}.boot"
        boot.write_text(f"{uuid.uuid4()}\n")
        steps = [f"hostname {name}", f'mount --bind "{boot}" /proc/sys/kernel/random/boot_id']
        steps += [f'mount -t tmpfs none "{self.folder}/private"'] if hidden else []
        within = ["unshare", "--uts", "--mount", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh"]
        before = self.alive()
        self.start(name, f"--address={self.address}", "--num-cpus=1", within=within)
        self.wait_for_nodes(before + 1)
        return name

    def alive(self):
        code = "import ray; ray.init(address='auto', logging_level='error', log_to_driver=False); print(sum(n['Alive'] for n in ray.nodes()))"
        done = subprocess.run([sys.executable, "-c", code], env=self.env, capture_output=True, text=True)
        return int(done.stdout.split()[-1]) if done.returncode == 0 else 0

    def wait_for_nodes(self, count):
        until(lambda: self.alive() >= count, 60, f"{count} nodes")

    def lose(self, name):
        """A node is gone with all that runs on it."""
        process = self.nodes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self):
        for name, process in reversed(self.nodes.items()):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                pass
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def ecrl(self, *words, code=0):
        done = subprocess.run([*ECRL, *map(str, words)], env=self.env, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == code, f"ecrl {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def begin(self, *words):
        return subprocess.Popen([*ECRL, *map(str, words)], env=self.env, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def processes(cluster, *parts):
    """The processes of this cluster whose command line has all of these."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            number = int(entry.name)
            if all(part in command_of(number) for part in parts) and is_of(cluster, number):
                found.append(number)
    return found


def is_of(cluster, process):
    """Whether a process, or one above it, names the cluster's folder."""
    while process > 1:
        if str(cluster.folder) in command_of(process):
            return True
        process = parent(process)
    return False


def command_of(process):
    return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")


def parent(process):
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def times(run):
    """When the files of a run were written, but for who holds it."""
    return sorted((path.name, path.stat().st_mtime_ns) for path in run.iterdir() if path.name != "run.lock")


def grid(cluster, shared):
    folder = cluster.folder
    (folder / "grid.toml").write_text(GRID)
    began = time.monotonic()
    cluster.ecrl("grid", folder / "grid.toml", "--out", folder / "local", "--jobs", 2)
    print(f"local: {time.monotonic() - began:.0f} s", flush=True)
    expected = runs_in(folder / "local")
    assert len(expected) == 12
    nodes = [cluster.add(hidden=not shared) for _ in range(2)]
    out = folder / ("shared" if shared else "private/runs")
    on = "ray" if shared else cluster.client
    began = time.monotonic()
    running = cluster.begin("grid", folder / "grid.toml", "--on", on, "--out", out)
    # An actor is killed with its run under way, then a node, and another one comes.
    def first_run():
        assert running.poll() is None, running.communicate()[0]
        return processes(cluster, "grid\0run", "--index")
    run = until(first_run, 90, "a run to begin")[0]
    time.sleep(3)
    os.kill(parent(run), signal.SIGKILL)
    print("an actor is killed", flush=True)
    if not shared:
        # One that waits there is made here meanwhile: it is left as it is.
        cluster.ecrl("grid", "run", folder / "grid.toml", "--index", 11, "--out", out)
        here = "half-cheetah-sac-lag_hidden=[16,16]_learning_starts=500_steps=20000-1"
        made = times(out / here)
    time.sleep(15)
    cluster.lose(nodes.pop())
    print("a node is lost", flush=True)
    nodes.append(cluster.add(hidden=not shared))
    print(cluster.ecrl("grid", "status", out), flush=True)
    said = running.communicate(timeout=900)[0]
    assert running.returncode == 0 and "12 of 12 runs done" in said, said
    print(said, f"{time.monotonic() - began:.0f} s", flush=True)
    assert runs_in(out) == expected
    print(f"12 runs, {'shared' if shared else 'brought back'}, to the bit those made here", flush=True)
    if not shared:
        assert times(out / here) == made, (times(out / here), made)
        logs = sorted(path.stem for path in (out / "logs").iterdir())
        assert logs == sorted(expected), logs
        assert not list(out.glob("*/*.ecrl-part"))
    # Ended in the middle, it goes on: what was stored there has come back.
    out = out.with_name("ended")
    running = cluster.begin("grid", folder / "grid.toml", "--on", on, "--out", out)
    until(lambda: processes(cluster, "grid\0run", "--index"), 60, "a run to begin")
    time.sleep(25)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=120)[0]
    assert running.returncode == 130 and "the same command again goes on" in said, said
    assert until(lambda: not processes(cluster, "grid\0run", "--index"), 30, "all runs to end")
    done = int(re.search(r"(\d+) of 12 runs done", said)[1])
    cluster.ecrl("grid", folder / "grid.toml", "--out", out, "--jobs", 2)
    assert runs_in(out) == expected
    print(f"ended after {done} runs, and gone on with here: the same", flush=True)
    for node in nodes:
        cluster.lose(node)
    # Where nobody is.
    said = cluster.ecrl("grid", folder / "grid.toml", "--on", f"ray://127.0.0.1:{free_ports(1)[0]}", "--out", folder / "none", code=1)
    assert said.count("error: ") == 1, said
    print(said.strip().splitlines()[-1])


def workers(cluster):
    folder = cluster.folder
    nodes = [cluster.add(hidden=True) for _ in range(2)]
    for name, words in {
        "ipo": ("hopper", "--algo", "ipo", "--preset", "fast", "--steps", "5e5"),
        "ecrl": ("swimmer", "--preset", "quick", "--steps", "1.5e5"),
        "ecrl-ppo": ("hopper", "--algo", "ecrl-ppo", "--steps", "4e5", "--set", "hidden=[32,32]"),
    }.items():
        cluster.ecrl("train", *words, "--quiet", "--out", folder / f"{name}-here")
        there = folder / f"{name}-there"
        running = cluster.begin("train", *words, "--quiet", "--out", there, "--workers", "ray")
        grown = lambda: (there / "metrics.jsonl").exists() and (there / "metrics.jsonl").stat().st_size > 0
        until(lambda: grown() or running.poll() is not None, 60, "a generation")
        assert running.poll() is None, running.communicate()[0]
        if name == "ecrl":
            # A node with its player: Ray knows after a while.
            cluster.lose(nodes.pop())
            lost = "a node"
        else:
            os.kill(processes(cluster, "ray::Player")[0], signal.SIGKILL)
            lost = "one of them"
        said = running.communicate(timeout=600)[0]
        assert running.returncode == 0, said
        assert lasting(folder / f"{name}-here") == lasting(there)
        print(f"{name}: played by two actors, {lost} lost: the same", flush=True)
        if name == "ecrl":
            nodes.append(cluster.add(hidden=True))
    # More than there are processors for.
    said = cluster.ecrl("train", "hopper", "--out", folder / "many", "--workers", "ray", "--players", 3, code=1)
    assert "--players is 3; expected at most 2" in said, said
    running = cluster.begin("train", "hopper", "--algo", "ipo", "--steps", "1e5", "--out", folder / "stopped", "--workers", "ray")
    until(lambda: (folder / "stopped/metrics.jsonl").exists() and (folder / "stopped/metrics.jsonl").stat().st_size, 90, "a generation")
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=60)[0]
    assert running.returncode == 130, said
    cluster.ecrl("resume", folder / "stopped", "--quiet")
    assert until(lambda: not processes(cluster, "ray::Player"), 30, "players to end")
    for node in nodes:
        cluster.lose(node)


def cost(cluster):
    """Steps a second with one thread here, with two, and with two actors on this machine."""
    for _ in range(2):
        cluster.add()
    tasks = {
        "swimmer": ("swimmer", "--algo", "ppo", "--preset", "fast", "--steps", "4e5"),
        "hopper": ("hopper", "--algo", "ppo", "--preset", "fast", "--steps", "2e5"),
        "ant": ("ant", "--algo", "ppo", "--preset", "fast", "--steps", "1e5"),
        "ant, ecrl, no updates": ("ant", "--steps", "4e4", "--set", "learning_starts=900000", "--set", "population=20"),
    }
    for name, words in tasks.items():
        speeds = {"one": [], "here": [], "there": []}
        for round in range(3):
            for place, more in (("one", ["--threads", "1"]), ("here", ["--threads", "2"]), ("there", ["--workers", "ray"])):
                out = cluster.folder / f"cost-{round}-{place}"
                cluster.ecrl("train", *words, "--quiet", "--force", "--out", out, *more)
                last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
                speeds[place].append(last["env_steps"] / last["seconds_collect"] if "seconds_collect" in last else 0)
        one, here, there = (sorted(speeds[place])[1] for place in ("one", "here", "there"))
        print(f"{name}: playing {one:.0f} steps/s on one thread, {here:.0f} on two, {there:.0f} by two actors: {there / one:.2f} and {there / here:.2f} times as many", flush=True)


def main():
    # Asked to end, it stops what it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parts = {
        "shared": lambda cluster: grid(cluster, True),
        "private": lambda cluster: grid(cluster, False),
        "workers": workers,
        "cost": cost,
    }
    asked = sys.argv[1:] or ["shared", "private", "workers"]
    unknown = [part for part in asked if part not in parts]
    if unknown:
        sys.exit(f"error: '{unknown[0]}' is none of {', '.join(parts)}")
    for part in asked:
        # Ray's sockets need a short path.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="er-"))
        cluster = None
        try:
            cluster = Cluster(folder)
            print(f"-- {part}", flush=True)
            parts[part](cluster)
        except BaseException:
            for log in sorted(folder.glob("*.out")):
                print(f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
            raise
        finally:
            if cluster is not None:
                cluster.end()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
