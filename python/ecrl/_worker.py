"""A worker process: plays episodes in environments of its own until the training that started it ends."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
from collections.abc import Callable

import gymnasium as gym

from ecrl import _mujoco  # noqa: F401
from ecrl import _ecrl
from ecrl._environment import Adapter, Recipe


def prepare(payload: bytes) -> Callable[[], Adapter]:
    """What makes environments, from what `_environment.Recipe.payload` gave."""
    path, pickled, registered = pickle.loads(payload)
    sys.path[:] = path
    for one in registered:
        with contextlib.suppress(Exception):  # if it is needed, Gymnasium says that it is missing
            spec = pickle.loads(one)
            gym.registry.setdefault(spec.id, spec)
    recipe: Recipe = pickle.loads(pickled)
    return recipe.adapter


def main() -> None:
    # The line to the training is where standard input was; an environment must not read from it.
    line = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # Ctrl-C is the training's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ecrl.work(line, prepare)

