"""An environment of your own with two costs: a boiler that must be warm, on little gas and without pressure.

    python examples/python/own_environment.py

Costs are entries of `info`, named as you like; `constraints` bounds them. The environment tells its state, so that
a run that was stopped goes on to the bit.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import ecrl


class Boiler(gym.Env[NDArray[np.float64], NDArray[np.float32]]):
    """Heats water to 60 degrees; the burner takes 0 to 1, and so does the valve that lets pressure off."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(seed=seed)
        self.heat, self.pressure, self.time = self.np_random.uniform(10, 30), 1.0, 0
        return self.seen(), {}

    def seen(self) -> NDArray[np.float64]:
        return np.array([(self.heat - 60) / 20, self.pressure - 1])

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        burner, valve = float(action[0]), float(action[1])
        self.heat += 4 * burner - 0.03 * (self.heat - 10) - 2 * valve
        self.pressure = max(1.0, self.pressure + 0.2 * burner - 0.3 * valve)
        self.time += 1
        info = {"gas": burner, "pressure": max(0.0, self.pressure - 2)}
        return self.seen(), -abs(self.heat - 60) / 50, False, self.time >= 100, info

    def get_state(self) -> dict[str, Any]:
        return {"heat": self.heat, "pressure": self.pressure, "time": self.time}

    def set_state(self, state: dict[str, Any]) -> None:
        self.heat, self.pressure, self.time = state["heat"], state["pressure"], state["time"]


def main(steps: int = 60_000, out: str = "runs/boiler") -> ecrl.Evaluation:
    run = ecrl.train(
        "ppo-lag",
        Boiler,
        constraints=["mean(gas)<=0.5", "sum(pressure)<=5"],
        steps=steps,
        out=out,
        force=True,
        eta=0.4,  # a short run: multipliers must move faster than usual
    )
    worth = run.policy().evaluate(Boiler, episodes=20)
    print(worth)
    return worth


if __name__ == "__main__":
    main()
