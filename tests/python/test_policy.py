"""Policies: acting, measuring, shipping."""

import json
import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from conftest import Told, Track

import ecrl


@pytest.fixture
def policy(small):
    return small("ppo-lag", Track, constraints={"cost": 10}, steps=2000, lr=1e-2).policy()


def test_it_acts_as_the_environment_wants_it(policy):
    one = policy(np.array([0.5, 0.1]))
    assert one.shape == (1,) and one.dtype == np.float32 and -2 <= one[0] <= 2
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    batch = policy.batch(rows)
    assert np.array_equal(batch, np.stack([policy(row) for row in rows]))
    drawn = policy.batch(rows, sample=True)
    assert not np.array_equal(drawn, batch) and not np.array_equal(policy.batch(rows, sample=True), drawn)
    policy.seed(-(2**40))
    policy(rows[0], sample=True)
    policy.seed(3)
    first = policy(rows[0], sample=True)
    policy.seed(3)
    assert np.array_equal(policy(rows[0], sample=True), first)
    for bad in (np.zeros(3), np.zeros((2, 2)), 1.0):
        with pytest.raises(ValueError, match=r"the observation has shape .*; expected \(2,\)"):
            policy(bad)


def test_it_is_measured_with_both_faces(policy):
    worth = policy.evaluate(Track, episodes=8)
    assert worth == policy.evaluate(Track(), episodes=8) == policy.evaluate(Track, episodes=8, n_envs=2)
    assert worth != policy.evaluate(Track, episodes=8, seed=1)
    assert worth.mean_action.reward != worth.sampled_actions.reward
    assert list(worth.mean_action.costs) == ["sum(cost)<=10"]
    assert worth.feasible == (worth.mean_action.feasible and worth.sampled_actions.feasible)
    tight = policy.evaluate(Track, episodes=8, constraints={"cost": 0.0})
    assert not tight.feasible and tight.mean_action.reward == worth.mean_action.reward
    assert "mean action" in str(worth)
    with pytest.raises(ValueError, match="observations or actions are not the policy's"):
        policy.evaluate("Pendulum-v1", constraints=())
    with pytest.raises(ValueError, match="threads is 0; expected 1 to 1024"):
        policy.evaluate(Track, threads=0)
    assert policy.batch(np.zeros((0, 2))).shape == (0, 1)


def test_a_recipe_of_somebody_elses_calls_nothing(small, tmp_path):
    policy = small("ppo", "Pendulum-v1", steps=300).policy()
    recipe = json.loads(policy.about["interface"]["recipe"])
    assert policy.evaluate(episodes=1).mean_action.length == 200
    harm = tmp_path / "harm"
    crafted = {**recipe, "entry_point": "os:mkdir", "kwargs": {"path": str(harm)}}
    policy.about["interface"]["recipe"] = json.dumps(crafted)
    with pytest.raises(ValueError, match="Pendulum-v1 is not registered here as it was there; expected env to be given"):
        policy.evaluate()
    wrapper = {"name": "Harm", "entry_point": "os:mkdir", "kwargs": {"path": str(harm)}}
    policy.about["interface"]["recipe"] = json.dumps({**recipe, "additional_wrappers": [wrapper]})
    with pytest.raises(ValueError, match="has wrappers that are not Gymnasium's own"):
        policy.evaluate()
    assert not harm.exists()


def test_it_is_pickled(policy):
    again = pickle.loads(pickle.dumps(policy))
    row = np.array([0.3, -0.2])
    assert np.array_equal(again(row), policy(row)) and again.about == policy.about


