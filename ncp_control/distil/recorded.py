"""Recorded episodes as a teacher: behaviour cloning, for which nobody can be asked what they would have done."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.data.rollouts import Rollouts
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.recorded_env import recipe_in, spec_in

METHOD = "behaviour cloning"  # in the note of a policy
KIND = "dataset"  # of the teacher, in the note on it
HASHED = ("observations", "actions", "rewards", "is_random", "elapsed")


@dataclass(frozen=True)
class Recorded:
    """Recorded episodes, from which `distil` teaches a circuit by behaviour cloning.

    Example::

        recorded = Recorded.load("ncp/halfcheetah/expert-v0")
        found = distil(recorded, "ncp/HalfCheetahNoVel-v0")

    :param rollouts: episodes with actions and rewards
    :param spec: what the data say of the environment that they were recorded in, as JSON values like those of
        Gymnasium's `EnvSpec.to_json`, at least its `id`; an empty dictionary if they say nothing
    :param name: the name of the data in messages and notes; by default the dataset's id, or where it lies
    """

    rollouts: Rollouts
    spec: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.rollouts, Rollouts):
            raise TypeError(f"Recorded holds Rollouts, not a {type(self.rollouts).__name__}: Recorded.load reads data")
        if not self.name:
            about = self.rollouts.about
            object.__setattr__(self, "name", str(about.get("id") or about.get("source") or "recorded episodes"))
        for what in ("actions", "rewards"):
            if getattr(self.rollouts[0], what) is None:
                raise ValueError(
                    f"{self.name} has no {what}, and {METHOD} needs those of every step: record episodes with "
                    "ncp-control collect"
                )

    @classmethod
    def load(cls, source: str | Path | Any) -> Recorded:
        """Reads recorded episodes, and what they say of their environment.

        :param source: as `Rollouts.load` takes it; a Minari dataset says its environment, other files do not
        """
        rollouts = Rollouts.load(source)
        return cls(rollouts, spec_in(rollouts.about))

    @property
    def note(self) -> dict[str, Any]:
        """The id of the environment, where the note in a policy's file has it."""
        return {"env": self.spec["id"]} if isinstance(self.spec.get("id"), str) else {}

    @property
    def steps(self) -> int:
        """The number of recorded steps."""
        return self.rollouts.steps

    @property
    def random_share(self) -> float:
        """The share of the steps whose action was random."""
        return sum(0 if one.is_random is None else int(one.is_random.sum()) for one in self.rollouts) / self.steps

    def recipe(self, env: str | None = None) -> EnvRecipe:
        """Returns how the environment is made that the episodes were recorded in.

        :param env: its id, if the user named it
        """
        return recipe_in(self.spec, self.name, env)

    def first(self, steps: int) -> Recorded:
        """Returns the first episodes, as many as have so many steps at most."""
        ends = np.cumsum([one.steps for one in self.rollouts])
        count = int((ends <= steps).sum())
        if not count:
            raise ValueError(
                f"the first episode of {self.name} has {ends[0]:,} steps, and only whole episodes are used: raise "
                f"--steps above {steps:,}"
            )
        return self if count == len(self.rollouts) else replace(self, rollouts=self.rollouts[:count])

    def about(self) -> dict[str, Any]:
        """Returns what is noted about these data as a teacher, as JSON values: as `about_teacher` does, and further
        `episodes`, `steps`, the `policy` that acted, and the share of its actions that were `random`."""
        about = self.rollouts.about
        controller, algorithm = about.get("controller"), about.get("algorithm")
        policy = controller.get("name") if isinstance(controller, dict) else None
        return {
            "name": self.name,
            "kind": KIND,
            # Minari's datasets must have an algorithm, and where none is known it is the policy's name.
            "algorithm": algorithm if isinstance(algorithm, str) and algorithm != policy else None,
            "sha256": hash_of(self.rollouts),
            "env": self.note.get("env"),
            "episodes": len(self.rollouts),
            "steps": self.steps,
            "policy": policy if isinstance(policy, str) else None,
            "random": self.random_share,
        }


def random_in_words(share: float) -> str:
    """Returns, in brackets, what share of the recorded actions was random; nothing if none was."""
    return f" ({100 * share:.3g} % of their actions random)" if share else ""


def hash_of(rollouts: Rollouts) -> str:
    """Returns the SHA-256 of all that was recorded."""
    digest = hashlib.sha256()
    for rollout in rollouts:
        for key in HASHED:
            values = getattr(rollout, key)
            if values is not None:
                digest.update(f"{key} {values.dtype.str} {values.shape} ".encode() + np.ascontiguousarray(values).data)
        digest.update(f"terminated {rollout.terminated} seed {rollout.seed} ".encode())
    return digest.hexdigest()
