"""Records what rliable computes, for the tests of the report crate.

    make fixtures      (or: python tools/rliable_fixtures.py, with rliable installed)
"""

import json
import pathlib

import numpy as np
from rliable import library, metrics

FILE = pathlib.Path(__file__).parent.parent / "crates/report/tests/fixtures/rliable.json"
REPEATS = 50_000


def main():
    rng = np.random.default_rng(0)
    runs, tasks = 7, 3
    scores = {
        "a": rng.normal([0.6, 0.5, 0.9], 0.2, (runs, tasks)).round(4),
        "b": rng.normal([0.5, 0.5, 0.6], 0.3, (runs, tasks)).round(4),
    }
    fixture = {"scores": {name: matrix.T.tolist() for name, matrix in scores.items()}}

    def record(name, values, intervals):
        fixture[name] = {"value": float(values[0]), "low": float(intervals[0][0]), "high": float(intervals[1][0])}

    def iqm(x):
        return np.array([metrics.aggregate_iqm(x)])

    values, intervals = library.get_interval_estimates(scores, iqm, reps=REPEATS)
    for name in scores:
        record(f"iqm_{name}", values[name], intervals[name])

    def improvement(x, y):
        return np.array([metrics.probability_of_improvement(x, y)])

    pair = {"improvement": (scores["a"], scores["b"])}
    values, intervals = library.get_interval_estimates(pair, improvement, reps=REPEATS)
    record("improvement", values["improvement"], intervals["improvement"])
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(fixture, indent=1) + "\n")
    print(fixture)


if __name__ == "__main__":
    main()
