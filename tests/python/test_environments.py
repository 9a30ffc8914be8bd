"""Environments of every kind: each is trained in, or refused in one line."""

import sys
import types

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
    assert policy(np.zeros(4)) in (0, 1) and isinstance(policy(np.zeros(4)), np.int64)
    assert set(policy.batch(np.random.default_rng(0).normal(size=(50, 4)), sample=True)) == {0, 1}
    assert policy.evaluate(episodes=2).mean_action.reward > 0
    with pytest.raises(ValueError, match="sac takes actions in a range.*expected one of .*ipo, ppo, ppo-lag"):
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
    policy = small("ppo", Track, constraints=["sum(cost)<=1", "mean(cost)<=1", "speed<=3"]).policy()

    class Told(Track):
        """Notes what it brought."""

        brought = []

        def step(self, action):
            step = super().step(action)
            self.brought.append((step[1], step[4]["cost"], step[4]["speed"]))
            return step

    face = policy.evaluate(Told(), episodes=3).mean_action
    # The second three episodes are those with sampled actions.
    rewards, costs, speeds = np.array(Told.brought[: 3 * 40]).reshape(3, 40, 3).transpose(2, 0, 1)
    assert [e["reward"] for e in face.episodes] == pytest.approx(rewards.sum(axis=1))
    expected = [costs.sum(axis=1).mean(), costs.mean(), speeds.sum(axis=1).mean()]
    assert list(face.costs.values()) == pytest.approx(expected) and all(x > 0 for x in expected)


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
            if self.kind == "words":
                obs = "here"
        return obs, reward, terminated, truncated, info


FAULTS = {
    "raises": "RuntimeError: the motor is too hot",
    "nan reward": "the reward of Faulty is NaN; expected a finite number",
    "nan": r"observation\[1\] of Faulty is NaN; expected a finite number",
    "shape": r"the observation has shape \(3,\); expected \[2\]",
    "four": "step returned 4 values; expected",
    "text": "the reward is a str; expected a number",
    "words": "the observation is a str; expected numbers",
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
        ({"observation_space": gym.spaces.Dict({1: gym.spaces.Box(0, 1)})}, "supported is Box, or Dict.*with text for keys"),
        ({"action_space": gym.spaces.Discrete(2**31)}, "Discrete of at most 10000"),
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


@pytest.mark.parametrize(
    "shown",
    [
        lambda x: x.tolist(),
        lambda x: x.astype(np.float16),
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1][::-1],
        lambda x: np.frombuffer(b"x" + x.tobytes(), np.float64, offset=1),
        lambda x: x.astype(">f8"),
    ],
)
def test_observations_of_every_make(small, tmp_path, shown):
    class Shown(Track):
        def _see(self):
            return shown(np.round(super()._see() * 64) / 64)

    class Plain(Track):
        def _see(self):
            return np.round(super()._see() * 64) / 64

    runs = [small("sac", env, steps=80, out=tmp_path / env.__name__) for env in (Shown, Plain)]
    assert runs[0].policy().evaluate(Shown, episodes=2) == runs[1].policy().evaluate(Plain, episodes=2)


def test_numbers_in_arrays_of_one(small):
    class Boxed(Track):
        def step(self, action):
            obs, reward, terminated, truncated, info = super().step(action)
            cost = np.array([info["cost"]])
            return obs, np.array([reward]), np.bool_(terminated), np.array(truncated), {"cost": cost}

    small("sac", Boxed, constraints={"cost": 5}, steps=100)


def test_a_callable_that_returns_the_same_again(small):
    env = Track()
    with pytest.raises(ValueError, match="has returned the same environment twice; expected a new one each time"):
        small("ppo", lambda: env)


def test_ids_of_ones_own_are_known_to_workers(small):
    gym.register("EcrlTest/Own-v0", entry_point=Track, max_episode_steps=40)
    try:
        run = small("ppo", "EcrlTest/Own-v0", n_envs=2, steps=300)
        small("ppo", lambda: gym.make("EcrlTest/Own-v0"), n_envs=2, steps=300, force=True)
        # One that workers cannot load concerns nobody else.
        lost = type("Lost", (Track,), {"__module__": "nowhere"})
        sys.modules["nowhere"] = types.ModuleType("nowhere")
        sys.modules["nowhere"].Lost = lost
        gym.register("EcrlTest/Lost-v0", entry_point=lost)
        small("ppo", "Pendulum-v1", n_envs=2, steps=300, force=True)
        assert run.config["task"] == "EcrlTest/Own-v0"
    finally:
        del gym.registry["EcrlTest/Own-v0"]
        gym.registry.pop("EcrlTest/Lost-v0", None)
        sys.modules.pop("nowhere", None)


