"""Groups of rollouts as jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ncp_control.base.machine import one_thread
from ncp_control.base.processes import INPUTS, Job, JobPlace, Report, bring
from ncp_control.data.batch_policies import as_batch_policy
from ncp_control.data.collection import CollectionPlan, path_of
from ncp_control.data.groups import Report as GroupReport
from ncp_control.data.groups import collect_groups, made

RANDOM = "random"


def on_place(place: JobPlace, policy: str) -> Callable[[list[range], CollectionPlan, Path, GroupReport], None]:
    """Returns what `collect` takes as `elsewhere`, so that it collects its groups as jobs.

    The rollouts are those of a collection in one process, bit for bit. They come back one by one, and are kept on disk.

    :param place: where the jobs run
    :param policy: the policy's file, or "random"
    """

    def collect(groups: list[range], plan: CollectionPlan, folder: Path, report: GroupReport) -> None:
        source = bring(policy, folder)
        jobs = [job_of(group, plan, source) for group in groups]
        sizes = {job.name: len(group) for job, group in zip(jobs, groups, strict=True)}
        known = dict.fromkeys(sizes, (0, 0))  # the rollouts and the steps that were reported
        with closing(place.run(jobs, folder)) as events:
            for event in events:
                if event.kind == "failed":
                    raise event.value
                before, now = known[event.job], event.progress
                if event.kind == "done":
                    now = sizes[event.job], before[1]
                report(now[0] - before[0], now[1] - before[1])
                known[event.job] = now

    return collect


def job_of(group: range, plan: CollectionPlan, policy: str) -> Job:
    """Returns the collection of a group as a job."""
    files = tuple(path_of(Path(), k).name for k in group)
    arguments = {"plan": asdict(plan), "policy": policy, "first": group.start, "last": group.stop}
    name = f"rollouts {group.start} to {group.stop - 1}"
    return Job(name, f"{__name__}:collect_group", arguments, reads=(INPUTS,), writes=files)


def collect_group(plan: dict[str, Any], policy: str, first: int, last: int, report: Report) -> None:
    """Collects the rollouts of a group that are not there yet, in the folder of the collection.

    :param plan: the fields of a `CollectionPlan`
    :param policy: the policy's file, or "random"
    :param first: the group's first rollout
    :param last: the first rollout after the group
    """
    whole = CollectionPlan(**plan)
    with closing(made(whole)) as example:
        chosen = as_batch_policy(read_policy(policy), example.action_space, whole.controller, whole.deterministic)
    if chosen.sha256 != whole.sha256:
        raise ValueError(f"{policy} is another policy than the one that this collection was begun with")
    done = steps = 0

    def told(rollouts: int, more: int) -> None:
        nonlocal done, steps
        done, steps = done + rollouts, steps + more
        report(done, steps, "")

    with one_thread():
        collect_groups([range(first, last)], whole, chosen, Path(), told)


def read_policy(policy: str) -> Any:
    """Returns the policy in a file, or "random"."""
    if policy == RANDOM:
        return policy
    from ncp_control.rl import load_policy

    return load_policy(policy)
