"""What is to be collected, and the folder where finished rollouts wait for the others."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.storage.run_folder import Hold, check_same, versions

PACKAGES = ("ncp-control", "gymnasium", "mujoco", "numpy", "torch")
RECORD = "plan.json"


@dataclass(frozen=True)
class Plan:
    """What is collected; two equal plans give equal rollouts.

    :param env: the environment's spec as JSON, without the wrapper that overwrites actions
    :param rollouts: how many
    :param random_action_fraction: the probability that a step's action is random
    :param seed: all of them follow from it
    :param group: rollouts that are collected together
    :param controller: its name
    :param sha256: of the controller, or None where that cannot be told
    :param deterministic: of a controller that can do both, its mode rather than a sample
    """

    env: str
    rollouts: int
    random_action_fraction: float
    seed: int
    group: int
    controller: str
    sha256: str | None
    deterministic: bool

    def seed_of(self, rollout: int) -> int:
        """What the environment of a rollout is reset with."""
        return spawned_seed(self.seed, rollout)

    def groups(self) -> list[range]:
        """The rollouts of each group, as even as can be."""
        count = -(-self.rollouts // self.group)
        cuts = [self.rollouts * k // count for k in range(count + 1)]
        return [range(first, last) for first, last in pairwise(cuts)]

    def about(self) -> dict[str, Any]:
        """How the rollouts were made, as JSON values."""
        return {
            "controller": {"name": self.controller, "sha256": self.sha256, "deterministic": self.deterministic},
            "env": json.loads(self.env)["id"],
            "random_action_fraction": self.random_action_fraction,
            "seed": self.seed,
            "group": self.group,
            "versions": versions(PACKAGES),
        }


def spawned_seed(seed: int, k: int) -> int:
    """The seed of the k-th of the independent streams that a seed has."""
    return int(np.random.SeedSequence(seed, spawn_key=(k,)).generate_state(1)[0])


def path_of(folder: Path, rollout: int) -> Path:
    """Where a finished rollout lies."""
    return folder / f"rollout_{rollout:05d}.npz"


def finished(folder: Path) -> list[Path]:
    """The finished rollouts of a folder."""
    return list(folder.glob("rollout_*.npz"))


def count_finished(folder: Path) -> int:
    """How many finished rollouts a folder holds."""
    return len(finished(folder))


def prepare(folder: Path, plan: Plan, resume: bool) -> Hold:
    """Makes the folder, or checks that it holds rollouts of the same plan; a plan without any is replaced.

    :return: the hold on the folder, to be released when the work is done
    """
    folder.mkdir(parents=True, exist_ok=True)
    hold = Hold(folder)
    try:
        record = folder / RECORD
        if count_finished(folder):
            if not record.is_file():
                raise ValueError(f"{folder} holds rollouts, but not the plan of them: remove the folder")
            if not resume:
                raise FileExistsError(f"{folder} holds an unfinished collection: resume it, or remove the folder")
            check_same(record, asdict(plan), f"{folder} was begun with")
            if plan.sha256 is None and plan.controller != "random":
                raise ValueError(
                    f"nobody can tell whether {plan.controller} is the policy that {folder} was begun with, for it is "
                    "no plain function and has no weights: remove the folder, or give the policy a sha256 of its own"
                )
        else:
            write_atomically(record, json.dumps(asdict(plan), indent=2).encode())
    except BaseException:
        hold.release()
        raise
    return hold


def remove_finished(folder: Path) -> None:
    """Removes the folder, once its rollouts are in a dataset."""
    for path in finished(folder):  # before the plan, which says whose they are
        path.unlink()
    shutil.rmtree(folder)