def test_what_was_made_is_closed_and_nothing_else(small):
    class Closed(Track):
        made, closed = 0, 0

        def __init__(self):
            super().__init__()
            Closed.made += 1

        def close(self):
            Closed.closed += 1

    run = small("ppo", Closed)
    assert Closed.made == Closed.closed == 4
    run.policy().evaluate(Closed, episodes=1)
    assert Closed.made == Closed.closed
    own = Closed()
    small("ppo", own, n_envs=None, force=True)
    run.policy().evaluate(own, episodes=1)
    assert Closed.made == Closed.closed + 1

    class Bare:
        """No Gymnasium class, and nothing to close."""

        observation_space, action_space = Track.observation_space, Track.action_space

        def __init__(self):
            self.inner = Track()
            self.reset, self.step = self.inner.reset, self.inner.step

    small("sac", Bare, force=True)


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
    vector = gym.vector.SyncVectorEnv([lambda: Track(7)] * 3, autoreset_mode=mode)
    run = small("ppo-lag", vector, constraints={"cost": 1}, steps=900, n_envs=None, collect=60, batch=20, **{"lr": 1e-9})
    assert run.config["ppo"]["envs"] == 3
    metrics = run.metrics()
    # Every episode is seven steps long, whatever happens in between.
    assert run.policy().evaluate(vector, episodes=5).mean_action.length == 7
    taken = np.diff(metrics["env_steps"], prepend=0)
    assert (taken == 60).all() if mode != gym.vector.AutoresetMode.NEXT_STEP else ((45 <= taken) & (taken < 60)).all()
    assert np.isfinite(metrics["rollout_reward"]).all()


class Clock(Track):
    """Observes which episode it is, and which step of it; lanes are of different lengths."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode = getattr(self, "episode", -1) + 1
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        _, _, _, truncated, info = super().step(action)
        return np.array([self.episode, float(self.t)]), float(self.t), False, truncated, info


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_no_step_of_a_vector_leads_from_one_episode_into_the_next(mode):
    from ecrl import _environment

    lengths = (3, 4, 3)
    vector = gym.vector.SyncVectorEnv([lambda n=n: Clock(n) for n in lengths], autoreset_mode=mode)
    description = _environment.describe(vector, ["sum(cost)<=1"], None)
    lanes = _environment.Lanes(vector, description["interface"], ["sum(cost)<=1"])
    now = lanes.reset(0).reshape(3, 2)
    over, ended = np.zeros(3, dtype=bool), np.zeros(3, dtype=int)
    for _ in range(30):
        before, began = now, over
        actions = np.full(3, 0.5, dtype=np.float32)
        now, reached, reward, costs, terminated, truncated, over = lanes.step(actions)
        now, reached = now.reshape(3, 2), reached.reshape(3, 2)
        for i, length in enumerate(lengths):
            if began[i]:
                assert tuple(now[i]) == (before[i][0] + 1, 0) and costs[i] == 0
                continue
            # One step further in the same episode, and its cost: half of the upper bound 2.
            assert tuple(reached[i]) == (before[i][0], before[i][1] + 1)
            assert reward[i] == reached[i][1] and costs[i] == 1.0
            assert truncated[i] == (reached[i][1] == length)
            ended[i] += truncated[i]
            if not truncated[i]:
                assert tuple(now[i]) == tuple(reached[i])
            elif mode != gym.vector.AutoresetMode.NEXT_STEP:
                assert tuple(now[i]) == (before[i][0] + 1, 0)
    assert (ended > 5).all()


@pytest.mark.parametrize("algorithm", ["ppo", "ecrl"])
@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
def test_a_vector_that_fails_between_episodes(small, algorithm, mode):
    class Once(Track):
        """Fails in the reset after an episode, at a time when no lane plays."""

        def reset(self, *, seed=None, options=None):
            self.resets = getattr(self, "resets", 0) + 1
            if self.resets > 2:
                raise OSError("no more episodes")
            return super().reset(seed=seed)

    vector = gym.vector.SyncVectorEnv([lambda: Once(5)] * 2, autoreset_mode=mode)
    more = {"population": 3} if algorithm == "ecrl" else {"test.every": 10**6}
    with pytest.raises(ecrl.EnvError, match="OSError: no more episodes"):
        small(algorithm, vector, n_envs=None, steps=100_000, **more)


@pytest.mark.parametrize("bad", [{"reward": 1.0}, {"reward": np.zeros(3)}, {"terminated": np.zeros((2, 1), bool)}])
def test_a_vector_with_odd_shapes(small, bad):
    class Odd(gym.vector.SyncVectorEnv):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            brought = {"reward": reward, "terminated": terminated, **bad}
            return obs, brought["reward"], brought["terminated"], truncated, info

    with pytest.raises(ecrl.EnvError, match=r"has shape .*; expected one for each of 2 environments"):
        small("ppo", Odd([Track] * 2), n_envs=None)


@pytest.mark.parametrize("kind", ["instance", "vector"])
def test_long_episodes_end_though_tests_are_played_in_the_same_place(small, kind):
    class Dear(Track):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {"cost": 1.0}

    env = Dear(300) if kind == "instance" else gym.vector.SyncVectorEnv([lambda: Dear(300)] * 2)
    metrics = small("ppo-lag", env, constraints={"cost": 10}, steps=2500, n_envs=None).metrics()
    # An episode is longer than what is played between two updates: its cost is seen nevertheless.
    assert np.isfinite(metrics["rollout_reward"]).any() and metrics["lambda_learner"][-1, 0] > 0.2


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
