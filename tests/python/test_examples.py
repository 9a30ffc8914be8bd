"""The examples, briefly; those that need more than the package are run where that is installed (make examples)."""

import json
import pathlib
import sys
import time

import numpy as np
import pytest

import ecrl

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))


def test_own_environment(tmp_path, capsys):
    import own_environment

    worth = own_environment.main(out=str(tmp_path / "run"))
    # It has learnt to heat, within both bounds: a cold boiler earns less than -75.
    assert worth.feasible and worth.mean_action.reward > -65, worth
    assert "feasible: yes" in capsys.readouterr().out


def test_six_values(tmp_path):
    import six_values

    worth = six_values.main(steps=8_000, out=str(tmp_path / "run"))
    assert list(worth.mean_action.costs) == ["sum(cost)<=1"]


def test_robot(tmp_path):
    import robot

    assert robot.main(steps=4_096, out=str(tmp_path / "run")) > 0
    assert (tmp_path / "run" / "policy.onnx").exists()


def test_a_grid(tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(
        'tasks = ["swimmer"]\nalgorithms = ["ppo", "ipo"]\nseeds = 1\nsteps = 600\n'
        'set = ["hidden=[8]", "collect=256", "epochs=1", "test.episodes=1", "test.retest_episodes=1"]\n'
    )
    runs = ecrl.grid(file, tmp_path / "grid")
    assert sorted(run.config["algorithm"] for run in runs) == ["ipo", "ppo"]
    assert ecrl.report(tmp_path / "grid", tmp_path / "report").read_text().startswith("<!")
    assert ecrl.report(runs, tmp_path / "again", band="sd").exists()
    file.write_text("tasks = 7")
    with pytest.raises(ValueError, match="two.toml"):
        ecrl.grid(file, tmp_path / "other")


def test_optuna(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    import tune

    study = tune.main(steps=4_096, trials=3)
    assert len(study.trials) == 3 and all(np.isfinite(trial.value) for trial in study.trials)


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    import tracking

    run = tracking.with_mlflow(6_000, str(tmp_path / "run"))
    (seen,) = mlflow.search_runs(output_format="list")
    assert seen.data.metrics["env_steps"] == run.metrics()["env_steps"][-1]
    assert "learner_cost_0" in seen.data.metrics


@pytest.mark.filterwarnings("ignore")
def test_wandb(tmp_path):
    pytest.importorskip("wandb")
    import tracking

    tracking.with_wandb(6_000, str(tmp_path / "out"))
    (kept,) = (tmp_path / "out" / "wandb").glob("offline-run-*/*.wandb")
    # A process of wandb's own writes it.
    deadline = time.monotonic() + 30
    while b"learner_cost_0" not in kept.read_bytes():
        assert time.monotonic() < deadline, f"{kept.stat().st_size} bytes without what was noted"
        time.sleep(0.2)


@pytest.mark.filterwarnings("ignore")
def test_the_notebook(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    notebook.cells[1].source = f"STEPS, OUT = 6_000, {str(tmp_path / 'run')!r}"
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = json.dumps(outputs)
    # The progress replaces itself, the figure is one, and the robot is on its page.
    assert "image/png" in shown and "<iframe" in shown and "trained ipo on half-cheetah" in shown
    assert sum("learner: reward" in str(output) for output in outputs) == 0
