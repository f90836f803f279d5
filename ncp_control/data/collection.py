"""The plan of a collection of rollouts, and the folder where finished rollouts stay until all are finished."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import write_atomically
from ncp_control.base.values import without_added
from ncp_control.runs.folder import Hold, check_same, read_record, versions

# Their versions are noted, because the numbers of a rollout may change with each of them.
PACKAGES = ("ncp-control", "gymnasium", "mujoco", "numpy", "torch")
RECORD = "plan.json"
KEEP = "ncp_envs.observations:KeepObservations"


@dataclass(frozen=True)
class CollectionPlan:
    """Everything that determines the rollouts: equal plans give equal rollouts. Its fields are those of `plan.json`.

    :param env: the environment's spec as JSON, without the wrapper that overwrites actions
    :param rollouts: the number of rollouts
    :param random_action_fraction: the probability that a step's action is random
    :param seed: the seed of everything random
    :param group: the largest number of rollouts that are collected together
    :param controller: the policy's name
    :param sha256: a hash of the policy; None if there is no such hash
    :param deterministic: whether a policy that can do both takes its deterministic action rather than a sample
    :param bursts: the probability that a burst of other actions begins at a step
    """

    env: str
    rollouts: int
    random_action_fraction: float
    seed: int
    group: int
    controller: str
    sha256: str | None
    deterministic: bool
    bursts: float = 0.0

    def recorded(self) -> dict[str, Any]:
        """Returns the fields for `plan.json`, which earlier versions wrote without bursts."""
        return without_added(asdict(self), {"bursts": 0.0})

    def seed_of(self, rollout: int) -> int:
        """Returns the seed with which the environment of a rollout is reset."""
        return spawned_seed(self.seed, rollout)

    def groups(self) -> list[range]:
        """Divides the rollouts into groups of as equal size as possible."""
        count = -(-self.rollouts // self.group)
        # in whole numbers, so that no rounding ever moves a rollout into another group
        cuts = [self.rollouts * k // count for k in range(count + 1)]
        return [range(first, last) for first, last in pairwise(cuts)]

    def about(self) -> dict[str, Any]:
        """Describes how the rollouts were made, in JSON values."""
        return {
            "controller": {"name": self.controller, "sha256": self.sha256, "deterministic": self.deterministic},
            "env": json.loads(self.env)["id"],
            "random_action_fraction": self.random_action_fraction,
            **({"bursts": self.bursts} if self.bursts else {}),
            "seed": self.seed,
            "group": self.group,
            "versions": versions(PACKAGES),
        }


def spawned_seed(seed: int, k: int) -> int:
    """Returns the k-th of the independent seeds that follow from one seed."""
    # one word of 32 bits, which any environment takes as a seed
    return int(np.random.SeedSequence(seed, spawn_key=(k,)).generate_state(1)[0])


def path_of(folder: Path, rollout: int) -> Path:
    """Returns the path of a finished rollout."""
    return folder / f"rollout_{rollout:05d}.npz"


def finished(folder: Path) -> list[Path]:
    """Returns the paths of all finished rollouts in a folder."""
    return list(folder.glob("rollout_*.npz"))


def count_finished(folder: Path) -> int:
    """Counts the finished rollouts in a folder."""
    return len(finished(folder))


def prepare(folder: Path, plan: CollectionPlan, resume: bool) -> Hold:
    """Creates the folder of a collection, or checks that the rollouts in it were made by the same plan. A plan without
    any rollouts is replaced.

    :return: the hold on the folder, to be released when the work is done
    """
    folder.mkdir(parents=True, exist_ok=True)
    hold = Hold(folder)
    try:
        record = folder / RECORD
        if count_finished(folder):
            if not record.is_file():
                raise ValueError(f"{folder} holds rollouts, but no {RECORD} to continue them by: remove the folder")
            if not resume:
                raise FileExistsError(f"{folder} holds an unfinished collection: resume it, or remove the folder")
            about, before = plan.recorded(), read_record(record)
            # Another version of ncp_envs may have written the same task in other words.
            begun = before.get("env")
            if isinstance(begun, str) and task_in(begun) == task_in(plan.env):
                about["env"] = begun
            check_same(before, about, f"{folder} was begun with")
            if plan.sha256 is None and plan.controller != "random":
                raise ValueError(
                    f"{folder} cannot be resumed, because {plan.controller} is not a plain function and has no "
                    "weights, so it may be another policy than before: remove the folder, or give the policy an "
                    "attribute sha256"
                )
        else:
            write_atomically(record, json.dumps(plan.recorded(), indent=2).encode())
    except BaseException:
        hold.release()
        raise
    return hold


def task_in(env: str) -> Any:
    """Returns the content of a spec's JSON without that in which versions of `ncp_envs` differ for the same task: the
    entry points, and whether the wrapper that chooses entries is listed.
    """
    try:
        spec: dict[str, Any] = json.loads(env)
        if not spec["id"].startswith("ncp/"):
            return spec
        wrappers = list(spec["additional_wrappers"])
        if wrappers and wrappers[0]["entry_point"] == KEEP:
            wrappers.pop(0)
    except (ValueError, TypeError, KeyError, AttributeError):
        return env
    return spec | {"entry_point": None, "vector_entry_point": None, "additional_wrappers": wrappers}


def remove_finished(folder: Path) -> None:
    """Removes the folder of a collection, once its rollouts are in a dataset."""
    for path in finished(folder):  # first, so that an interruption leaves no rollouts without their plan
        path.unlink()
    shutil.rmtree(folder)
