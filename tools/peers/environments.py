"""Environments with random actions: Gymnasium's and ours behind the same interface."""

import time

import gymnasium as gym
import numpy as np

import ecrl  # noqa: F401 (registers ours)


def steps(task, count, mode=None, seconds=2.0):
    """Environment steps a second: of one, or of several side by side."""
    envs = gym.make(task) if count == 1 else gym.make_vec(task, num_envs=count, vectorization_mode=mode)
    envs.reset(seed=0)
    rng, shape = np.random.default_rng(0), envs.action_space.shape
    actions = [rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(64)]
    played, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for action in actions:
            outcome = envs.step(action)
            if count == 1 and (outcome[2] or outcome[3]):
                envs.reset()
        played += len(actions) * count
    taken = time.perf_counter() - start
    envs.close()
    return {"steps/s": played / taken}
