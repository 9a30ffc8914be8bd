"""Compares the speed of two builds of ecrl: `bench update` and `bench ppo`, one after the other in turn.

    python3 tools/bench_pair.py OLD NEW [ROUNDS]

Prints for 1 and 2 threads the median over rounds of new over old; below 1 is faster. A shared machine
changes its speed from minute to minute, so only figures of the same round are compared.
"""

import json
import statistics
import subprocess
import sys

FIGURES = [("update", "ms_per_update"), ("ppo", "ms_per_minibatch"), ("ppo", "steps_per_s")]


def measure(program, bench, threads):
    command = [program, "bench", bench, "--json", "--threads", str(threads), "--rounds", "11"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    old, new = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    for threads in (1, 2):
        ratios = {figure: [] for figure in FIGURES}
        for turn in range(rounds):
            pair = [old, new] if turn % 2 == 0 else [new, old]
            for bench in ("update", "ppo"):
                found = {program: measure(program, bench, threads) for program in pair}
                for figure in [f for f in FIGURES if f[0] == bench]:
                    a, b = found[old][figure[1]], found[new][figure[1]]
                    # Steps a second: more is faster.
                    ratios[figure].append(a / b if figure[1].endswith("per_s") else b / a)
        for (bench, figure), all in ratios.items():
            each = " ".join(f"{x:.3f}" for x in all)
            print(f"{threads} thread(s)  {bench:7}{figure:18} new/old {statistics.median(all):.3f}   ({each})", flush=True)


if __name__ == "__main__":
    main()
