"""What the tests share: small trainings, and environments of every kind."""

import pathlib

import gymnasium as gym
import numpy as np
import pytest

import ecrl

# A training of a second or two.
SMALL_PPO = {"hidden": [16], "collect": 256, "epochs": 2, "test.episodes": 1, "test.retest_episodes": 2}
SMALL_SAC = {
    "hidden": [16],
    "batch": 32,
    "learning_starts": 100,
    "learner.episodes": 1,
    "grad_steps_per_env_step": 0.1,
    "test.episodes": 1,
    "test.retest_episodes": 2,
}


class Track(gym.Env):
    """A point on a line that is to be near 0: costs are the force and the speed."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def __init__(self, length=40):
        self.length = length
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.v, self.t = self.np_random.uniform(-1, 1), 0.0, 0
        return self._see(), {}

    def _see(self):
        return np.array([self.x, self.v])

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.v += 0.1 * float(action[0])
        self.x += 0.1 * self.v
        self.t += 1
        info = {"cost": abs(float(action[0])), "speed": abs(self.v)}
        return self._see(), -abs(self.x), False, self.t >= self.length, info


class Told(Track):
    """The same, and it can tell its state."""

    def get_state(self):
        return {"x": self.x, "v": np.float64(self.v), "t": self.t, "rng": self.np_random}

    def set_state(self, state):
        self.x, self.v, self.t = state["x"], state["v"], state["t"]
        self.np_random = state["rng"]


@pytest.fixture
def small(tmp_path):
    """Trains briefly in a folder of its own."""

    def train(algorithm, env, **keywords):
        values = SMALL_PPO if algorithm in ("ppo", "ppo-lag", "ipo") else SMALL_SAC
        usual = {"steps": 600, "n_envs": 1, "progress": False, "threads": 1, "out": tmp_path / "run"}
        return ecrl.train(algorithm, env, **{**usual, **values, **keywords})

    return train


def policy_bytes(run: ecrl.Run) -> bytes:
    return (pathlib.Path(run.path) / "policy.safetensors").read_bytes()
