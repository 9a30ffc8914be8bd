"""Runs grids on a real Slurm, with two nodes on this machine, and compares them with local ones.

    make slurm        (or, with Debian's slurmctld, slurmd and munge: python3 tools/slurm_test.py [faults|overhead|scale])

faults: an array of runs of which one is killed, one requeued, one hits its time limit, and whose nodes are lost: its
runs are to the bit those of a local grid. overhead: fifty runs of ten seconds, here and there. scale: ten thousand runs
submitted and asked after. Nothing is left running, and nothing is written but in a temporary folder.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from engines import free_ports, runs_in, until

ROOT = pathlib.Path(__file__).resolve().parent.parent
ECRL = ROOT / "target/release/ecrl"
# What must be there before `make slurm`, and is asked for by name.
PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}

SHORT = """
tasks = ["hopper", "swimmer", "half-cheetah"]
algorithms = ["ipo preset=fast", "sac-lag hidden=[16,16] learning_starts=500 steps=20000"]
seeds = 2
steps = 1.5e5
"""
# One run that takes longer than a time limit of a minute, and not many times as long.
LONG = """
tasks = ["hopper"]
algorithms = ["ipo preset=fast"]
seeds = [7]
steps = {steps}
"""


class Cluster:
    """A Slurm of two nodes with a processor each, on this machine alone."""

    def __init__(self, folder, *, job_count=10_000):
        self.folder, self.running, self.spare = folder, {}, set()
        folder.chmod(0o755)
        for name in ("state", "n1", "n2"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        host, ports = socket.gethostname(), free_ports(3)
        self.conf = folder / "slurm.conf"
        nodes = "".join(
            f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i]} CPUs=1 State=UNKNOWN\n" for i in (1, 2)
        )
        self.conf.write_text(f"""
