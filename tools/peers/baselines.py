"""Stable-Baselines3 and SBX, which has the same interface."""

import importlib
import time

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv


class Note(BaseCallback):
    """When each rollout began, and how much had been played."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def _on_rollout_start(self):
        self.seen.append((time.perf_counter(), self.num_timesteps))

    def _on_step(self):
        return True


def make(package, algorithm, task, hidden, envs, processes, threads, **values):
    torch.set_num_threads(threads)
    kind = SubprocVecEnv if processes else DummyVecEnv
    made = make_vec_env(task, n_envs=envs, vec_env_cls=kind)
    chosen = {"policy_kwargs": {"net_arch": hidden}, "device": "cpu", **values}
    return getattr(importlib.import_module(package), algorithm)("MlpPolicy", made, **chosen)


def ppo(package, task, hidden, steps, envs, processes, threads):
    """Steps a second from the third batch on: SBX compiles in the first."""
    values = {"n_steps": 2048 // envs, "batch_size": 64, "n_epochs": 10}
    model = make(package, "PPO", task, hidden, envs, processes, threads, **values)
    note = Note()
    model.learn(steps, callback=note)
    model.env.close()
    (begin, first), (end, last) = note.seen[2], note.seen[-1]
    return {"steps/s": (last - first) / (end - begin)}


def sac(package, task, hidden, batch, steps, envs, processes, threads):
    """Steps a second with an update a step, and milliseconds of an update alone."""
    starts = 1000
    values = {"batch_size": batch, "learning_starts": starts, "gradient_steps": -1, "train_freq": 1}
    # A fixed temperature, as ours has.
    model = make(package, "SAC", task, hidden, envs, processes, threads, ent_coef=0.1, **values)
    note = Note()
    model.learn(starts + steps, callback=note)
    seen = [one for one in note.seen if one[1] >= starts + steps // 4]
    (begin, first), (end, last) = seen[0], seen[-1]
    each = []
    for _ in range(5):
        start = time.perf_counter()
        model.train(gradient_steps=50, batch_size=batch)
        each.append((time.perf_counter() - start) / 50)
    model.env.close()
    return {"steps/s": (last - first) / (end - begin), "ms/update": 1e3 * float(np.median(each))}
