"""A thousand trainings in one process take no more memory than a few."""

import gc
import os
import pathlib
import shutil

from conftest import SMALL_PPO, Track

import ecrl


def resident() -> float:
    """Megabytes of this process, with nothing left to be collected."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_a_thousand_trainings_leave_nothing_behind(tmp_path):
    values = {**SMALL_PPO, "collect": 64, "batch": 32, "epochs": 1}

    def train(count):
        for _ in range(count):
            ecrl.train("ppo-lag", Track, constraints={"cost": 5}, steps=64, n_envs=1, threads=1, progress=False, out=tmp_path / "run", **values)
            shutil.rmtree(tmp_path / "run")

    train(100)
    before, threads = resident(), len(os.listdir("/proc/self/task"))
    train(900)
    assert resident() - before < 5.0, f"{before:.1f} MB became {resident():.1f} MB"
    assert len(os.listdir("/proc/self/task")) == threads and len(os.listdir("/proc/self/fd")) < 100
