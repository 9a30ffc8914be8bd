"""Measures ours against its peers on this machine, alternating: make peers.

Every measurement runs in a process of its own; one round measures ours and each peer once, in turns, and a ratio is
that of one round. Figures are medians over rounds. A peer runs as it is fastest here: with one environment, or with two
in processes of their own, and with one thread of PyTorch or two, tried beforehand. Settings are the same for all:
networks, batches, epochs, updates. Nobody tests in between.
"""

import argparse
import datetime
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROBOTS = {"ant": "Ant", "half-cheetah": "HalfCheetah", "walker2d": "Walker2d", "hopper": "Hopper", "swimmer": "Swimmer"}
# How a peer may run: environments, in processes of their own, threads of PyTorch.
WAYS = [{"envs": 1, "processes": False, "threads": 1}, {"envs": 1, "processes": False, "threads": 2}]
WAYS += [{"envs": 2, "processes": True, "threads": 1}, {"envs": 2, "processes": True, "threads": 2}]


class Broken(Exception):
    """A measurement that could not be made."""


def call(python, *arguments):
    done = subprocess.run([python, *map(str, arguments)], cwd=HERE, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(module, what, **values):
    asked = {"module": module, "call": what, "values": values}
    return call(sys.executable, HERE / "one.py", json.dumps(asked))


class Peer:
    """A library beside ours, run in the way that serves it best, which is found once for each algorithm of it."""

    found = {}

    def __init__(self, name, what, once, ways, version):
        self.name, self.once, self.version = name, once, version
        if (name, what) not in self.found:
            speeds = [once(short=True, **way)["steps/s"] if len(ways) > 1 else 0 for way in ways]
            self.found[name, what] = ways[speeds.index(max(speeds))]
        self.way = self.found[name, what]

    def __call__(self):
        return self.once(short=False, **self.way)

    def told(self):
        way = self.way
        if not way:
            return f"{self.name} {self.version}"
        envs = "two environments in processes" if way.get("processes") else "one environment"
        threads = "two threads" if way["threads"] == 2 else "one thread"
        return f"{self.name} {self.version} ({envs}, {threads})"


def version(package):
    return importlib.metadata.version(package)


def baselines(name, package, distribution, what, steps, **values):
    def once(short, **way):
        return measure("baselines", what, package=package, steps=steps[short], **values, **way)

    return lambda: Peer(name, what, once, WAYS, version(distribution))


def tianshou(what, steps, **values):
    def once(short, **way):
        return measure("tianshou_", what, steps=steps[short], **values, **way)

    return lambda: Peer("Tianshou", what, once, WAYS, version("tianshou"))


def omnisafe(python, algorithm, task, hidden):
    def once(short, **way):
        values = {"algorithm": algorithm, "task": task, "hidden": hidden, "steps": [12_288, 6_144][short], **way}
        return call(python, HERE / "omnisafe_.py", json.dumps(values))

    ways = [{"envs": 1, "threads": 1}, {"envs": 1, "threads": 2}]
    return lambda: Peer("OmniSafe", algorithm, once, ways, "0.5.0")


def gymnasium(task, count, mode=None):
    def once(short):
        return measure("environments", "steps", task=task, count=count, mode=mode)

    return lambda: Peer("Gymnasium", task, once, [{}], version("gymnasium"))


def cases(other_python):
    """What is compared: a name, ours, peers, and what of it is told."""
    for count, mode in [(1, None), (8, "async")]:
        for own, name in ROBOTS.items() if count > 1 else [("hopper", "Hopper")]:
            yield (
                f"{own}: {'one environment' if count == 1 else 'eight environments'} from Python, random actions",
                lambda name=name, count=count: measure("environments", "steps", task=f"ecrl/{name}-v0", count=count),
                [gymnasium(f"{name}-v4", count, mode)],
                ["steps/s"],
            )
    lengths = [12_288, 8_192]
    for hidden, own in itertools.product(([64, 64], [256, 256]), ("hopper", "half-cheetah")):
        ours = {"algorithm": "ppo", "preset": "fast", "steps": 102_400, "skip": 2, "hidden": hidden}
        same = {"task": f"{ROBOTS[own]}-v4", "hidden": hidden}
        peers = [
            baselines("Stable-Baselines3", "stable_baselines3", "stable_baselines3", "ppo", lengths, **same),
            baselines("SBX", "sbx", "sbx-rl", "ppo", lengths, **same),
            *([tianshou("ppo", lengths, **same)] if own == "hopper" else []),
        ]
        name = f"PPO, {hidden[0]}-{hidden[1]}, {own}, end to end"
        yield name, lambda ours=ours, own=own: measure("ours", "train", task=own, **ours), peers, ["steps/s"]
        if hidden == [64, 64] and own == "hopper":
            theirs = {**ours, "task": "Hopper-v4", "n_envs": 2, "steps": 61_440}
            name = "PPO, 64-64, Gymnasium's own Hopper-v4 in both"
            yield name, lambda theirs=theirs: measure("ours", "train", **theirs), peers[:1], ["steps/s"]
    if other_python:
        ours = {"algorithm": "ppo-lag", "steps": 102_400, "skip": 2, "constraints": {"velocity": 25}}
        yield (
            "PPO-Lagrangian, 64-64, hopper under velocity<=25, end to end",
            lambda: measure("ours", "train", task="hopper", **ours),
            [omnisafe(other_python, "PPOLag", "SafetyHopperVelocity-v1", [64, 64])],
            ["steps/s"],
        )
    lengths = [1_600, 400]
    ours = {"algorithm": "sac", "steps": 9_000, "skip": 5, "hidden": [256, 256], "batch": 256}
    ours |= {"learning_starts": 1000, "learner.episodes": 1}
    same = {"task": "Hopper-v4", "hidden": [256, 256], "batch": 256}
    yield (
        "SAC, 256-256, batch 256, hopper, an update a step",
        lambda: measure("ours", "train", task="hopper", **ours),
        [
            baselines("Stable-Baselines3", "stable_baselines3", "stable_baselines3", "sac", lengths, **same),
            baselines("SBX", "sbx", "sbx-rl", "sac", lengths, **same),
            tianshou("sac", lengths, **same),
        ],
        ["steps/s", "ms/update"],
    )


def compare(name, ours, peers, units, rounds):
    """One line for each peer and unit."""
    made = []
    for peer in peers:
        try:
            made.append(peer())
        except Broken as broken:
            print(f"{name}: a peer could not be measured: {broken}", file=sys.stderr)
    everyone = [ours, *made]
    each = []
    for i in range(rounds):
        order = range(len(everyone)) if i % 2 == 0 else reversed(range(len(everyone)))
        measured = {k: everyone[k]() for k in order}
        each.append([measured[k] for k in range(len(everyone))])
    lines = []
    for (k, peer), unit in itertools.product(enumerate(made, 1), units):
        own, other = (statistics.median(row[j][unit] for row in each) for j in (0, k))
        ratios = [row[0][unit] / row[k][unit] for row in each]
        ratios = ratios if unit == "steps/s" else [1 / ratio for ratio in ratios]
        line = {"what": name, "unit": unit, "peer": peer.told(), "ours": own, "theirs": other}
        line |= {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
        print(f"{name}, {unit}: ours {own:.4g}, {peer.told()} {other:.4g}: {line['ratio']:.1f} x", flush=True)
        lines.append(line)
    return lines


def cpu():
    with open("/proc/cpuinfo") as file:
        fields = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    wide = next((name for flag, name in [("amx_bf16", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2")] if flag in fields["flags"].split()), "")
    return f"{fields['model name']}, family {fields['cpu family']}, model {fields['model']}, {wide}, {os.cpu_count()} cores"


def page(lines, loads, rounds, step):
    number = lambda x: f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
    rows = [
        f"| {l['what']} | {l['unit']} | {number(l['ours'])} | {number(l['theirs'])} | {l['peer']} | **{l['ratio']:.1f}** | {l['low']:.1f}-{l['high']:.1f} |"
        for l in lines
    ]
    packages = ["torch", "jax", "gymnasium", "mujoco", "ecrl"]
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return "\n".join(
        [
            "# How fast, beside its peers",
            "",
            "Written by `make peers`; every number here was measured in one go, ours and theirs in turns.",
            "",
            f"- {datetime.date.today().isoformat()}; {cpu()}; Python {platform.python_version()}",
            f"- {versions}",
            f"- load (one minute) at the start {loads[0]:.1f}, at the end {loads[1]:.1f}; {rounds} rounds",
            "",
            "| what | unit | ours | theirs | peer, in its fastest way | times as fast | over the rounds |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"A step of an environment written in Python takes {step:.1f} µs more through us, with a policy of 64-64, than by itself.",
            "",
            "PPO: 2048 steps a batch, 10 epochs, minibatches of 64. SAC: a fixed temperature, an update for every step. Nobody",
            "tests in between. A peer runs with one environment or two in processes, one thread of PyTorch or two, whatever was",
            "fastest here; ours on both cores. Peers play Gymnasium's `-v4` (OmniSafe its own `SafetyHopperVelocity-v1`),",
            "ours its own, which is the same to the bit; where it says so, both play Gymnasium's.",
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(prog="make peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only comparisons whose name has this in it")
    parser.add_argument("--omnisafe", help="the Python that has OmniSafe")
    parser.add_argument("--out", help="a file for the table")
    args = parser.parse_args()
    loads = [os.getloadavg()[0]]
    step = statistics.median(measure("ours", "trivial")["us/step"] for _ in range(args.rounds))
    print(f"a step of a trivial environment in Python takes {step:.1f} us more through us", flush=True)
    lines = []
    for name, ours, peers, units in cases(args.omnisafe):
        if args.only in name:
            lines += compare(name, ours, peers, units, args.rounds)
    loads.append(os.getloadavg()[0])
    table = page(lines, loads, args.rounds, step)
    print("\n" + table)
    if args.out:
        pathlib.Path(args.out).write_text(table)


if __name__ == "__main__":
    main()
