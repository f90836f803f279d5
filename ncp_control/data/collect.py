"""Collecting rollouts of a policy in an environment, with some of its actions overwritten at random.

Rollouts are divided into groups of a fixed size, and the policy acts on a whole group in one call. A group always holds
the same rollouts, whichever process collects it, and everything random follows from the rollouts' own seeds. So the
result is the same, bit for bit, for any number of workers and after an interruption. Each rollout has an environment
of its own, which cannot remember another one. Gymnasium's MuJoCo bodies remember nothing, so they are used again and
stepped together. Every rollout is written to disk as soon as it is finished. A dataset is written when all of them are
there.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ncp_control.base.files import temporary_folder
from ncp_control.base.machine import one_thread
from ncp_control.base.processes import end_with_parent, portable, worker_context
from ncp_control.base.progress import tracked
from ncp_control.data import minari_files
from ncp_control.data.batch_policies import BatchPolicy, as_batch_policy
from ncp_control.data.collection import CollectionPlan, path_of, prepare, remove_finished
from ncp_control.data.env_specs import check_policy, check_spaces, choices_of, make, names_of, range_of, spec_of
from ncp_control.data.groups import Report, collect_groups
from ncp_control.data.rollout import Rollout
from ncp_control.data.rollouts import Rollouts
from ncp_control.data.sources import read_trace
from ncp_control.runs.folder import Hold

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
        collected = _collect_into(Path(keep), plan, chosen, workers, resume, progress, elsewhere)
    else:
        with temporary_folder(Path(tempfile.gettempdir()) / "ncp-control") as folder:
            collected = _collect_into(folder, plan, chosen, workers, True, progress, elsewhere)
    return Rollouts(collected, observation_names=names, about=plan.about(), action_range=action_range, choices=choices)


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
            elif workers == 1 or len(missing) < 2:  # a process takes whole groups, so one group needs no second
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


def unfinished(folder: Path) -> Path:
    """Returns the folder for the finished rollouts of a dataset that is not written yet."""
    return folder.with_name(f".{folder.name}.unfinished")


def tidy(folder: Path) -> None:
    """Removes what a collection left beside its dataset, if it was interrupted after it had written that."""
    if unfinished(folder).exists():
        remove_finished(unfinished(folder))


def collect_dataset(
    policy: Any,
    env: str | EnvSpec | gym.Env[Any, Any],
    out: str,
    root: Path | None = None,
    record: dict[str, Any] | None = None,
    resume: bool = True,
    **settings: Any,
) -> Rollouts:
    """Collects rollouts and writes them as a Minari dataset. An interrupted collection goes on when it is called again.

    Example::

        collect_dataset(load_policy("best.safetensors"), "HalfCheetah-v5", "ncp/halfcheetah/expert-v0", rollouts=25)

    :param policy: the policy, as `collect` takes it
    :param env: the environment, as `collect` takes it
    :param out: a Minari id, or the path of the dataset's folder, which must not exist yet
    :param root: the folder that Minari ids lead into, in place of Minari's own
    :param record: what else to keep with the dataset (see `fields_of`), as JSON values
    :param resume: go on from the finished rollouts of an earlier call; False refuses if there are any
    :param settings: further arguments of `collect`, except `keep`
    :return: the rollouts as they are read from the dataset
    """
    dataset_id, folder = minari_files.place_of(out, root)
    if folder.exists():
        raise FileExistsError(f"{folder} exists already: choose another name, or remove it first")
    spec, keep = spec_of(env), unfinished(folder)
    rollouts = collect(policy, spec, keep=keep, resume=resume, **settings)
    about = {**rollouts.about, "observation_names": list(rollouts.observation_names), **(record or {})}
    with Hold(keep):  # Minari writes into this folder first, which nobody may collect into meanwhile
        minari_files.write_minari(rollouts, dataset_id, folder, spec, about, keep)
    remove_finished(keep)
    return Rollouts.load(folder)


def in_processes(
    groups: list[range], plan: CollectionPlan, policy: BatchPolicy, folder: Path, report: Report, workers: int
) -> None:
    """Collects groups in worker processes, each of which takes the next group when it is free."""
    context = worker_context()  # a fork need not pickle the policy
    waiting, reports = context.Queue(), context.Queue()
    for group in [*groups, *[None] * workers]:  # each worker ends at its None
        waiting.put(group)
    started = [
        context.Process(target=_work, args=(waiting, reports, plan, policy, folder), daemon=True)
        for _ in range(workers)
    ]
    try:
        for process in started:
            process.start()
        busy = workers
        while busy:
            try:
                message = reports.get(timeout=1.0)  # a worker that was killed says nothing, so it is looked for
            except Empty:
                lost = [process.exitcode for process in started if process.exitcode not in (None, 0)]
                if lost:
                    raise ChildProcessError(f"a worker process ended with code {lost[0]}") from None
                continue
            if message is None:
                busy -= 1
            elif isinstance(message, BaseException):
                raise message
            else:
                report(*message)
    finally:
        for process in started:
            if process.is_alive() and process.pid is not None:
                process.terminate()
            if process.pid is not None:
                process.join()


def _work(waiting: Any, reports: Any, plan: CollectionPlan, policy: BatchPolicy, folder: Path) -> None:
    """Collects groups in a worker process until none is left. The parent process handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()

    def report(rollouts: int, steps: int) -> None:
        reports.put((rollouts, steps))

    try:
        with one_thread():
            collect_groups(iter(waiting.get, None), plan, policy, folder, report)
        reports.put(None)
    except Exception as error:
        reports.put(portable(error))
