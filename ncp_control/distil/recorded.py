"""Recorded episodes as a teacher: behaviour cloning, in which no teacher can be asked for labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from ncp_control.base.notes import read_object
from ncp_control.data.collection import KEEP
from ncp_control.data.env_specs import spec_of
from ncp_control.data.rollouts import Rollouts
from ncp_control.distil.environments import EnvRecipe
from ncp_control.rl.recipes.recipe import refuse_import

RENDERING = ("render_mode", "width", "height", "camera_id", "camera_name", "default_camera_config")
NO_LIMIT = -1  # what `gymnasium.make` takes for episodes without a time limit
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
        """Returns as many of the first episodes as have at most so many steps together."""
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


def spec_in(about: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what data say of their environment, as JSON values with an `id`; an empty dictionary if they say nothing.

    :param about: what `Rollouts.about` says of them
    """
    path = Path(str(about.get("source", ""))) / "metadata.json"
    if path.is_file():
        text = read_object(path.read_text(encoding="utf-8")).get("env_spec")
        if isinstance(text, str):
            try:
                found = read_object(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path} does not say a readable env_spec ({error}): record the data again") from error
            return found if isinstance(found.get("id"), str) else {}
    return {"id": about["env"]} if isinstance(about.get("env"), str) else {}


def recipe_in(spec: Mapping[str, Any], data: str, asked: str | None = None) -> EnvRecipe:
    """Returns how the environment is made that data were recorded in.

    The spec's own entry point is never used, because it could name any code: the environment is the registered one of
    the same id, with the spec's options, time limit and wrappers. Wrappers are those of `ncp_envs`.

    :param spec: what `spec_in` returned
    :param data: the name of the data in messages
    :param asked: the id that the user named; if it is another one, the rest of the spec is ignored
    """
    recorded = spec.get("id")
    if not isinstance(recorded, str) and asked is None:
        raise ValueError(
            f"{data} does not say in which environment it was recorded: name it, --teacher-env ID, or record a dataset "
            "with ncp-control collect"
        )
    if asked is None:
        refuse_import(str(recorded), f"{data} was recorded in {recorded}", f"--teacher-env {recorded}")
    name = asked or str(recorded)
    try:
        registered = spec_of(name)
    except ValueError as error:
        if asked is not None:
            raise
        raise ValueError(
            f"{data} was recorded in {recorded}, which nothing has registered here: name the module that registers it, "
            f"--teacher-env MODULE:{recorded}"
        ) from error
    if name.rpartition(":")[2] != recorded:
        return EnvRecipe(name)
    return EnvRecipe(name, wrappers_in(spec, registered, data), arguments_in(spec, registered))


def arguments_in(spec: Mapping[str, Any], registered: EnvSpec) -> dict[str, Any]:
    """Returns the arguments with which the recorded environment differs from the registered one."""
    given = spec.get("kwargs")
    usual = json.loads(registered.to_json())
    arguments = {
        key: value for key, value in (given if isinstance(given, dict) else {}).items()
        if key not in RENDERING and usual["kwargs"].get(key) != value
    }  # fmt: skip
    if "max_episode_steps" in spec and spec["max_episode_steps"] != registered.max_episode_steps:
        limit = spec["max_episode_steps"]
        arguments["max_episode_steps"] = NO_LIMIT if limit is None else limit
    return arguments


def wrappers_in(spec: Mapping[str, Any], registered: EnvSpec, data: str) -> list[dict[str, Any]]:
    """Returns the wrappers around the registered environment, the innermost first, as a recipe describes them."""
    import ncp_envs

    given = spec.get("additional_wrappers")
    left = list(given) if isinstance(given, list) else []
    own = json.loads(registered.to_json())["additional_wrappers"]
    if left[: len(own)] == own:
        left = left[len(own) :]
    if left and left[0] == keeps_entries_of(registered.id):
        left.pop(0)  # earlier versions wrote what a task's entry point does among the wrappers
    wrappers = []
    for wrapper in left:
        described = wrapper if isinstance(wrapper, dict) else {"name": wrapper}
        name, entry_point = (str(described.get(key)) for key in ("name", "entry_point"))
        if name not in ncp_envs.__all__ or not entry_point.startswith("ncp_envs."):
            raise ValueError(
                f"{data} was recorded behind the wrapper {name}, and only those of ncp_envs can be made again: record "
                "without it"
            )
        wrappers.append({name: described.get("kwargs") or {}})
    return wrappers


def keeps_entries_of(env: str) -> dict[str, Any] | None:
    """Returns the spec of the wrapper that chooses the entries of a task of `ncp_envs`; None for other environments."""
    from ncp_envs.partial import TASKS

    for task in TASKS:
        if task.name == env:
            kept: Any = task.kept if isinstance(task.kept, str) else list(task.kept)
            settings = {"indices": kept, "size": task.size}
            return {"name": KEEP.rpartition(":")[2], "entry_point": KEEP, "kwargs": settings}
    return None
