"""Compares an exported policy, run by ONNX Runtime, with ecrl itself.

    make onnx      (or: python tools/onnx_test.py RUN..., with onnxruntime and gymnasium installed)

The same actions for 1000 observations; and on the real Gymnasium Hopper-v4, from the start states of
`ecrl eval`, the same returns. A robot that hops is chaotic: the two round differently in the seventh
digit, and in a long episode that may grow into a step that one of them takes and the other does not.
So most returns must agree to 0.1 %, not all.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import gymnasium
import numpy as np

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import hopper_onnx


def ecrl(*arguments):
    return subprocess.run([ROOT / "ecrl", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def check(run):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "policy.onnx"
        ecrl("export", run, "--format", "onnx", "--out", model)
        act = hopper_onnx.policy(str(model))
        tensors = pathlib.Path(folder) / "policy.safetensors"
        ecrl("export", run, "--format", "safetensors", "--out", tensors)
        obs = np.random.default_rng(0).normal(0, 2, (1000, 11)).astype(np.float32)
        lines = "\n".join(json.dumps(row.tolist()) for row in obs)
        command = ["cargo", "run", "--release", "--quiet", "--example", "act", "--", str(tensors)]
        ours = subprocess.run(command, cwd=ROOT, input=lines, check=True, capture_output=True, text=True).stdout
        ours = np.array([json.loads(line) for line in ours.splitlines()])
        theirs = np.array([act(row) for row in obs])
        assert ours.shape == theirs.shape == (1000, 3)
        apart = np.abs(ours - theirs).max()
        assert apart < 1e-5, apart

        expected = json.loads(ecrl("eval", run, "--episodes", 5, "--mean", "--json"))["mean_action"]["each"]
        env = gymnasium.make("Hopper-v4")
        returns = []
        for one in expected:
            env.reset(seed=0)
            model = env.unwrapped.model
            state = one["start"][4:]  # after the steps, the position and the time
            env.unwrapped.set_state(np.array(state[: model.nq]), np.array(state[model.nq : model.nq + model.nv]))
            total, torque, steps = hopper_onnx.episode(env, act, env.unwrapped._get_obs())
            returns.append((total, one["reward"], steps, one["steps"], torque, one["constraints"][0]))
        pairs = ", ".join(f"{theirs:.3f}/{ours:.3f}" for theirs, ours, *_ in returns)
        print(f"{run}: actions apart by {apart:.1e}; returns in Gymnasium/ours: {pairs}")
        same = [
            steps == ours and abs(total - reward) < 1e-3 * abs(reward) and abs(torque - cost) < 1e-3
            for total, reward, steps, ours, torque, cost in returns
        ]
        assert sum(same) > len(same) / 2, returns


if __name__ == "__main__":
    for name in sys.argv[1:]:
        check(pathlib.Path(name).resolve())
