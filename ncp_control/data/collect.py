"""Collecting rollouts of a policy in an environment, with some of its actions overwritten at random.

Rollouts are divided into groups of a fixed size, and the policy acts on a whole group in one call. A group always holds
the same rollouts, whichever process collects it, and everything random follows from the rollouts' own seeds. So the
result is the same, bit for bit, for any number of workers and after an interruption; each rollout has an environment
of its own, which remembers no other. Gymnasium's MuJoCo bodies remember nothing: they are used again, and stepped
together. Every rollout is written to disk as soon as it is finished.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ncp_control.base.files import temporary_folder
from ncp_control.base.machine import one_thread
from ncp_control.base.progress import tracked
from ncp_control.data.batch_policies import BatchPolicy, as_batch_policy
from ncp_control.data.collection import CollectionPlan, path_of, prepare
from ncp_control.data.environments import check_policy, check_spaces, choices_of, make, names_of, range_of, spec_of
from ncp_control.data.groups import Report, collect_groups
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts
from ncp_control.data.sources import read_trace
from ncp_control.data.workers import in_processes

Elsewhere = Callable[[list[range], CollectionPlan, Path, Report], None]  # takes groups, their plan and their folder


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
    elsewhere: Elsewhere | None = None,
    bursts: float = 0.0,
) -> Rollouts:
    """Collects rollouts.

    Example::

        rollouts = collect(PPO.load("model.zip"), "HalfCheetah-v5", rollouts=25)
        train, valid, test = rollouts.split()

    :param policy: a model with Stable-Baselines3's `predict` (its observations are normalised as by the `VecNormalize`
        that it was trained under), a function from observations (B, ...) to actions, "random", or an object with the
        methods of `BatchPolicy`
    :param env: an id; `module:id`, such as "ncp_envs:ncp/HalfCheetahNoVel-v0", where importing the module registers the
        environment; a spec; or an environment that its spec can make again
    :param rollouts: the number of episodes
    :param random_action_fraction: the probability that a step's action is overwritten by a random one
    :param seed: the seed of everything random
    :param workers: the number of processes; the result does not depend on it
    :param group: the number of episodes that one call of the policy acts for; the result depends on it
    :param name: a name for the policy
    :param deterministic: let a model with `predict` take its deterministic action rather than a sample
    :param keep: a folder for finished rollouts, which allows an interrupted collection to be resumed; by default a
        temporary folder
    :param resume: continue from the finished rollouts in `keep`
    :param progress: show a progress bar on stderr
    :param elsewhere: computes groups somewhere else than in processes of this machine, such as
        `ncp_control.scale.collecting.on_place` does
    :param bursts: the probability that a step begins a burst, in which other actions are executed for 5 to 20 steps:
        those of an earlier moment, or random ones (see `ncp_envs.ActionBursts`)
    """
    if rollouts < 1 or workers < 1 or group < 1:
        raise ValueError(f"rollouts, workers and group must be at least 1, got {rollouts}, {workers} and {group}")
    if not 0 <= random_action_fraction <= 1:
        raise ValueError(f"random_action_fraction is a probability, got {random_action_fraction}")
    if not 0 <= bursts <= 1:
        raise ValueError(f"bursts is a probability, got {bursts}")
    spec = spec_of(env)
    with make(spec) as example:
        check_spaces(example)
        check_policy(policy, example)
        chosen = as_batch_policy(policy, example.action_space, name, deterministic)
        names = names_of(example)
        action_range, choices = range_of(example.action_space), choices_of(example.action_space)
    plan = CollectionPlan(
        spec.to_json(),
        rollouts,
        random_action_fraction,
        seed,
        group,
        chosen.name,
        chosen.sha256,
        deterministic,
        bursts,
    )
    if keep is not None:
        found = _collect_into(Path(keep), plan, chosen, workers, resume, progress, elsewhere)
    else:
        with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as folder:
            found = _collect_into(folder, plan, chosen, workers, True, progress, elsewhere)
    return Rollouts(found, observation_names=names, about=plan.about(), action_range=action_range, choices=choices)


def _collect_into(
    folder: Path,
    plan: CollectionPlan,
    policy: BatchPolicy,
    workers: int,
    resume: bool,
    progress: bool,
    elsewhere: Elsewhere | None,
) -> tuple[Rollout, ...]:
    with prepare(folder, plan, resume):
        remove_damaged(folder, plan)
        missing = [group for group in plan.groups() if any(not path_of(folder, k).exists() for k in group)]
        done = sum(path_of(folder, k).exists() for k in range(plan.rollouts))
        with tracked("collecting rollouts", plan.rollouts, done, shown=progress) as tracker:
            report = tracker.advance
            if elsewhere is not None and missing:
                elsewhere(missing, plan, folder, report)
            elif workers == 1 or len(missing) < 2:
                with one_thread():
                    collect_groups(missing, plan, policy, folder, report)
            else:
                in_processes(missing, plan, policy, folder, report, min(workers, len(missing)))
        return tuple(read_trace(path_of(folder, k)) for k in range(plan.rollouts))


def remove_damaged(folder: Path, plan: CollectionPlan) -> None:
    """Removes finished rollouts that cannot be read or are not of this plan, and says so. They are collected again,
    with the same numbers, because those follow from the plan.
    """
    for k in range(plan.rollouts):
        path = path_of(folder, k)
        try:
            if not path.exists() or read_trace(path).seed == plan.seed_of(k):
                continue
            reason = f"{path} is not of this collection"
        except ValueError as error:
            reason = str(error)
        path.unlink()
        print(f"{reason}: this rollout is collected again", file=sys.stderr)
