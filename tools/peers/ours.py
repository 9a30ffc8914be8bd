"""This program, through its Python package."""

import shutil
import tempfile
import time

import gymnasium as gym
import numpy as np

import ecrl

NEVER = {"test.every": 10**12, "test.episodes": 1, "test.retest_episodes": 1, "test.retest_every": 10**12}


def train(algorithm, task, steps, skip, **values):
    """Steps a second and milliseconds of an update, from generation `skip` that learnt to the last but one, which is
    before the run's closing test."""
    folder, seen = tempfile.mkdtemp(), []

    def note(info):
        seen.append((time.perf_counter(), info["env_steps"], info["grad_steps"], info["seconds_updates"]))

    arguments = {"steps": steps, "out": folder, "force": True, "progress": False, "on_generation": note}
    ecrl.train(algorithm, task, **arguments, **NEVER, **values)
    shutil.rmtree(folder)
    seen = [one for one in seen if one[2] > 0]
    (begin, first, before, slept), (end, last, after, busy) = seen[skip], seen[-2]
    updates = 1e3 * (busy - slept) / (after - before)
    return {"steps/s": (last - first) / (end - begin), "ms/update": updates}


class Trivial(gym.Env):
    """An environment that takes no time."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self):
        self.seen, self.info = np.zeros(4, np.float32), {"cost": 0.0}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.seen, self.info

    def step(self, action):
        self.t += 1
        return self.seen, 1.0, False, self.t >= 1000, self.info


def trivial():
    """Microseconds of a step of an environment written in Python: by itself, and through us with a policy of 64-64."""
    env = Trivial()
    env.reset()
    action, count = np.zeros(2, np.float32), 100_000
    start = time.perf_counter()
    for _ in range(count):
        env.step(action)
    alone = 1e6 * (time.perf_counter() - start) / count
    with tempfile.TemporaryDirectory() as folder:
        usual = {"steps": 2048, "n_envs": 1, "progress": False, "hidden": [64, 64]}
        policy = ecrl.train("ppo", Trivial, out=f"{folder}/run", **usual).policy()
        start = time.perf_counter()
        policy.evaluate(Trivial, episodes=50, constraints={"cost": 1})
        through = 1e6 * (time.perf_counter() - start) / 100_000
    return {"us/step": through - alone}
