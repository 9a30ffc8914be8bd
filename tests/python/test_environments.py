"""Environments of every kind: each is trained in, or refused in one line."""

import gymnasium as gym
import numpy as np
import pytest
from conftest import Track

import ecrl


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_gymnasiums_own(small, name):
    run = small("ppo-lag", name, steps=300)
    action = run.policy("final")(gym.make(name).observation_space.sample())
    assert gym.make(name).action_space.contains(action)
    assert run.config["task"] == name


def test_choices(small):
    run = small("ppo", "CartPole-v1", constraints=None)
    policy = run.policy()
    assert policy(np.zeros(4)) in (0, 1) and isinstance(policy(np.zeros(4)), int)
    assert set(policy.batch(np.random.default_rng(0).normal(size=(50, 4)), sample=True)) == {0, 1}
    assert policy.evaluate(episodes=2).mean_action.reward > 0
    with pytest.raises(ValueError, match="sac takes actions in a range.*expected one of ipo, ppo, ppo-lag"):
        small("sac", "CartPole-v1", out=run.path.parent / "other")


def test_choices_are_learnt(tmp_path):
    values = {"hidden": [32], "collect": 1024, "lr": 3e-3, "batch": 128, "test.every": 20_000, "normalise_advantages": True}
    run = ecrl.train("ppo", "CartPole-v1", steps=20_000, n_envs=1, out=tmp_path / "run", progress=False, **values)
    worth = run.policy().evaluate(episodes=10)
    assert worth.mean_action.reward > 250, worth


class Numbered(gym.Env):
    """Pays for the second of three choices, which are numbered from -1."""

    observation_space = gym.spaces.Box(0, 1, (), np.float32)
    action_space = gym.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.float32(0.5), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return np.float32(0.5), float(action == 0), False, self.t == 10, {}


def test_choices_with_other_numbers(small):
    run = small("ppo", Numbered, steps=4000, lr=1e-2, epochs=4)
    assert run.policy()(np.float32(0.5)) == 0


