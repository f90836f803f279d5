"""Collecting rollouts: a controller in an environment, some of its actions overwritten at random.

Rollouts are cut into groups of a fixed size; the controller acts on a whole group in one call. A group always holds the
same rollouts, whoever runs it, and everything random follows from the rollouts' own seeds: so the result is the same,
bit for bit, for any number of workers, and when it is resumed. Every finished rollout is on disk at once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from gymnasium.envs.registration import EnvSpec

from ncp_control.data.collection import Plan, path_of, prepare
from ncp_control.data.controllers import Controller, as_controller
from ncp_control.data.environments import check_policy, check_spaces, make, names_of, range_of, spec_of
from ncp_control.data.episodes import collect_groups
from ncp_control.data.rollouts import Rollout, Rollouts
from ncp_control.data.sources import read_trace
from ncp_control.data.workers import in_processes
from ncp_control.support.progress import tracked


def collect(
    policy: Any,
    env: str | EnvSpec | gym.Env[Any, Any] = "HalfCheetah-v5",
    rollouts: int = 25,
    random_action_fraction: float = 0.05,
    seed: int = 0,
    workers: int = 1,
    group: int = 16,
    name: str | None = None,
    deterministic: bool = True,
    keep: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Rollouts:
    """Collects rollouts.

    Example::

        rollouts = collect(PPO.load("model.zip"), "HalfCheetah-v5", rollouts=25)
        train, valid, test = rollouts.split()

    :param policy: a model with Stable-Baselines3's `predict` (and the `VecNormalize` that it was trained under, if its
        environment is one), a function from observations (B, ...) to actions, "random", or a `Controller`
    :param env: an id, or `module:id`, such as "ncp_envs:ncp/HalfCheetahNoVel-v0", whose module registers it; a spec; or
        an environment that can be made again from its spec
    :param rollouts: how many episodes
    :param random_action_fraction: the probability that a step's action is overwritten by a random one
    :param seed: everything random follows from it
    :param workers: processes; the result does not depend on them
    :param group: episodes that one call of the policy acts for; a part of what makes the result
    :param name: the controller's name
    :param deterministic: of a model with `predict`, its mode rather than a sample
    :param keep: a folder for finished rollouts, so that an interrupted collection can be resumed; by default a
        temporary one
    :param resume: go on with the finished rollouts of `keep`
    :param progress: show a progress bar on stderr
    """
    if rollouts < 1 or workers < 1 or group < 1:
        raise ValueError(f"rollouts, workers and group must be at least 1, got {rollouts}, {workers} and {group}")
    if not 0 <= random_action_fraction <= 1:
        raise ValueError(f"random_action_fraction is a probability, got {random_action_fraction}")
    spec = spec_of(env)
    with make(spec) as example:
        check_spaces(example)
        check_policy(policy, example)
        controller = as_controller(policy, example.action_space, name, deterministic)
        names, action_range = names_of(example), range_of(example.action_space)
    plan = Plan(
        spec.to_json(),
        rollouts,
        random_action_fraction,
        seed,
        group,
        controller.name,
        controller.sha256,
        deterministic,
    )
    if keep is not None:
        found = _collect_into(Path(keep), plan, controller, workers, resume, progress)
    else:
        with tempfile.TemporaryDirectory(prefix="ncp-control-") as folder:
            found = _collect_into(Path(folder), plan, controller, workers, True, progress)
    return Rollouts(found, observation_names=names, about=plan.about(), action_range=action_range)


def _collect_into(
    folder: Path, plan: Plan, controller: Controller, workers: int, resume: bool, progress: bool
) -> tuple[Rollout, ...]:
    with prepare(folder, plan, resume):
        missing = [group for group in plan.groups() if any(not path_of(folder, k).exists() for k in group)]
        done = sum(path_of(folder, k).exists() for k in range(plan.rollouts))
        with tracked("collecting rollouts", plan.rollouts, done, shown=progress) as tracker:
            report = tracker.advance
            if workers == 1 or len(missing) < 2:
                with one_thread():
                    collect_groups(missing, plan, controller, folder, report)
            else:
                in_processes(missing, plan, controller, folder, report, min(workers, len(missing)))
        return tuple(read_trace(path_of(folder, k)) for k in range(plan.rollouts))


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread, which is enough for a small policy, and its random state as before afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
