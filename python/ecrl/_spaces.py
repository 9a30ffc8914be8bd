"""Gymnasium's spaces as rows of numbers, and back."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]

SUPPORTED_OBSERVATIONS = "Box, or Dict of such (at any depth) with text for keys"
MOST_CHOICES = 10_000
SUPPORTED_ACTIONS = f"Box of floats with finite bounds, or Discrete of at most {MOST_CHOICES} for ppo, ppo-lag and ipo"


def observation_parts(space: gym.Space[Any], path: tuple[str, ...] = ()) -> list[Json]:
    """The parts of an observation in the order in which they are laid out: that of a Dict's own `spaces`,
    each of them row after row."""
    if isinstance(space, gym.spaces.Dict) and all(isinstance(key, str) for key in space.spaces):
        return [part for key, inner in space.spaces.items() for part in observation_parts(inner, (*path, key))]
    if isinstance(space, gym.spaces.Box):
        return [{"path": list(path), "shape": list(space.shape)}]
    where = f"observation_space{''.join(f'[{key!r}]' for key in path)}"
    raise ValueError(f"{where} is {space}; supported is {SUPPORTED_OBSERVATIONS}")


def action_of(space: gym.Space[Any]) -> Json:
    """What an action is."""
    if isinstance(space, gym.spaces.Discrete) and space.n <= MOST_CHOICES:
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    floats = isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating)
    if isinstance(space, gym.spaces.Box) and floats and space.shape != () and 0 not in space.shape:
        low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
        if np.isfinite(low).all() and np.isfinite(high).all():
            return {
                "kind": "box",
                "low": low.tolist(),
                "high": high.tolist(),
                "shape": list(space.shape),
                "dtype": str(space.dtype),
            }
    raise ValueError(f"action_space is {space}; supported is {SUPPORTED_ACTIONS}")


def lay_out(parts: list[Json], observation: Any, rows: int | None = None) -> NDArray[np.float64]:
    """An observation as a row of numbers, or with `rows` so many observations as rows."""
    count = 1 if rows is None else rows
    found = []
    for part in parts:
        value = observation
        for key in part["path"]:
            value = value[key]
        array = np.asarray(value, dtype=np.float64)
        expected = tuple(part["shape"]) if rows is None else (rows, *part["shape"])
        if array.shape != expected:
            name = f"[{'.'.join(part['path'])!r}]" if part["path"] else ""
            raise ValueError(f"the observation{name} has shape {array.shape}; expected {expected}")
        found.append(array.reshape(count, math.prod(part["shape"])))
    return np.ascontiguousarray(found[0] if len(found) == 1 else np.concatenate(found, axis=1))


def to_actions(action: Json, rows: NDArray[np.float32]) -> NDArray[Any]:
    """Rows of a policy's numbers as the environment's actions."""
    if action["kind"] == "discrete":
        return rows[:, 0].astype(np.int64) + int(action["start"])
    low, high = np.array(action["low"]), np.array(action["high"])
    clipped = np.clip(np.nan_to_num(rows.astype(np.float64)), -1.0, 1.0)
    scaled = np.clip(low + (clipped + 1.0) * 0.5 * (high - low), low, high)
    actions: NDArray[Any] = scaled.astype(action["dtype"]).reshape(-1, *action["shape"])
    return actions


def size(parts: list[Json]) -> int:
    """The numbers of an observation."""
    return sum(math.prod(part["shape"]) for part in parts)