def test_it_is_shipped(policy, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    rows = np.random.default_rng(1).normal(size=(20, 2)).astype(np.float32)
    session = onnxruntime.InferenceSession(policy.export(tmp_path / "policy.onnx"))
    (actions,) = session.run(None, {"observation": rows})
    assert actions.shape == (20, 1) and np.allclose(actions, policy.batch(rows), atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map["task"] == "Track"
    told = json.loads(policy.export(tmp_path / "policy.json").read_text())
    x = rows[0].astype(np.float64)
    for layer in told["layers"]:
        x = np.tanh(np.array(layer["weight"]) @ x + np.array(layer["bias"]))
    scaled = np.array(told["action"]["low"]) + (x + 1) / 2 * (np.array(told["action"]["high"]) - told["action"]["low"])
    assert np.allclose(scaled, policy(rows[0]), atol=1e-5) and "low + (x + 1) / 2" in told["how"]
    again = ecrl.load(policy.export(tmp_path / "policy.safetensors"))
    assert np.array_equal(again.batch(rows), policy.batch(rows))
    with pytest.raises(ValueError, match="the format is 'txt'; expected onnx, json or safetensors"):
        policy.export(tmp_path / "policy.txt")
    (tmp_path / "mine.onnx").write_text("something of mine")
    with pytest.raises(ValueError, match="mine.onnx"):
        policy.export(tmp_path / "mine.onnx")
    assert (tmp_path / "mine.onnx").read_text() == "something of mine"


def test_choices_are_shipped(small, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    run = small("ppo", "CartPole-v1")
    policy = run.policy()
    rows = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(policy.export(tmp_path / "policy.onnx"))
    (actions,) = session.run(None, {"observation": rows})
    assert actions.dtype == np.int64 and np.array_equal(actions[:, 0], policy.batch(rows))
    # The command ships it, too.
    command = [sys.executable, "-m", "ecrl", "export", str(run.path), "--format", "onnx", "--out", str(tmp_path / "b.onnx")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "policy.onnx").read_bytes()


def test_a_robots_policy(tmp_path):
    run = ecrl.train("ppo", "swimmer", steps=2048, out=tmp_path / "run", progress=False, hidden=[16], **{"test.retest_episodes": 2})
    policy = ecrl.load(run.path)
    worth = policy.evaluate(episodes=2)
    command = [sys.executable, "-m", "ecrl", "eval", str(run.path), "--episodes", "2", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    assert told["mean_action"]["reward_mean"] == worth.mean_action.reward
    assert told["sampled_actions"]["reward_mean"] == worth.sampled_actions.reward
    # In Gymnasium's shape, and in its own Swimmer.
    env = gym.make("ecrl/Swimmer-v0")
    theirs = gym.make("Swimmer-v4")
    a, b = env.reset(seed=5)[0], theirs.reset(seed=5)[0]
    for _ in range(100):
        a, b = env.step(policy(a))[0], theirs.step(policy(b))[0]
    assert np.array_equal(a, b)
    assert policy.evaluate(env, episodes=1, constraints={"torque": 1000}).mean_action.length == 1000
    assert run.report(tmp_path / "report").exists()
    assert policy.evaluate("swimmer", episodes=2) == worth == ecrl.load(run).evaluate(episodes=2)
    with pytest.raises(ValueError, match="env is hopper; expected swimmer"):
        policy.evaluate("hopper")


def test_what_is_no_policy(tmp_path):
    with pytest.raises(ValueError, match="nowhere"):
        ecrl.load(tmp_path / "nowhere")
    (tmp_path / "x.safetensors").write_bytes(b"garbage")
    with pytest.raises(ValueError, match="x.safetensors: not a safetensors file"):
        ecrl.load(tmp_path / "x.safetensors")


def test_states_survive_as_text():
    from ecrl import _state

    rng = np.random.default_rng(3)
    rng.normal(size=5)
    state = {
        "numbers": [1, 2.5, -0.0, float("inf"), 2**200, True, None],
        ("a", 1): (b"\x00\xff", "text", np.float32(0.1), np.arange(6, dtype=np.int16).reshape(2, 3)),
        "rng": rng,
        "nested": {"rng": [np.array(0.1), np.array([])]},
    }
    text = __import__("json").dumps(_state._encode(state))
    again = _state._decode(json.loads(text))
    assert again["numbers"] == state["numbers"] and again[("a", 1)][:3] == state[("a", 1)][:3]
    assert type(again[("a", 1)][2]) is np.float32 and np.array_equal(again[("a", 1)][3], state[("a", 1)][3])
    assert again["rng"].normal() == rng.normal()
    for kind in (np.random.PCG64DXSM, np.random.SFC64, np.random.Philox, np.random.MT19937):
        rng = np.random.Generator(kind(5))
        assert _state._decode(json.loads(json.dumps(_state._encode(rng)))).normal() == rng.normal()
    with pytest.raises(TypeError, match="get_state returned a set"):
        _state._encode({1})
    # Behind a wrapper with a state of its own, it is not all there is.
    assert _state.State.of(gym.wrappers.TimeLimit(Told(), 10)) is not None
    assert _state.State.of(gym.wrappers.RecordEpisodeStatistics(Told())) is None
    assert _state.State.of(Track()) is None