ClusterName=ecrl
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=10
SlurmdTimeout=15
MaxArraySize=1001
MaxJobCount={job_count}
MinJobAge=3600
{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        self.env = {**os.environ, "SLURM_CONF": str(self.conf)}
        self.start("munged", "munged", "--foreground", "--force", f"--socket={folder}/munge.sock", f"--key-file={key}",
                   f"--log-file={folder}/munged.log", f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed")
        until(lambda: (folder / "munge.sock").exists(), 10, "munged to start")
        self.start("slurmctld", "slurmctld", "-D", "-f", self.conf)
        for node in ("n1", "n2"):
            self.start_node(node)
        until(lambda: self.say("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2", 60, "both nodes to be idle")

    def start(self, name, *words):
        with open(self.folder / f"{name}.out", "ab") as out:
            self.running[name] = subprocess.Popen(
                [str(word) for word in words], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def start_node(self, node):
        self.start(node, "slurmd", "-D", "-f", self.conf, "-N", node)

    def kill(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def lose(self, node):
        """A node is gone, with all that runs on it."""
        ours = self.jobs_of(node)
        self.kill(node)
        for process in ours:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def jobs_of(self, node):
        """The processes of a node's jobs: Slurm's own for each, and what it has started."""
        children = {}
        for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                number, parent = int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(number)
        steps = []
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                number = int(command.parent.name)
                environment = (command.parent / "environ").read_bytes().split(b"\0")
                if b"slurmstepd" in command.read_bytes() and f"SLURM_CONF={self.conf}".encode() in environment:
                    steps.append(number)
        names = {step: pathlib.Path(f"/proc/{step}/cmdline").read_bytes().decode() for step in steps}
        on_node = self.say("squeue", "-h", "-t", "R", "-w", node, "-o", "%A").split()
        found = [step for step, name in names.items() if any(re.search(rf"\[{job}\.", name) for job in on_node)]
        for parent in found:
            found.extend(children.get(parent, []))
        return found

    def say(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True)
        return done.stdout

    def ecrl(self, *words, code=0):
        done = subprocess.run([ECRL, *map(str, words)], env=self.env, capture_output=True, text=True, cwd=self.folder)
        assert done.returncode == code, f"ecrl {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def tasks(self, state):
        """The tasks in a state, as 3_7."""
        return self.say("squeue", "-h", "--array", "-t", state, "-o", "%F_%K").split()

    def end(self):
        self.say("scancel", "--quiet", "-u", "root")
        with contextlib.suppress(AssertionError):
            until(lambda: not self.say("squeue", "-h").strip(), 60, "jobs to end")
        for name in ("n1", "n2", "slurmctld", "munged"):
            process = self.running.get(name)
            if process is not None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def numbers(status):
    """The counts of a status by their words."""
    line = next(line for line in status.splitlines() if line.startswith("# "))
    return {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", line.split("eta")[0])}


def faults(cluster):
    folder = cluster.folder
    for name, text in (("short", SHORT), ("long", LONG)):
        if name == "long":
            last = json.loads((folder / "local/hopper-ipo_preset=fast-0/metrics.jsonl").read_text().splitlines()[-1])
            text = text.format(steps=int(100 * last["env_steps"] / last["seconds"]))
        (folder / f"{name}.toml").write_text(text)
        began = time.monotonic()
        cluster.ecrl("grid", folder / f"{name}.toml", "--out", folder / "local", "--jobs", 2)
        print(f"local, {name}: {time.monotonic() - began:.0f} s", flush=True)
    out = folder / "slurm"
    told = cluster.ecrl("grid", folder / "long.toml", "--on", "slurm", "--time", "1", "--out", out)
    assert "1 submitted to Slurm as job " in told, told
    told = cluster.ecrl("grid", folder / "short.toml", "--on", "slurm", "--time", "1", "--out", out)
    assert "12 submitted to Slurm as job " in told, told
    # Asked for again, nothing is submitted twice.
    told = cluster.ecrl("grid", folder / "short.toml", "--on", "slurm", "--time", "1", "--out", out)
    assert "0 done, 12 asked for already" in told and "submitted" not in told, told

    array = told_array(cluster)
    begun = until(lambda: [task for task in cluster.tasks("R") if task.startswith(f"{array}_")], 60, "a short run to begin")
    index = begun[0].split("_")[1]
    killed = until(lambda: find(cluster, f"--index\0{index}\0", "short"), 30, "its process")
    time.sleep(2)
    os.kill(killed, signal.SIGKILL)
    status = until(lambda: failing(cluster, out), 60, "the killed run to be told of")
    print(status, flush=True)
    assert numbers(status)["failed"] == 1 and "Killed" in status, status

    requeued = until(lambda: [t for t in cluster.tasks("R") if t.startswith(f"{array}_")], 60, "another one")[0]
    time.sleep(2)
    subprocess.run(["scontrol", "requeue", requeued], env=cluster.env, check=True)
    status = until(lambda: preempted(cluster, out), 60, "the requeued run to be told of")
    print(status, flush=True)

    # The programs of a node are killed, and started again: its jobs go on.
    until(lambda: cluster.tasks("R"), 60, "something to run")
    cluster.kill("n1")
    time.sleep(3)
    cluster.start_node("n1")
    # A node is lost with its jobs: Slurm gives them to another, or to it once it is back.
    node = until(lambda: cluster.say("squeue", "-h", "-t", "R", "-o", "%N").split(), 60, "something to run")[-1]
    time.sleep(2)
    cluster.lose(node)
    print(f"{node} is lost", flush=True)
    time.sleep(3)
    cluster.start_node(node)

    def ended():
        counts = numbers(cluster.ecrl("grid", "status", out))
        return counts["done"] + counts["failed"] == 13
    until(ended, 1800, "all to end")
    # Runs that have failed are made when they are asked for again.
    print(cluster.ecrl("grid", "retry", out), flush=True)
    until(lambda: numbers(cluster.ecrl("grid", "status", out))["done"] == 13, 300, "all to be done")
    print(cluster.ecrl("grid", "status", out), flush=True)
    long_log = next((out / "logs").glob("hopper-ipo*-7.txt")).read_text()
    assert "resuming at" in long_log, "the long run never hit its time limit"
    assert runs_in(out) == runs_in(folder / "local")
    print("13 runs, to the bit those made here")

    # What is cancelled stores what it has, and goes on to the bit.
    other = folder / "cancelled"
    cluster.ecrl("grid", folder / "short.toml", "--on", "slurm", "--out", other, "--max-at-once", 1)
    until(lambda: cluster.tasks("R"), 60, "one to run")
    assert len(cluster.tasks("R")) == 1
    time.sleep(4)
    print(cluster.ecrl("grid", "cancel", other), flush=True)
    until(lambda: not cluster.say("squeue", "-h").strip(), 60, "nothing to run")
    counts = numbers(cluster.ecrl("grid", "status", other))
    assert counts["running"] == counts["waiting"] == counts["failed"] == 0, counts
    cluster.ecrl("grid", folder / "short.toml", "--out", other, "--jobs", 2)
    assert runs_in(other) == {name: run for name, run in runs_in(folder / "local").items() if not name.endswith("-7")}
    print("12 runs, cancelled there and gone on with here, the same")


def told_array(cluster):
    """The array that was submitted last."""
    return max(int(number) for number in cluster.say("squeue", "-h", "-o", "%F").split())


def find(cluster, words, grid):
    """The process of a run of one of this cluster's calls, of which the second is the short one."""
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = command.read_bytes().decode(errors="replace") + "\0"
            call = f"{cluster.folder}/slurm/calls/{2 if grid == 'short' else 1}/"
            if "grid\0run" in text and words in text and call in text:
                return int(command.parent.name)
    return None


def failing(cluster, out):
    status = cluster.ecrl("grid", "status", out)
    return status if numbers(status)["failed"] else None


def preempted(cluster, out):
    status = cluster.ecrl("grid", "status", out)
    return status if numbers(status).get("preempted") else None


def overhead(cluster):
    """Fifty runs of ten seconds, two at a time."""
    folder = cluster.folder
    steps = 100_000
    grid = lambda steps, seeds: f'tasks = ["swimmer"]\nalgorithms = ["ipo preset=fast"]\nseeds = {seeds}\nsteps = {steps}\n'
    (folder / "probe.toml").write_text(grid(steps, 2))
    began = time.monotonic()
    cluster.ecrl("grid", folder / "probe.toml", "--out", folder / "probe", "--jobs", 2)
    steps = int(steps * 10 / (time.monotonic() - began))
    (folder / "fifty.toml").write_text(grid(steps, 50))
    took = {}
    for engine in ("local", "slurm"):
        began = time.monotonic()
        more = ["--jobs", 2] if engine == "local" else ["--on", "slurm"]
        cluster.ecrl("grid", folder / "fifty.toml", "--out", folder / f"fifty-{engine}", *more)
        if engine == "slurm":
            until(lambda: not cluster.say("squeue", "-h", "-t", "R,PD,CG").strip(), 1200, "all to end")
        took[engine] = time.monotonic() - began
        print(f"{engine}: fifty runs of {steps} steps, two at a time: {took[engine]:.1f} s", flush=True)
    assert runs_in(folder / "fifty-slurm") == runs_in(folder / "fifty-local")
    more = took["slurm"] / took["local"] - 1
    print(f"Slurm takes {100 * more:.1f} % longer")
    assert more <= 0.2


def scale(cluster):
    """Ten thousand runs: submitted in pieces, asked after, cancelled."""
    folder = cluster.folder
    (folder / "one.toml").write_text('tasks = ["swimmer"]\nalgorithms = ["ppo preset=fast"]\nseeds = 1\nsteps = 5000\n')
    cluster.ecrl("grid", folder / "one.toml", "--out", folder / "one")
    (folder / "many.toml").write_text('tasks = ["swimmer"]\nalgorithms = ["ppo preset=fast"]\nseeds = 10000\nsteps = 5000\n')
    out = folder / "many"
    began = time.monotonic()
    told = cluster.ecrl("grid", folder / "many.toml", "--on", "slurm", "--out", out, "--", "--hold")
    print(told.splitlines()[1], f"in {time.monotonic() - began:.1f} s", flush=True)
    run = next((folder / "one").glob("swimmer-*"))
    began = time.monotonic()
    for seed in range(8000):
        stub = out / f"{run.name.removesuffix('-0')}-{seed}"
        stub.mkdir()
        for name in ("config.toml", "metrics.jsonl", "policy.safetensors"):
            data = (run / name).read_bytes()
            (stub / name).write_bytes(data.replace(b"seed = 0\n", f"seed = {seed}\n".encode()) if name == "config.toml" else data)
    print(f"8000 of them stand as if done ({time.monotonic() - began:.0f} s to write)", flush=True)
    for _ in range(3):
        began = time.monotonic()
        status = cluster.ecrl("grid", "status", out)
        took = time.monotonic() - began
        print(f"status in {took:.2f} s: {next(line for line in status.splitlines() if line.startswith('# '))}", flush=True)
    counts = numbers(status)
    assert counts["done"] == 8000 and counts["waiting"] == 2000, status
    assert took < 5
    began = time.monotonic()
    stub = cluster.ecrl("grid", "run", folder / "many.toml", "--out", out, "--index", 7999)
    print(f"to find that run 7999 is done: {time.monotonic() - began:.2f} s: {stub.strip()}")
    cluster.ecrl("grid", "cancel", out)


def main():
    # Asked to end, it stops what it has started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parts = {"faults": faults, "overhead": overhead, "scale": scale}
    asked = sys.argv[1:] or ["faults"]
    unknown = [part for part in asked if part not in parts]
    if unknown:
        sys.exit(f"error: '{unknown[0]}' is none of {', '.join(parts)}")
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        sys.exit(f"error: Slurm is missing: apt-get install {' '.join(missing)}")
    for part in asked:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ecrl-slurm-"))
        cluster = None
        try:
            cluster = Cluster(folder, job_count=30_000)
            print(f"-- {part}: {cluster.say('sbatch', '--version').strip()}, two nodes", flush=True)
            parts[part](cluster)
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                print(f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
            raise
        finally:
            if cluster is not None:
                cluster.end()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
