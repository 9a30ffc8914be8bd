"""A training followed by MLflow and Weights & Biases through the callback, neither of which needs a network here.

    pip install mlflow wandb
    python examples/python/tracking.py
"""

from __future__ import annotations

import os
from typing import Any

import ecrl


def numbers(info: dict[str, Any]) -> dict[str, float]:
    """All that was measured as single numbers: those of several constraints numbered."""
    out: dict[str, float] = {}
    for name, value in info.items():
        if isinstance(value, list):
            out.update({f"{name}_{i}": float(one) for i, one in enumerate(value)})
        elif isinstance(value, (int, float)):
            out[name] = float(value)
    return out


def with_mlflow(steps: int, out: str) -> ecrl.Run:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{out}-mlflow.db")
    with mlflow.start_run():
        mlflow.log_params({"algorithm": "ppo-lag", "task": "swimmer"})

        def note(info: dict[str, Any]) -> None:
            mlflow.log_metrics(numbers(info), step=info["env_steps"])

        return ecrl.train("ppo-lag", "swimmer", steps=steps, out=out, force=True, on_generation=note)


def with_wandb(steps: int, out: str) -> ecrl.Run:
    import wandb

    os.makedirs(out, exist_ok=True)
    tracked = wandb.init(project="ecrl", mode="offline", dir=out, config={"algorithm": "ppo-lag", "task": "swimmer"})

    def note(info: dict[str, Any]) -> None:
        tracked.log(numbers(info), step=info["env_steps"])

    run = ecrl.train("ppo-lag", "swimmer", steps=steps, out=f"{out}/run", force=True, on_generation=note)
    tracked.finish()
    return run


def main(steps: int = 50_000, out: str = "runs/tracked") -> None:
    with_mlflow(steps, f"{out}-mlflow")
    with_wandb(steps, f"{out}-wandb")


if __name__ == "__main__":
    main()
