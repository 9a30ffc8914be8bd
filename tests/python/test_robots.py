"""The robots as Gymnasium environments, against Gymnasium's own."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ecrl

IDS = ["Ant", "HalfCheetah", "Walker2d", "Hopper", "Swimmer"]


@pytest.mark.parametrize("name", IDS)
def test_they_are_gymnasiums_to_the_bit(name):
    keywords = {"use_contact_forces": False} if name == "Ant" else {}
    ours, theirs = gym.make(f"ecrl/{name}-v0"), gym.make(f"{name}-v4", **keywords)
    rng = np.random.default_rng(0)
    for seed in (0, 7):
        a, b = ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0]
        assert np.array_equal(a, b)
        for _ in range(300):
            action = rng.uniform(-1, 1, ours.action_space.shape).astype(np.float32)
            a, b = ours.step(action), theirs.step(action)
            assert np.array_equal(a[0], b[0]) and a[1:4] == b[1:4]
            assert a[4]["torque"] == pytest.approx(np.abs(action).mean())
            if a[2] or a[3]:
                # The next episode, from the same generator.
                assert np.array_equal(ours.reset()[0], theirs.reset()[0])


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_nothing_wrong(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gym.make(f"ecrl/{name}-v0").unwrapped, skip_render_check=True)
    told = [str(warning.message) for warning in caught]
    # Observations without bounds, as Gymnasium's own have them.
    assert all("infinity" in text for text in told), told


def test_many_are_as_one_alone():
    many = gym.make_vec("ecrl/Hopper-v0", num_envs=3)
    alone = [gym.make("ecrl/Hopper-v0") for _ in range(3)]
    obs, _ = many.reset(seed=11)
    expected = [env.reset(seed=11 + i)[0] for i, env in enumerate(alone)]
    assert np.array_equal(obs, expected)
    rng, over = np.random.default_rng(1), [False] * 3
    ended = 0
    for _ in range(200):
        actions = rng.uniform(-1, 1, (3, 3)).astype(np.float32)
        obs, rewards, terminated, truncated, info = many.step(actions)
        for i, env in enumerate(alone):
            if over[i]:
                assert np.array_equal(obs[i], env.reset()[0]) and rewards[i] == 0 and not info["_cost"][i]
                over[i] = False
                ended += 1
                continue
            step = env.step(actions[i])
            assert np.array_equal(obs[i], step[0]) and (rewards[i], terminated[i]) == step[1:3]
            assert info["torque"][i] == step[4]["torque"] and info["cost"][i] == step[4]["velocity"]
            over[i] = step[2] or step[3]
    assert ended > 3 and not truncated.any()


def test_their_time_limit_and_costs():
    env = gym.make("ecrl/Swimmer-v0", cost="torque")
    env.reset(seed=0)
    steps = [env.step(np.full(2, 0.5, dtype=np.float32)) for _ in range(1000)]
    assert [step[3] for step in steps] == [False] * 999 + [True]
    assert steps[0][4]["cost"] == 0.5
    many = gym.make_vec("ecrl/Swimmer-v0", num_envs=2)
    many.reset(seed=0)
    assert [bool(many.step(np.zeros((2, 2), np.float32))[3].all()) for _ in range(1000)] == [False] * 999 + [True]
    with pytest.raises(ValueError, match="cost is 'heat'; expected torque or velocity"):
        gym.make("ecrl/Swimmer-v0", cost="heat")


def test_a_state_holds_everything():
    env = gym.make("ecrl/Walker2d-v0").unwrapped
    env.reset(seed=1)
    actions = np.random.default_rng(2).uniform(-1, 1, (40, 6)).astype(np.float32)
    [env.step(action) for action in actions[:20]]
    state = env.get_state()
    first = [env.step(action)[0] for action in actions[20:]]
    env.reset(seed=5)
    env.set_state(state)
    assert np.array_equal([env.step(action)[0] for action in actions[20:]], first)


def test_training_in_them_is_exact_when_resumed(small, tmp_path):
    from conftest import policy_bytes

    whole = small("ppo", "ecrl/Hopper-v0", constraints={"torque": "mean(torque)<=0.4"}, steps=1200, out=tmp_path / "whole")
    parts = small(
        "ppo",
        "ecrl/Hopper-v0",
        constraints=["mean(torque)<=0.4"],
        steps=1200,
        out=tmp_path / "parts",
        on_generation=lambda info: info["env_steps"] < 500,
    )
    assert policy_bytes(ecrl.resume(parts, n_envs=1, progress=False)) == policy_bytes(whole)
