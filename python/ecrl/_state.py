"""The state of an environment that can tell it, as text that holds it to the bit.

An environment is one of these if it has `get_state()` and `set_state(state)`. A state may be made of numbers,
text, bytes, lists, tuples, dicts, numpy arrays and numpy random generators; nothing is pickled, so that to
resume somebody else's run is to run no code of theirs.
"""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np

# Wrappers whose own state is known; behind any other, an environment's state is not all there is.
_PLAIN = (gym.wrappers.OrderEnforcing, gym.wrappers.PassiveEnvChecker)


_KINDS = (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
_BITS: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}


class State:
    """Tells and takes the state of an environment."""

    def __init__(self, env: Any, own: Any, limits: list[gym.wrappers.TimeLimit[Any, Any]]) -> None:
        self._env, self._own, self._limits, self._warned = env, own, limits, False

    @classmethod
    def of(cls, env: Any) -> State | None:
        """The state of an environment, if it can tell it."""
        own, limits = env, []
        while not (callable(getattr(type(own), "get_state", None)) and callable(getattr(type(own), "set_state", None))):
            if isinstance(own, gym.wrappers.TimeLimit):
                limits.append(own)
            elif not isinstance(own, _PLAIN):
                return None
            own = own.env
        return cls(env, own, limits)

    def dump(self) -> str | None:
        """The state as text; none where it cannot be told, which is said once."""
        elapsed = [limit._elapsed_steps for limit in self._limits]
        try:
            return json.dumps([elapsed, _encode(self._own.get_state())])
        except Exception as error:
            if not self._warned:
                self._warned = True
                told = f"{type(error).__name__}: {error}"
                warnings.warn(f"the environment's state cannot be stored ({told}): a resumed run is not to the bit")
            return None

    def load(self, text: str) -> None:
        """Goes back to a state."""
        elapsed, state = json.loads(text)
        # Wrappers refuse a step before the first reset.
        self._env.reset()
        self._own.set_state(_decode(state))
        for limit, steps in zip(self._limits, elapsed):
            limit._elapsed_steps = steps


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufcSU":
        array = np.asarray(value)
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"array": [array.dtype.str, list(array.shape), data, isinstance(value, np.generic)]}
    if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in _BITS:
        return {"generator": _encode(value.bit_generator.state)}
    raise TypeError(f"get_state returned a {type(value).__name__}; expected numbers, text, arrays and what is made of them")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tuple":
        return tuple(_decode(item) for item in inner)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in inner}
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "array":
        dtype, shape, data, scalar = inner
        array = np.frombuffer(base64.b64decode(data), dtype=dtype).reshape(shape).copy()
        return array[()] if scalar else array
    if kind == "generator":
        state = _decode(inner)
        bits = _BITS[state["bit_generator"]]()
        bits.state = state
        return np.random.Generator(bits)
    raise TypeError(f"a state of kind '{kind}' is unknown")
