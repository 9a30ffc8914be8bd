"""Training, resuming, calling back, stopping."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from conftest import SMALL_PPO, Told, Track, policy_bytes

import ecrl


@pytest.mark.parametrize("algorithm", ["ppo-lag", "ecrl"])
def test_the_same_policy_whatever_the_number_of_workers(small, tmp_path, algorithm):
    more = {"population": 4} if algorithm == "ecrl" else {}
    made = []
    for workers in (1, 2, 4):
        run = small(algorithm, Track, constraints={"cost": 10}, n_envs=workers, out=tmp_path / str(workers), **more)
        made.append(policy_bytes(run))
    assert made[0] == made[1] == made[2]
    other = small(algorithm, Track, constraints={"cost": 10}, seed=1, out=tmp_path / "other", **more)
    assert policy_bytes(other) != made[0]


def test_robots_give_the_bits_of_the_command(tmp_path):
    values = ["--set=hidden=[16]", "--set=collect=256", "--set=epochs=2", "--set=test.episodes=1", "--set=test.retest_episodes=2"]
    arguments = ["train", "hopper", "--algo", "ipo", "--steps", "600", "--constraint", "torque<=0.4", "--quiet", *values]
    command = [sys.executable, "-m", "ecrl", *arguments, "--out", str(tmp_path / "command")]
    assert subprocess.run(command).returncode == 0
    # The installed script is the same program.
    script = os.path.join(os.path.dirname(sys.executable), "ecrl")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout.startswith("ecrl 0.")
    run = ecrl.train("ipo", "hopper", constraints={"torque": 0.4}, steps=600, out=tmp_path / "python", progress=False, **SMALL_PPO)
    assert policy_bytes(run) == policy_bytes(ecrl.Run(tmp_path / "command"))
    assert run.config["constraints"] == ["mean(torque)<=0.4"]
    usual = ecrl.train("ipo", "hopper", steps=600, out=tmp_path / "usual", progress=False, **SMALL_PPO)
    assert policy_bytes(usual) == policy_bytes(run)


def test_metrics_are_arrays(small):
    run = small("ecrl", Track, constraints={"cost": 10, "speed": 1}, population=3)
    metrics = run.metrics()
    generations = metrics["generation"]
    assert np.array_equal(generations, np.arange(1, generations.size + 1))
    assert metrics["lambda_learner"].shape == (generations.size, 2)
    pandas = pytest.importorskip("pandas")
    table = metrics.to_pandas()
    assert isinstance(table, pandas.DataFrame) and "lambda_learner_1" in table and len(table) == generations.size


def test_resumed_to_the_bit_where_an_environment_tells_its_state(small, tmp_path):
    whole = small("ppo", lambda: gym.wrappers.TimeLimit(Told(10_000), 130), steps=1500, out=tmp_path / "whole")
    for number, workers in enumerate((1, 2)):
        path = tmp_path / f"parts{number}"
        stopped = small(
            "ppo",
            lambda: gym.wrappers.TimeLimit(Told(10_000), 130),
            steps=1500,
            out=path,
            n_envs=workers,
            on_generation=lambda info: info["env_steps"] < 700,
        )
        assert 700 <= stopped.metrics()["env_steps"][-1] < 1500
        resumed = ecrl.resume(path, lambda: gym.wrappers.TimeLimit(Told(10_000), 130), n_envs=workers, progress=False)
        assert policy_bytes(resumed) == policy_bytes(whole)


def test_resumed_where_it_cannot_it_says_so(small):
    run = small("ppo", lambda: Track(10_000_000), steps=1500, max_episode_steps=1000, on_generation=lambda info: info["env_steps"] < 700)
    with pytest.warns(UserWarning, match="Track cannot tell its state: episodes under way begin anew"):
        ecrl.resume(run, lambda: Track(10_000_000), n_envs=1, progress=False)
    assert run.metrics()["env_steps"][-1] >= 1500


def test_whole_episodes_need_no_state(small, tmp_path):
    whole = small("sac", Track, steps=900, out=tmp_path / "whole")
    stopped = small("sac", Track, steps=900, out=tmp_path / "parts", on_generation=lambda info: info["env_steps"] < 300)
    assert stopped.metrics()["env_steps"][-1] < 900
    assert policy_bytes(ecrl.resume(stopped, Track, n_envs=1, progress=False)) == policy_bytes(whole)


def test_what_gymnasium_can_make_again_need_not_be_given(small):
    run = small("ppo", lambda: gym.make("Pendulum-v1", g=5.0), steps=300, lr_decay=False)
    # The episodes under way are told of.
    with pytest.warns(UserWarning, match="begin anew"):
        assert ecrl.resume(run.path, steps=600, n_envs=1, progress=False).metrics()["env_steps"][-1] >= 600
    assert run.policy().evaluate(episodes=1).mean_action.length == 200
    own = small("ppo", Track, out=run.path.parent / "own")
    for call in (lambda: ecrl.resume(own, steps=1000), lambda: own.policy().evaluate()):
        with pytest.raises(ValueError, match="Track cannot be made from what.*expected env to be given"):
            call()
    with pytest.raises(ValueError, match="the environment is Track; expected Pendulum-v1"):
        ecrl.resume(run, Track, steps=2000)


@pytest.mark.filterwarnings("ignore:.*cannot tell its state")
def test_other_thresholds_from_here_on(small):
    run = small("ppo-lag", Track, constraints={"cost": 10}, on_generation=lambda info: False)
    again = ecrl.resume(run, Track, constraints={"cost": 5}, n_envs=1, progress=False)
    assert again.config["constraints"] == ["sum(cost)<=5"]


def test_the_callback_sees_all_and_may_end_it(small):
    seen = []

    def note(info):
        seen.append(info)
        return len(seen) < 2

    run = small("ppo", Track, steps=5000, on_generation=note)
    assert [info["generation"] for info in seen] == [1, 2]
    assert isinstance(seen[0]["learner_reward"], float) and seen[0]["env_steps"] == 256
    assert run.metrics()["env_steps"][-1] == 512


@pytest.mark.filterwarnings("ignore:.*cannot tell its state")
def test_what_the_callback_raises_comes_through_and_nothing_is_lost(small, tmp_path):
    def fail(info):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        small("ppo", Track, steps=5000, on_generation=fail)
    assert ecrl.resume(tmp_path / "run", Track, steps=5000, n_envs=1, progress=False, on_generation=lambda info: False)


def test_threads_train_side_by_side(small, tmp_path):
    alone = small("sac", Track, out=tmp_path / "alone")
    runs = {}

    def one(i):
        runs[i] = small("sac", Track, out=tmp_path / f"thread{i}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [policy_bytes(runs[i]) for i in range(3)] == [policy_bytes(alone)] * 3


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_stores_what_there_is(tmp_path, workers):
    program = f"""
        import ecrl, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from conftest import Track, SMALL_SAC
        try:
            ecrl.train("sac", Track, steps=10_000_000, n_envs={workers}, out={str(tmp_path / "run")!r}, **SMALL_SAC)
        except KeyboardInterrupt:
            print("stopped well")
    """
    command = [sys.executable, "-u", "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if "learner: reward" in line:
                break
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
        assert child.returncode == 0 and "stopped well" in rest and "stopped sac on Track" in rest, rest
    assert any((tmp_path / "run" / "checkpoint").iterdir())


def test_ctrl_c_twice_ends_it_at_once(tmp_path):
    program = f"""
        import ecrl, signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from conftest import Track, SMALL_SAC

        class Slow(Track):
            def step(self, action):
                if self.t == 0:
                    print("playing", flush=True)
                time.sleep(0.05)
                return super().step(action)
        try:
            ecrl.train("sac", lambda: Slow(2000), steps=10_000_000, n_envs=int(sys.argv[1]), out={str(tmp_path)!r} + sys.argv[1], **SMALL_SAC)
        except KeyboardInterrupt:
            print("stopped")
    """
    for workers in ("1", "2"):
        command = [sys.executable, "-u", "-c", textwrap.dedent(program), workers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            while "playing" not in child.stdout.readline():
                pass
            child.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.5)
            child.send_signal(signal.SIGINT)
            told, _ = child.communicate(timeout=60)
            assert "stopped" in told and child.returncode == 0


@pytest.mark.parametrize("moment", [0.05, 0.3])
def test_ctrl_c_at_a_terminal_reaches_everybody_and_stops_well(tmp_path, moment):
    program = f"""
        import ecrl, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from conftest import Track, SMALL_SAC
        print("begins", flush=True)
        try:
            ecrl.train("sac", Track, steps=10_000_000, n_envs=2, progress=False, out={str(tmp_path / "run")!r}, **SMALL_SAC)
        except KeyboardInterrupt:
            print("stopped well")
    """
    command = [sys.executable, "-u", "-c", textwrap.dedent(program)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as child:
        assert child.stdout.readline() == "begins\n"
        time.sleep(moment)
        os.killpg(child.pid, signal.SIGINT)
        told, errors = child.communicate(timeout=30)
    assert (child.returncode, told, errors) == (0, "stopped well\n", "")


def test_ctrl_c_ends_a_measurement(tmp_path, small):
    small("sac", Track)
    program = f"""
        import ecrl, signal, sys, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from conftest import Track

        class Slow(Track):
            def step(self, action):
                if self.t == 0:
                    print("playing", flush=True)
                time.sleep(0.05)
                return super().step(action)
        try:
            ecrl.load({str(tmp_path / "run")!r}).evaluate(lambda: Slow(5000), n_envs=int(sys.argv[1]), max_episode_steps=5000)
        except KeyboardInterrupt:
            time.sleep(0.1)
            print("stopped")
    """
    for workers in ("1", "2"):
        command = [sys.executable, "-u", "-c", textwrap.dedent(program), workers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert "playing" in child.stdout.readline()
            child.send_signal(signal.SIGINT)
            told, _ = child.communicate(timeout=60)
            assert "stopped" in told and child.returncode == 0


def test_workers_leave_nothing_behind(small):
    def left():
        children = [(path / "children").read_text() for path in pathlib.Path("/proc/self/task").iterdir()]
        return len(os.listdir("/proc/self/fd")), len(children), sorted("".join(children).split())

    small("sac", Track, n_envs=2, steps=50)
    before = left()
    for _ in range(5):
        small("sac", Track, n_envs=2, steps=50, force=True)
    assert left() == before


def test_a_worker_that_is_killed_is_told_of(small):
    class Killer(Track):
        def step(self, action):
            if self.t == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().step(action)

    with pytest.raises(ecrl.EnvError, match="a worker process ended: signal: 9"):
        small("sac", Killer, n_envs=2)


def test_workers_need_no_main_guard_and_know_what_the_script_defines(tmp_path):
    script = tmp_path / "script.py"
    text = f"""
        import numpy as np, gymnasium as gym, ecrl, helper

        class Own(helper.Base):
            def step(self, action):
                obs, reward, terminated, truncated, info = super().step(action)
                return obs, SCALE * reward, terminated, truncated, info

        SCALE = 2.0
        run = ecrl.train("ppo", lambda: Own(), steps=300, n_envs=2, out={str(tmp_path / "run")!r}, progress=False, **{SMALL_PPO!r})
        print("done", run.metrics()["env_steps"][-1])
    """
    script.write_text(textwrap.dedent(text))
    base = "import sys\nsys.path.insert(0, %r)\nfrom conftest import Track as Base\n" % os.path.dirname(__file__)
    (tmp_path / "helper.py").write_text(base)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd="/")
    assert done.stdout.startswith("done"), done.stderr


def test_what_cannot_be_sent_to_workers(small):
    lock = threading.Lock()
    with pytest.raises(ValueError, match="cannot be sent to worker processes.*n_envs=1"):
        small("ppo", lambda: (lock, Track())[1], n_envs=2)

    class Fussy(Track):
        def __init__(self):
            super().__init__()
            if os.environ.get("PYTEST_CURRENT_TEST") is None or os.getppid() == PARENT:
                raise OSError("only one at a time")

    PARENT = os.getpid()
    with pytest.raises(ecrl.EnvError, match="OSError: only one at a time"):
        small("ppo", Fussy, n_envs=2)


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"algorithm": "pppo"}, "unknown algorithm 'pppo': did you mean 'ppo'"),
        ({"lr": -1}, "ppo.lr is -1; expected"),
        ({"learning_rate": 1}, "unknown key 'learning_rate'"),
        ({"alpha": 1}, "key 'alpha' does not apply to ppo"),
        ({"hidden": object()}, "hidden is a object; expected a number"),
        ({"steps": 10.5}, "steps is 10.5; expected a whole number"),
        ({"steps": 0}, "steps is 0; expected 1"),
        ({"seed": -1}, "seed is -1; expected a whole number"),
        ({"preset": "slow"}, "ppo has no preset 'slow'"),
        ({"constraints": "cost<25"}, "constraint 'cost<25': expected name<=number"),
        ({"constraints": {"cost": "much"}}, "constraint 'cost<=much': 'much' is no number"),
        ({"constraints": {"speed": "mean(cost)<=1"}}, "is given for speed; expected one that bounds it"),
        ({"steps": float("inf")}, "steps is inf; expected a whole number"),
        ({"seed": 2**70}, "seed is .*; expected a whole number from 0 to"),
        ({"steps": float("nan")}, "steps is nan; expected a whole number"),
        ({"threads": 1.5}, "threads is 1.5; expected a whole number from 1 to 1024"),
        ({"n_envs": "2"}, "n_envs is '2'; expected a whole number"),
        ({"checkpoint_every": 5}, "checkpoint_every is 5; expected text"),
        ({"constraints": 25}, "constraints is 25; expected bounds by name"),
        ({"constraints": {"cost": None}}, "the bound of cost is None; expected a number or text"),
        ({"out": ""}, "out is empty; expected a folder"),
        ({"constraints": ["cost<=1", "sum(cost)<=2"]}, r"sum\(cost\) is bounded twice"),
        ({"constraints": "max(cost)<=2"}, "'max' is unknown; expected mean or sum"),
        ({"checkpoint_every": "often"}, "checkpoint_every is"),
        ({"threads": 0}, "threads is 0; expected a whole number from 1 to 1024"),
        ({"n_envs": 0}, "n_envs is 0; expected a whole number from 1 to 1024"),
        ({"max_episode_steps": 0}, "max_episode_steps is 0; expected a whole number from 1"),
        ({"until": "rewrd>=1"}, "until 'rewrd>=1'"),
        ({"start": "nowhere.safetensors"}, "nowhere.safetensors: cannot read it"),
        ({"config": "nowhere.toml"}, "nowhere.toml"),
    ],
)
def test_bad_input_gets_one_line(small, tmp_path, keywords, expected):
    with pytest.raises((ValueError, TypeError), match=expected) as raised:
        small(keywords.pop("algorithm", "ppo"), Track, **keywords)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_program_may_go_elsewhere_meanwhile(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    run = small("ppo", Track, out="here", on_generation=lambda info: os.chdir(tmp_path / "elsewhere"))
    assert run.path == tmp_path / "here" and run.metrics()["env_steps"][-1] >= 600


def test_workers_do_not_load_what_lies_around(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("json", "random", "pickle"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not me')")
    small("ppo", "Pendulum-v1", n_envs=2, steps=300)


def test_only_false_ends_it(small):
    run = small("ppo", Track, on_generation=lambda info: 0 if info["generation"] == 1 else [])
    assert run.metrics()["env_steps"][-1] >= 600


def test_a_run_that_is_there_stays(small):
    run = small("ppo", Track)
    before = policy_bytes(run)
    with pytest.raises(ValueError, match="is there already|already"):
        small("ppo", Track, seed=1)
    assert policy_bytes(run) == before
    assert policy_bytes(small("ppo", Track, seed=1, force=True)) != before


def test_progress_goes_where_python_prints(small, capsys):
    small("ppo", Track, progress=True)
    printed = capsys.readouterr().out
    assert "learner: reward" in printed and "trained ppo on Track" in printed and "saved:" in printed
    small("ppo", Track, force=True)
    assert capsys.readouterr().out == ""


def test_the_command_says_that_the_environment_is_pythons(small):
    run = small("ppo", Track)
    for arguments in (["resume"], ["eval"], ["play"]):
        done = subprocess.run([sys.executable, "-m", "ecrl", *arguments, str(run.path)], capture_output=True, text=True)
        assert done.returncode == 2 and "its environment, Track, is Python's" in done.stderr, done.stderr
    listed = subprocess.run([sys.executable, "-m", "ecrl", "runs", str(run.path.parent)], capture_output=True, text=True)
    assert "Track" in listed.stdout


def test_a_training_that_starts_from_a_policy(small, tmp_path):
    first = small("ppo", Track)
    small("ppo", Track, start=first.path / "policy.safetensors", out=tmp_path / "second")
    assert (tmp_path / "second" / "start.safetensors").exists()
    for other in ("Pendulum-v1", "CartPole-v1"):
        with pytest.raises(ValueError, match=f"the policy to start from is one of Track; expected one of {other}"):
            small("ppo", other, start=first.path / "policy.safetensors", out=tmp_path / "third")


def test_values_from_a_file(small, tmp_path):
    first = small("ppo-lag", Track, constraints={"cost": 3}, steps=300, seed=7)
    again = small("ppo-lag", Track, config=first.path / "config.toml", steps=None, out=tmp_path / "again")
    assert {**again.config, "start": ""} == first.config and policy_bytes(again) == policy_bytes(first)
    other = small("ppo-lag", Track, config=first.path / "config.toml", seed=1, constraints=(), out=tmp_path / "other")
    assert other.config["constraints"] == [] and other.config["seed"] == 1
    robot = ecrl.train("ppo", "swimmer", config=first.path / "config.toml", constraints=(), out=tmp_path / "robot", progress=False)
    assert robot.policy().evaluate(episodes=1).mean_action.length == 1000


def test_other_ways_to_bring_the_same_environment(small, tmp_path):
    run = small("sac", Track, steps=500, on_generation=lambda info: False)
    ecrl.resume(run, Track(), progress=False)
    assert run.metrics()["env_steps"][-1] >= 500
    vector = small("sac", gym.vector.SyncVectorEnv([Track] * 2), n_envs=None, out=tmp_path / "vector", on_generation=lambda info: False)
    ecrl.resume(vector, gym.vector.SyncVectorEnv([Track] * 3), progress=False)


def test_lanes_that_go_on_say_that_they_begin_anew(small):
    def vector():
        return gym.vector.SyncVectorEnv([lambda: Track(8)] * 2, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)

    # All episodes have just ended where it stops.
    run = small("ppo", vector(), n_envs=None, steps=600, collect=64, batch=16, on_generation=lambda info: info["env_steps"] < 200)
    with pytest.warns(UserWarning, match="begin anew"):
        ecrl.resume(run, vector(), progress=False)


def test_a_state_that_cannot_be_stored_is_told_of(small):
    class Odd(Track):
        def get_state(self):
            return {1, 2}

        def set_state(self, state):
            pass

    with pytest.warns(UserWarning, match="state cannot be stored .TypeError: get_state returned a set"):
        small("ppo", Odd)
