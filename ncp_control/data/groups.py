"""Collecting groups of rollouts in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.batch_policies import BatchPolicy, CheckedPolicy
from ncp_control.data.collection import CollectionPlan, path_of
from ncp_control.data.environments import make
from ncp_control.data.episodes import Step, begin_episodes, run_episodes
from ncp_control.data.rollout import Rollout
from ncp_control.data.sources import write_trace

Report = Callable[[int, int], None]  # takes the rollouts and the steps since the last report
REPORT_EVERY = 50  # steps of each episode


def collect_groups(
    groups: list[range], plan: CollectionPlan, policy: BatchPolicy, folder: Path, report: Report
) -> None:
    """Collects groups of rollouts one after another, and writes each rollout as soon as it ends.

    Each rollout has an environment of its own, and each group begins with global random numbers of its own, so that
    nothing that an environment or a policy remembers of other groups changes the result.
    """
    for group in groups:
        seeds = [plan.seed_of(k) for k in group]
        with own_random_numbers(seeds[0]), ExitStack() as opened:
            envs = [opened.enter_context(closing(made(plan))) for _ in group]
            for place, rollout in collect_group(envs, policy, seeds, report):
                if not path_of(folder, group[place]).exists():
                    write_trace(rollout, path_of(folder, group[place]))
                    report(1, 0)


def made(plan: CollectionPlan) -> gym.Env[Any, Any]:
    """Makes an environment of a plan, with the wrapper that overwrites actions."""
    from ncp_envs import RandomActionOverwrite

    return RandomActionOverwrite(make(EnvSpec.from_json(plan.env)), plan.random_action_fraction)


@contextmanager
def own_random_numbers(seed: int) -> Iterator[None]:
    """Seeds the global random numbers of Python, NumPy and torch, and restores their states afterwards."""
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


def collect_group(
    envs: list[Any], policy: BatchPolicy, seeds: list[int], report: Report
) -> Iterator[tuple[int, Rollout]]:
    """Collects one episode in each environment, and yields each rollout with its place as soon as it ends."""
    checked = CheckedPolicy(policy, envs[0].action_space)
    starts = begin_episodes(envs, checked, seeds)
    builders = [RolloutBuilder(observation, info) for observation, info in starts]
    steps = 0
    for step in run_episodes(envs, checked, [observation for observation, _ in starts]):
        steps += 1
        builders[step.place].add(step)
        if step.ended:
            yield step.place, builders[step.place].build(step.terminated, seeds[step.place])
        if steps >= REPORT_EVERY * len(envs):
            report(0, steps)
            steps = 0
    report(0, steps)


class RolloutBuilder:
    """Keeps the steps of one episode until they become a rollout.

    :param observation: the observation of the reset
    :param info: the info of the reset
    """

    def __init__(self, observation: Any, info: dict[str, Any]) -> None:
        self.observations, self.elapsed = [observation], [info.get("elapsed", 1.0)]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.is_random: list[bool] = []

    def add(self, step: Step) -> None:
        """Keeps one step."""
        self.observations.append(step.observation)
        self.elapsed.append(step.info.get("elapsed", 1.0))
        self.actions.append(step.info["executed_action"])
        self.rewards.append(float(step.reward))
        self.is_random.append(step.info["is_random"])

    def build(self, terminated: bool, seed: int) -> Rollout:
        """Makes a rollout of all steps."""
        elapsed = np.array(self.elapsed)
        return Rollout(
            observations=np.stack(self.observations),
            actions=np.stack(self.actions),
            rewards=np.array(self.rewards),
            is_random=np.array(self.is_random, dtype=bool),
            elapsed=None if (elapsed == 1.0).all() else elapsed,
            terminated=terminated,
            seed=seed,
        )
