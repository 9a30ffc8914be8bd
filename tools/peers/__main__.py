"""Measures ours against its peers on this machine, alternating: make peers.

- a step of a trivial Python environment, in this process: what we add to what it takes by itself;
- PPO and SAC in Gymnasium's own Hopper-v4 with two worker processes, against Stable-Baselines3 with a
  SubprocVecEnv of two: environment steps a second while it trains, from the first generation to the last, with the
  same networks, batches and updates, and nobody tests in between; Stable-Baselines3 with as many threads of PyTorch
  as serve it best;
- eight Hoppers: ours against Gymnasium's asynchronous vector of its own.

Figures are medians over rounds; the ratio is that of each round, theirs and ours one after the other.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
import warnings

import gymnasium as gym
import numpy as np

import ecrl

warnings.filterwarnings("ignore")


class Trivial(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self):
        self.seen, self.info = np.zeros(4, np.float32), {"cost": 0.0}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.seen, self.info

    def step(self, action):
        self.t += 1
        return self.seen, 1.0, False, self.t >= 1000, self.info


def trivial():
    """Microseconds of a step: of the environment alone, and through us with a policy of 64-64."""
    env = Trivial()
    env.reset()
    action, count = np.zeros(2, np.float32), 100_000
    start = time.perf_counter()
    for _ in range(count):
        env.step(action)
    alone = 1e6 * (time.perf_counter() - start) / count
    with tempfile.TemporaryDirectory() as folder:
        usual = {"steps": 2048, "n_envs": 1, "progress": False, "hidden": [64, 64]}
        policy = ecrl.train("ppo", Trivial, out=f"{folder}/run", **usual).policy()
        start = time.perf_counter()
        policy.evaluate(Trivial, episodes=50, constraints={"cost": 1})
        through = 1e6 * (time.perf_counter() - start) / 100_000
    return alone, through


def ours(algorithm, steps, **values):
    """Steps a second between the first generation and the last but one."""
    folder = tempfile.mkdtemp()
    seen = []

    def note(info):
        seen.append((time.perf_counter(), info["env_steps"], info["grad_steps"]))

    never = {"test.every": 10**12, "test.episodes": 1, "test.retest_episodes": 1, "test.retest_every": 10**12}
    ecrl.train(algorithm, "Hopper-v4", steps=steps, n_envs=2, out=folder, force=True, progress=False, on_generation=note, **never, **values)
    shutil.rmtree(folder)
    seen = [one for one in seen if one[2] > 0]
    (begin, first, _), (end, last, _) = seen[0], seen[-2]
    return (last - first) / (end - begin)


def theirs(algorithm, steps, threads, starts=0, **values):
    """The same of Stable-Baselines3."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(threads)

    class Note(BaseCallback):
        seen = []

        def _on_rollout_start(self):
            self.seen.append((time.perf_counter(), self.num_timesteps))

        def _on_step(self):
            return True

    envs = make_vec_env("Hopper-v4", n_envs=2, vec_env_cls=SubprocVecEnv)
    note = Note()
    note.seen = []
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", envs, device="cpu", **values)
    model.learn(steps, callback=note)
    envs.close()
    seen = [one for one in note.seen if one[1] >= starts]
    (begin, first), (end, last) = seen[1], seen[-1]
    return (last - first) / (end - begin)


def vector(make, count=8, seconds=2.0):
    """Environment steps a second with random actions."""
    envs = make()
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-1, 1, (count, 3)).astype(np.float32) for _ in range(64)]
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for one in actions:
            envs.step(one)
        steps += len(actions) * count
    taken = time.perf_counter() - start
    envs.close()
    return steps / taken


def compare(name, unit, rounds, mine, other):
    pairs = []
    for i in range(rounds):
        pair = (mine(), other()) if i % 2 == 0 else (other(), mine())[::-1]
        pairs.append(pair)
    median = [statistics.median(pair[i] for pair in pairs) for i in (0, 1)]
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:<46}ours {median[0]:>9.0f}  theirs {median[1]:>9.0f} {unit}  ratio {ratio:.2f}", flush=True)
    return {"ours": median[0], "theirs": median[1], "ratio": ratio, "each": pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="a file for all figures")
    args = parser.parse_args()
    figures = {}
    alone, through = (statistics.median(column) for column in zip(*[trivial() for _ in range(args.rounds)]))
    print(f"{'a step of a trivial environment':<46}alone {alone:.2f} µs, through us {through:.2f} µs: {through - alone:.2f} µs more")
    figures["step"] = {"alone": alone, "through": through}
    figures["vector"] = compare(
        "eight Hoppers, random actions",
        "steps/s",
        args.rounds,
        lambda: vector(lambda: gym.make_vec("ecrl/Hopper-v0", num_envs=8)),
        lambda: vector(lambda: gym.make_vec("Hopper-v4", num_envs=8, vectorization_mode="async")),
    )
    ppo = {"steps": 20_480, "n_steps": 1024, "batch_size": 64, "n_epochs": 10}
    sac = {"steps": 3_000, "starts": 1000, "batch_size": 256, "learning_starts": 1000, "gradient_steps": -1, "ent_coef": 0.1}
    for name, algorithm, own, other in [
        ("PPO, 64-64", "ppo", {"preset": "fast", "steps": 40_960}, ppo),
        (
            "SAC, 256-256, batch 256, an update a step",
            "sac",
            {"steps": 6_000, "batch": 256, "learning_starts": 1000, "learner.episodes": 1},
            sac,
        ),
    ]:
        speeds = {threads: theirs(algorithm.upper(), threads=threads, **other) for threads in (1, 2)}
        threads = max(speeds, key=speeds.get)
        figures[algorithm] = compare(
            f"{name} (PyTorch: {threads} threads)",
            "steps/s",
            args.rounds,
            lambda: ours(algorithm, **own),
            lambda: theirs(algorithm.upper(), threads=threads, **other),
        )
    if args.json:
        with open(args.json, "w") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
