"""Collecting groups of rollouts in one process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.batch_policies import BatchPolicy, CheckedPolicy
from ncp_control.data.collection import CollectionPlan, path_of
from ncp_control.data.env_specs import make
from ncp_control.data.episodes import Steps, begin_episodes, run_episodes, stepper_of
from ncp_control.data.rollout import Rollout
from ncp_control.data.sources import write_trace

Report = Callable[[int, int], None]  # takes the rollouts and the steps since the last report
REPORT_EVERY = 50  # steps of each episode
KEPT = {"executed_action": None, "is_random": False, "elapsed": 1.0}  # of the info, with what stands for a missing one


def collect_groups(
    groups: Iterable[range], plan: CollectionPlan, policy: BatchPolicy, folder: Path, report: Report
) -> None:
    """Collects groups of rollouts one after another, and writes each rollout as soon as it ends.

    Each rollout has an environment of its own, except for environments that are known to remember nothing of other
    episodes, and each group begins with global random numbers of its own. So nothing that an environment or a policy
    remembers of other groups changes the result.
    """
    envs: list[gym.Env[Any, Any]] = []
    with ExitStack() as opened:
        for group in groups:
            seeds = [plan.seed_of(k) for k in group]
            with own_random_numbers(seeds[0]):
                envs += [opened.enter_context(closing(made(plan))) for _ in range(len(group) - len(envs))]
                for place, rollout in collect_group(envs[: len(group)], policy, seeds, report):
                    # An interrupted collection has some rollouts of a group, which is run again as a whole.
                    if not path_of(folder, group[place]).exists():
                        # A file that a stopping machine damages is found later, and its rollout is collected again.
                        write_trace(rollout, path_of(folder, group[place]), durable=False)
                        report(1, 0)
            if stepper_of(envs) is None:  # they may remember these episodes, so the next group gets new ones
                opened.close()
                envs.clear()


def made(plan: CollectionPlan) -> gym.Env[Any, Any]:
    """Makes an environment of a plan, with the wrappers that overwrite actions."""
    from ncp_envs import ActionBursts, RandomActionOverwrite

    env = make(EnvSpec.from_json(plan.env))
    env = ActionBursts(env, plan.bursts) if plan.bursts else env
    return RandomActionOverwrite(env, plan.random_action_fraction)


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
    builder = RolloutBuilder([observation for observation, _ in starts], [info for _, info in starts])
    taken = 0
    for steps in run_episodes(envs, checked, [observation for observation, _ in starts]):
        builder.add(steps)
        taken += len(steps.places)
        if any(steps.ended):
            for place, terminated, ended in zip(steps.places, steps.terminated, steps.ended, strict=True):
                if ended:
                    yield place, builder.build(place, terminated, seeds[place])
        if taken >= REPORT_EVERY * len(envs):
            report(0, taken)
            taken = 0
    report(0, taken)


class _Stretch:
    """Consecutive steps in which the same episodes run.

    :param places: the places of these episodes
    """

    def __init__(self, places: tuple[int, ...]) -> None:
        self.places = places
        self.columns: dict[str, list[Sequence[Any]]] = {key: [] for key in ("observations", "rewards", *KEPT)}

    def add(self, steps: Steps) -> None:
        """Keeps a step of each of the episodes."""
        self.columns["observations"].append(steps.observations)
        self.columns["rewards"].append(steps.rewards)
        for key, default in KEPT.items():
            self.columns[key].append(steps.entry(key, default))

    def of(self, key: str, place: int) -> list[Any]:
        """Returns the values of one episode, step by step."""
        row = self.places.index(place)
        return [values[row] for values in self.columns[key]]


class RolloutBuilder:
    """Keeps the steps of several episodes until they become rollouts.

    :param observations: the observations of the resets
    :param infos: the infos of the resets
    """

    def __init__(self, observations: Sequence[Any], infos: Sequence[dict[str, Any]]) -> None:
        self._starts = [(seen, info.get("elapsed", 1.0)) for seen, info in zip(observations, infos, strict=True)]
        self._stretches: list[_Stretch] = []

    def add(self, steps: Steps) -> None:
        """Keeps one step of all episodes that still run."""
        # A new stretch begins where an episode ends, so that no step needs a search for its episode's row.
        if not self._stretches or self._stretches[-1].places != steps.places:
            self._stretches.append(_Stretch(steps.places))
        self._stretches[-1].add(steps)

    def build(self, place: int, terminated: bool, seed: int) -> Rollout:
        """Makes a rollout of all steps of an episode.

        :param place: the place of its environment
        """

        def column(key: str) -> list[Any]:
            return [value for stretch in self._stretches for value in stretch.of(key, place)]

        first, start = self._starts[place]
        elapsed = np.array([start, *column("elapsed")])
        return Rollout(
            observations=np.array([first, *column("observations")]),
            actions=np.array(column("executed_action")),
            rewards=np.array([float(reward) for reward in column("rewards")]),
            is_random=np.array(column("is_random"), dtype=bool),
            elapsed=None if (elapsed == 1.0).all() else elapsed,
            terminated=terminated,
            seed=seed,
        )
