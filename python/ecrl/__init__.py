"""Policies that earn reward and keep their constraints.

    import ecrl

    run = ecrl.train("ppo-lag", "Pendulum-v1", steps=100_000)
    policy = ecrl.load(run.path)
    policy.evaluate(episodes=20)

An environment is a Gymnasium id, a callable that makes one, an environment itself, a `VectorEnv`, or the
name of one of the built-in robots (`ecrl.tasks()`).
"""

from ecrl import _mujoco  # noqa: F401  (first: it makes the library that the next one needs known)
from ecrl._ecrl import EnvError, __version__
from ecrl._policy import Evaluation, Face, Policy, load
from ecrl._run import Metrics, Run
from ecrl._train import resume, train
from ecrl._tools import Algorithm, Task, algorithms, grid, report, tasks
from ecrl import robots

robots.register()

__all__ = [
    "Algorithm",
    "EnvError",
    "Evaluation",
    "Face",
    "Metrics",
    "Policy",
    "Run",
    "Task",
    "__version__",
    "algorithms",
    "grid",
    "load",
    "report",
    "resume",
    "robots",
    "tasks",
    "train",
]
