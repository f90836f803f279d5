"""Episodes, several side by side: one call of the controller a step, one environment after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.collection import Plan, path_of
from ncp_control.data.controllers import Controller, check_actions
from ncp_control.data.environments import make
from ncp_control.data.rollouts import Rollout
from ncp_control.data.sources import write_trace

Report = Callable[[int, int], None]  # finished rollouts and steps since the last report
EVERY = 50  # steps of a group between two reports


def collect_groups(groups: list[range], plan: Plan, controller: Controller, folder: Path, report: Report) -> None:
    """Collects groups, one after another, in this process."""
    from ncp_envs import RandomActionOverwrite

    spec = EnvSpec.from_json(plan.env)
    most = max((len(group) for group in groups), default=0)
    envs: list[Any] = []
    try:
        for _ in range(most):
            envs.append(RandomActionOverwrite(make(spec), plan.random_action_fraction))
        for group in groups:
            seeds = [plan.seed_of(k) for k in group]
            for place, rollout in run_group(envs[: len(group)], controller, seeds, report):
                if not path_of(folder, group[place]).exists():
                    write_trace(rollout, path_of(folder, group[place]))
                    report(1, 0)
    finally:
        for env in envs:
            env.close()


def run_group(
    envs: list[Any], controller: Controller, seeds: list[int], report: Report
) -> Iterator[tuple[int, Rollout]]:
    """One episode in every environment; gives each rollout, and its place, when it ends.

    An episode that has ended stays in the batch with its last observation, so that the others' rows never move.
    """
    controller.begin(seeds)
    space = envs[0].action_space
    starts = [env.reset(seed=seed) for env, seed in zip(envs, seeds, strict=True)]
    current = np.stack([observation for observation, _ in starts])
    diaries = [Diary(observation, info) for observation, info in starts]
    alive = list(range(len(envs)))
    steps = rounds = 0
    while alive:
        actions = controller.act(current.copy())  # a policy may keep what it is given, or write into it
        check_actions(actions, space, len(envs), rounds)
        steps += len(alive)
        for k in tuple(alive):
            observation, reward, terminated, truncated, info = envs[k].step(actions[k])
            diaries[k].add(observation, reward, info)
            current[k] = observation
            if terminated or truncated:
                alive.remove(k)
                yield k, diaries[k].close(terminated, seeds[k])
        rounds += 1
        if rounds % EVERY == 0 or not alive:
            report(0, steps)
            steps = 0


class Diary:
    """What happens in one episode."""

    def __init__(self, observation: Any, info: dict[str, Any]) -> None:
        self.observations, self.elapsed = [np.array(observation)], [info.get("elapsed", 1.0)]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.is_random: list[bool] = []

    def add(self, observation: Any, reward: Any, info: dict[str, Any]) -> None:
        """One step."""
        self.observations.append(np.array(observation))  # some environments go on writing into theirs
        self.elapsed.append(info.get("elapsed", 1.0))
        self.actions.append(info["executed_action"])
        self.rewards.append(float(reward))
        self.is_random.append(info["is_random"])

    def close(self, terminated: bool, seed: int) -> Rollout:
        """The whole episode."""
        elapsed = np.array(self.elapsed)
        return Rollout(
            observations=np.stack(self.observations),
            actions=np.stack(self.actions),
            rewards=np.array(self.rewards),
            is_random=np.array(self.is_random, dtype=bool),
            elapsed=None if (elapsed == 1.0).all() else elapsed,
            terminated=bool(terminated),
            seed=seed,
        )
