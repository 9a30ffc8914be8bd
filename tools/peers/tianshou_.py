"""Tianshou."""

import logging
import time

import torch
from tianshou.highlevel.config import OffPolicyTrainingConfig, OnPolicyTrainingConfig
from tianshou.highlevel.env import EnvFactoryRegistered, VectorEnvType
from tianshou.highlevel.experiment import ExperimentConfig, PPOExperimentBuilder, SACExperimentBuilder
from tianshou.highlevel.params.algorithm_params import PPOParams, SACParams
from tianshou.highlevel.trainer import EpochTestCallback, EpochTrainCallback
from tianshou.utils.torch_utils import policy_within_training_step


class Train(EpochTrainCallback):
    """When each epoch began, and how much had been played."""

    def __init__(self):
        self.seen = []

    def callback(self, epoch, env_step, context):
        self.seen.append((time.perf_counter(), env_step))


class Test(EpochTestCallback):
    """When its test began."""

    def __init__(self):
        self.seen = []

    def callback(self, epoch, env_step, context):
        self.seen.append((time.perf_counter(), env_step))


def parts(task, processes):
    kind = VectorEnvType.SUBPROC if processes else VectorEnvType.DUMMY
    config = ExperimentConfig(device="cpu", persistence_enabled=False, watch=False)
    return EnvFactoryRegistered(task=task, venv_type=kind), config


def speed(builder, skip):
    """Steps a second while it trains, without the tests between its epochs."""
    logging.disable(logging.CRITICAL)
    train, test = Train(), Test()
    world = builder.with_epoch_train_callback(train).with_epoch_test_callback(test).build().run().world
    # A test comes before the first epoch, too.
    ended = test.seen[-len(train.seen) :]
    pairs = list(zip(train.seen, ended))[skip:]
    taken = sum(end[0] - begin[0] for begin, end in pairs)
    played = sum(end[1] - begin[1] for begin, end in pairs)
    return played / taken, world


def ppo(task, hidden, steps, envs, processes, threads):
    torch.set_num_threads(threads)
    factory, config = parts(task, processes)
    training = OnPolicyTrainingConfig(
        max_epochs=steps // 2048,
        epoch_num_steps=2048,
        num_training_envs=envs,
        num_test_envs=1,
        test_step_num_episodes=1,
        buffer_size=2048,
        collection_step_num_env_steps=2048,
        batch_size=64,
        update_step_num_repetitions=10,
    )
    builder = PPOExperimentBuilder(factory, config, training).with_ppo_params(PPOParams())
    builder = builder.with_actor_factory_default(hidden, torch.nn.Tanh).with_critic_factory_default(hidden, torch.nn.Tanh)
    return {"steps/s": speed(builder, skip=2)[0]}


def sac(task, hidden, batch, steps, envs, processes, threads):
    torch.set_num_threads(threads)
    factory, config = parts(task, processes)
    training = OffPolicyTrainingConfig(
        max_epochs=4,
        epoch_num_steps=steps // 4,
        num_training_envs=envs,
        num_test_envs=1,
        test_step_num_episodes=1,
        buffer_size=100_000,
        collection_step_num_env_steps=envs,
        batch_size=batch,
        update_step_num_gradient_steps_per_sample=1.0,
        start_timesteps=1000,
        start_timesteps_random=True,
    )
    builder = SACExperimentBuilder(factory, config, training).with_sac_params(SACParams(alpha=0.1))
    builder = builder.with_actor_factory_default(hidden).with_common_critic_factory_default(hidden)
    steps_per_s, world = speed(builder, skip=1)
    buffer, each = world.training_collector.buffer, []
    for _ in range(5):
        start = time.perf_counter()
        with policy_within_training_step(world.algorithm.policy):
            for _ in range(50):
                world.algorithm.update(buffer=buffer, sample_size=batch)
        each.append((time.perf_counter() - start) / 50)
    return {"steps/s": steps_per_s, "ms/update": 1e3 * sorted(each)[2]}
