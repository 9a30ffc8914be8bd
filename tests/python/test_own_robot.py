"""A robot of one's own: the file of a task, wherever an environment is."""

import pathlib
import shutil

import pytest
from conftest import SMALL_PPO, policy_bytes

import ecrl

ROBOTS = pathlib.Path(__file__).parents[2] / "examples" / "robots"


def test_a_task_file_trains_resumes_and_is_measured(tmp_path):
    folder = tmp_path / "robots"
    shutil.copytree(ROBOTS, folder)
    task = folder / "balancer.toml"
    small = {"steps": 3000, "progress": False, **SMALL_PPO}
    run = ecrl.train("ppo-lag", task, out=tmp_path / "a", **small)
    again = ecrl.train("ppo-lag", str(ROBOTS / "balancer.toml"), out=tmp_path / "b", **small)
    assert policy_bytes(run) == policy_bytes(again)
    half = ecrl.train("ppo-lag", task, out=tmp_path / "c", until="env_steps>=1000", **small)
    assert half.metrics()["env_steps"][-1] < 3000
    shutil.rmtree(folder)
    assert policy_bytes(ecrl.resume(half, until=(), progress=False)) == policy_bytes(run)

    policy = ecrl.load(run)
    assert policy.task == "balancer" and policy.constraints == ["sum(tilt)<=10"]
    result = policy.evaluate(episodes=3)
    assert list(result.mean_action.costs) == ["sum(tilt)<=10"]
    alone = ecrl.load(run.path / "best.safetensors")
    assert alone.evaluate(str(ROBOTS / "balancer.toml"), episodes=3) == result
    with pytest.raises(ValueError, match="expected that file for env, as in env='balancer.toml'"):
        alone.evaluate(episodes=3)
    bounded = policy.evaluate(episodes=3, constraints={"tilt": 3})
    assert list(bounded.mean_action.costs) == ["sum(tilt)<=3"]


def test_what_is_wrong_in_it_is_one_line(tmp_path):
    (tmp_path / "bad.toml").write_text('model = "no.xml"\nobserve = ["qpos"]\n')
    with pytest.raises(ValueError, match=r"bad.toml:1:9: .*no.xml: there is no such file$"):
        ecrl.train("ppo", tmp_path / "bad.toml", progress=False)
    with pytest.raises(ValueError, match="expected threads instead of n_envs"):
        ecrl.train("ppo", ROBOTS / "arm.toml", n_envs=2)