class Nested(gym.Env):
    """A Dict with a picture and a Dict in it, and an action of two rows."""

    observation_space = gym.spaces.Dict(
        {
            "z": gym.spaces.Box(0, 255, (2, 3), np.uint8),
            "a": gym.spaces.Dict({"deep": gym.spaces.Box(-1, 1, (2,), np.float32), "one": gym.spaces.Box(-1, 1, (), np.float64)}),
        }
    )
    action_space = gym.spaces.Box(np.array([[0.0, -4.0], [1.0, 2.0]]), np.array([[1.0, 4.0], [3.0, 2.5]]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def _see(self):
        deep = np.array([0.25, -0.5], dtype=np.float32)
        return {"z": np.arange(6, dtype=np.uint8).reshape(2, 3), "a": {"deep": deep, "one": np.array(0.125)}}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return self._see(), 1.0, False, self.t == 20, {}


def test_dicts_are_laid_out_in_their_own_order(small):
    run = small("ppo", Nested, steps=300)
    policy = run.policy()
    env = Nested()
    observation, _ = env.reset()
    # Gymnasium sorts a Dict's keys: a.deep, a.one, z.
    expected = np.concatenate([[0.25, -0.5], [0.125], np.arange(6)])
    from ecrl import _spaces

    parts = policy.about["interface"]["observation"]
    assert np.array_equal(_spaces.lay_out(parts, observation)[0], expected)
    assert np.array_equal(gym.spaces.flatten(env.observation_space, observation), expected)
    assert env.action_space.contains(policy(observation))
    stacked = gym.vector.utils.concatenate(
        env.observation_space, [observation] * 3, gym.vector.utils.create_empty_array(env.observation_space, 3)
    )
    assert np.allclose(policy.batch(stacked), policy(observation))


class SixValues(Track):
    """As in Safety-Gymnasium: the cost is the third of a step's six values."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, info.pop("cost"), terminated, truncated, info


def test_six_values(small):
    run = small("ppo-lag", SixValues, constraints={"cost": 10, "speed": "mean(speed)<=0.5"})
    assert run.config["constraints"] == ["sum(cost)<=10", "mean(speed)<=0.5"]
    costs = run.metrics()["learner_cost"]
    assert costs.shape[1] == 2 and (costs[~np.isnan(costs)] > 0).any()


def test_the_costs_are_those_of_the_environment(small):
    run = small("ppo", Track, constraints=["sum(cost)<=1", "mean(cost)<=1", "speed<=3"])
    face = run.policy().evaluate(Track, episodes=3).mean_action
    total, mean, speed = face.costs.values()
    assert total == pytest.approx(mean * 40) and speed > 0
    # By hand.
    env, policy, rewards = Track(), run.policy(), []
    assert {e["steps"] for e in face.episodes} == {40}
    obs, _ = env.reset(seed=3)
    done = False
    while not done:
        obs, reward, _, done, info = env.step(policy(obs))
        rewards.append(reward)
    assert len(rewards) == 40


def test_a_cost_that_is_not_there(small):
    with pytest.raises(ecrl.EnvError, match="there is no cost 'temperature' in info; there is cost, speed"):
        small("ppo", Track, constraints={"temperature": 1})


class Faulty(Track):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.steps = kind, 0

    def step(self, action):
        self.steps += 1
        obs, reward, terminated, truncated, info = super().step(action)
        if self.steps == 500:
            if self.kind == "raises":
                raise RuntimeError("the motor is too hot")
            if self.kind == "nan reward":
                reward = float("nan")
            if self.kind == "nan":
                obs[1] = np.nan
            if self.kind == "shape":
                obs = np.zeros(3)
            if self.kind == "four":
                return obs, reward, truncated, info
            if self.kind == "text":
                reward = "much"
        return obs, reward, terminated, truncated, info


FAULTS = {
    "raises": "RuntimeError: the motor is too hot",
    "nan reward": "the reward of Faulty is NaN; expected a finite number",
    "nan": r"observation\[1\] of Faulty is NaN; expected a finite number",
    "shape": r"the observation has shape \(3,\); expected \[2\]",
    "four": "step returned 4 values; expected",
    "text": "the reward is a .*str.*; expected a number",
}


@pytest.mark.parametrize(
    ("algorithm", "kind", "workers"),
    [("ppo", "raises", 2), ("ppo", "nan", 2), *((name, kind, 1) for name in ("ppo", "sac") for kind in FAULTS)],
)
@pytest.mark.filterwarnings("ignore:.*cannot tell its state")
def test_what_breaks_down_ends_the_training_and_can_be_resumed(small, algorithm, kind, workers):
    expected = FAULTS[kind]
    with pytest.raises(ecrl.EnvError, match=expected) as raised:
        small(algorithm, lambda: Faulty(kind), steps=5000, checkpoint_every="1gen", n_envs=workers)
    if kind == "raises":
        assert "in step" in str(raised.value.__cause__) or isinstance(raised.value.__cause__, RuntimeError)
    run = ecrl.resume(raised.value.run, lambda: Renamed(), steps=5000, n_envs=1, progress=False)
    assert run.metrics()["env_steps"][-1] >= 5000


class Renamed(Track):
    pass


Renamed.__name__ = "Faulty"


def test_one_that_never_ends(small):
    class Endless(Track):
        def step(self, action):
            obs, reward, _, _, info = super().step(action)
            return obs, reward, False, False, info

    for algorithm in ("ppo", "sac"):
        with pytest.raises(ecrl.EnvError, match="has not ended after 10000 steps; expected max_episode_steps="):
            small(algorithm, Endless, force=True)
    run = small("sac", Endless, max_episode_steps=30, force=True)
    assert run.policy().evaluate(Endless, episodes=2).mean_action.length == 30


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ({"action_space": gym.spaces.MultiDiscrete([2, 2])}, "action_space is MultiDiscrete.*supported is Box of floats"),
        ({"action_space": gym.spaces.Box(-np.inf, 1, (1,))}, "action_space is Box.*finite bounds"),
        ({"action_space": gym.spaces.Box(0, 9, (1,), np.int64)}, "action_space is Box.*supported is Box of floats"),
        ({"observation_space": gym.spaces.Discrete(3)}, "observation_space is Discrete.*supported is Box, or Dict"),
        (
            {"observation_space": gym.spaces.Dict(a=gym.spaces.MultiBinary(2))},
            r"observation_space\['a'\] is MultiBinary",
        ),
        ({"observation_space": gym.spaces.Box(0, 1, (0,))}, "expected at least one number"),
    ],
)
def test_spaces_that_are_not_supported(small, space, expected):
    env = type("Odd", (Track,), space)
    with pytest.raises(ValueError, match=expected):
        small("ppo", env)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ("Hoper-v4", "or one of the robots: ant, half-cheetah"),
        ("hoper", "or one of the robots"),
        (7, "env is a int; expected a Gymnasium id, a callable"),
        (lambda: 7, "the environment is a int without observation_space"),
    ],
)
def test_what_is_no_environment(small, env, expected):
    with pytest.raises((ValueError, TypeError), match=expected):
        small("ppo", env)


def test_an_instance_is_played_in_itself(small):
    env = Track()
    run = small("ppo", env, steps=600, n_envs=None)
    assert len(env.actions) > 600 and run.config["ppo"]["envs"] == 1
    # A new array each time: environments keep them.
    assert len({id(action) for action in env.actions[:100]}) == 100
    small("sac", Track(), n_envs=None, out=run.path.parent / "sac")
    with pytest.raises(ValueError, match="n_envs is 2 with an environment itself"):
        small("ppo", env, n_envs=2)


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_vectors_in_every_mode(small, mode):
    made = []

    class Counted(Track):
        """Notes what follows what, so that no step leads from one episode into the next."""

        def __init__(self):
            super().__init__(length=7)
            made.append(self)

    vector = gym.vector.SyncVectorEnv([Counted] * 3, autoreset_mode=mode)
    run = small("ppo-lag", vector, constraints={"cost": 1}, steps=900, n_envs=None, collect=60, batch=20, **{"lr": 1e-9})
    assert run.config["ppo"]["envs"] == 3
    metrics = run.metrics()
    # Every episode is seven steps long, whatever happens in between.
    assert run.policy().evaluate(vector, episodes=5).mean_action.length == 7
    taken = np.diff(metrics["env_steps"], prepend=0)
    assert (taken == 60).all() if mode != gym.vector.AutoresetMode.NEXT_STEP else ((45 <= taken) & (taken < 60)).all()
    assert np.isfinite(metrics["rollout_reward"]).all()


def test_a_vector_without_a_mode(small):
    vector = gym.vector.SyncVectorEnv([Track] * 2)
    vector.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode.*is missing"):
        small("ppo", vector, n_envs=None)
    with pytest.raises(ValueError, match="envs is 3; expected 2"):
        small("ppo", gym.vector.SyncVectorEnv([Track] * 2), n_envs=None, envs=3)


def test_whole_episodes_of_a_vector(small):
    vector = gym.vector.SyncVectorEnv([Track] * 2)
    run = small("ecrl", vector, constraints={"cost": 20}, steps=300, n_envs=None, population=3)
    assert run.metrics()["population_reward_mean"].size
