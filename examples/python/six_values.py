"""An environment of Safety-Gymnasium's kind: a step brings six values, the third of them is the cost.

    python examples/python/six_values.py

Safety-Gymnasium itself pins older versions of Gymnasium and MuJoCo and cannot be installed beside this; what is
written in its style is brought as it is. Here is a point that is to reach a goal around a hazard.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import ecrl

Row = NDArray[np.float64]


class PointGoal:
    """Moves in a square; a hazard of radius 0.4 lies between the start and the goal, each step in it costs 1."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    goal, hazard = np.array([0.9, 0.0]), np.array([0.0, 0.0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Row, dict[str, Any]]:
        rng = np.random.default_rng(seed)
        self.place, self.time = np.array([-0.9, rng.uniform(-0.3, 0.3)]), 0
        return self.seen(), {}

    def seen(self) -> Row:
        return np.concatenate([self.place, self.goal - self.place])

    def step(self, action: NDArray[np.float32]) -> tuple[Row, float, float, bool, bool, dict[str, Any]]:
        before = np.linalg.norm(self.goal - self.place)
        self.place = np.clip(self.place + 0.06 * action, -1.5, 1.5)
        after = np.linalg.norm(self.goal - self.place)
        cost = float(np.linalg.norm(self.place - self.hazard) < 0.4)
        self.time += 1
        arrived = bool(after < 0.15)
        reward = float(before - after) + (1.0 if arrived else 0.0)
        return self.seen(), reward, cost, arrived, self.time >= 150, {}

    def close(self) -> None:
        pass


def main(steps: int = 200_000, out: str = "runs/point-goal") -> ecrl.Evaluation:
    # A small η: with a large one, λ is beyond all reward before it has learnt that there is a way around.
    run = ecrl.train("ppo-lag", PointGoal, constraints={"cost": 1.0}, steps=steps, out=out, force=True, eta=0.05)
    worth = run.policy().evaluate(PointGoal, episodes=20)
    print(worth)
    return worth


if __name__ == "__main__":
    main()
