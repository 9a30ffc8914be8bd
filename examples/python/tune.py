"""Optuna looks for a learning rate and a discount, several trials at a time in threads of one process.

    pip install optuna
    python examples/python/tune.py

What counts is reward within the constraint: a policy that breaks it is worth its violation, below all that keep it.
"""

from __future__ import annotations

import pathlib
import tempfile

import optuna

import ecrl


def worth(trial: optuna.Trial, steps: int, folder: pathlib.Path) -> float:
    run = ecrl.train(
        "ppo-lag",
        "swimmer",
        constraints={"torque": 0.4},
        steps=steps,
        out=folder / str(trial.number),
        threads=1,
        progress=False,
        lr=trial.suggest_float("lr", 1e-4, 3e-3, log=True),
        gamma=trial.suggest_float("gamma", 0.98, 0.9999),
    )
    measured = run.policy().evaluate(episodes=5)
    if measured.feasible:
        return measured.mean_action.reward
    excess = max(*measured.mean_action.costs.values(), *measured.sampled_actions.costs.values()) - 0.4
    return -1000 * excess


def main(steps: int = 50_000, trials: int = 8) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    with tempfile.TemporaryDirectory() as folder:
        study.optimize(lambda trial: worth(trial, steps, pathlib.Path(folder)), n_trials=trials, n_jobs=2)
    print(f"best of {trials}: {study.best_value:.1f} with {study.best_params}")
    return study


if __name__ == "__main__":
    main()
