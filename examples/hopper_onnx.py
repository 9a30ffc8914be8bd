"""Runs an exported policy on the real Gymnasium Hopper-v4 with ONNX Runtime.

    ./ecrl export runs/hopper-ecrl-0 --format onnx --out policy.onnx
    pip install onnxruntime 'gymnasium[mujoco]'
    python examples/hopper_onnx.py policy.onnx
"""

import sys

import gymnasium
import numpy as np
import onnxruntime


def policy(path):
    """From an observation to the action that the policy takes."""
    session = onnxruntime.InferenceSession(path)
    print({key: value for key, value in session.get_modelmeta().custom_metadata_map.items()})
    return lambda obs: session.run(["action"], {"observation": obs[None].astype(np.float32)})[0][0]


def episode(env, act, obs):
    """The return, the mean torque and the length of an episode that begins with `obs`."""
    total, torque, steps, done = 0.0, 0.0, 0, False
    while not done:
        action = act(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, torque, steps, done = total + reward, torque + np.abs(action).mean(), steps + 1, terminated or truncated
    return total, torque / steps, steps


if __name__ == "__main__":
    env = gymnasium.make("Hopper-v4")
    act = policy(sys.argv[1])
    for seed in range(5):
        obs, _ = env.reset(seed=seed)
        print("return %.1f, mean torque %.3f, %d steps" % episode(env, act, obs))
