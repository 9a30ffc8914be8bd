"""OmniSafe, in a Python of its own: `python omnisafe_.py '{"algorithm": "PPOLag", ...}'` prints what it measured."""

import contextlib
import csv
import glob
import io
import json
import sys
import tempfile


def on_policy(algorithm, task, hidden, steps, envs, threads):
    import omnisafe

    with tempfile.TemporaryDirectory() as folder:
        networks = {"hidden_sizes": hidden, "activation": "tanh"}
        values = {
            "train_cfgs": {"total_steps": steps, "vector_env_nums": envs, "parallel": 1, "torch_threads": threads},
            "algo_cfgs": {"steps_per_epoch": 2048, "update_iters": 10, "batch_size": 64, "kl_early_stop": False},
            "logger_cfgs": {"use_wandb": False, "use_tensorboard": False, "log_dir": folder, "save_model_freq": 10**6},
            "model_cfgs": {"actor": networks, "critic": networks},
        }
        with contextlib.redirect_stdout(io.StringIO()):
            omnisafe.Agent(algorithm, task, custom_cfgs=values).learn()
        with open(glob.glob(f"{folder}/**/progress.csv", recursive=True)[0]) as file:
            rows = list(csv.DictReader(file))
    # What an epoch played over the time that it took; the first warms up.
    taken = sum(float(row["Time/Epoch"]) for row in rows[1:])
    return {"steps/s": 2048 * (len(rows) - 1) / taken}


if __name__ == "__main__":
    measured = on_policy(**json.loads(sys.argv[1]))
    import omnisafe
    import torch

    print(json.dumps({**measured, "version": omnisafe.__version__, "torch": torch.__version__}))
