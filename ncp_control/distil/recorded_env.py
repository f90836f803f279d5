"""What a dataset says of the environment that it was recorded in, read without running any code that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec

from ncp_control.base.notes import read_object
from ncp_control.data.collection import KEEP
from ncp_control.data.environments import spec_of
from ncp_control.distil.environments import EnvRecipe
from ncp_control.rl.recipes.recipe import refuse_import

RENDERING = ("render_mode", "width", "height", "camera_id", "camera_name", "default_camera_config")
NO_LIMIT = -1  # what `gymnasium.make` takes for episodes without a time limit


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
    found = {
        key: value for key, value in (given if isinstance(given, dict) else {}).items()
        if key not in RENDERING and usual["kwargs"].get(key) != value
    }  # fmt: skip
    if "max_episode_steps" in spec and spec["max_episode_steps"] != registered.max_episode_steps:
        limit = spec["max_episode_steps"]
        found["max_episode_steps"] = NO_LIMIT if limit is None else limit
    return found


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
    found = []
    for one in left:
        name, place = (str(one.get(key)) if isinstance(one, dict) else str(one) for key in ("name", "entry_point"))
        if name not in ncp_envs.__all__ or not place.startswith("ncp_envs."):
            raise ValueError(
                f"{data} was recorded behind the wrapper {name}, and only those of ncp_envs can be made again: record "
                "without it"
            )
        found.append({name: one.get("kwargs") or {}})
    return found


def keeps_entries_of(env: str) -> dict[str, Any] | None:
    """Returns the spec of the wrapper that chooses the entries of a task of `ncp_envs`; None for other environments."""
    from ncp_envs.partial import TASKS

    for task in TASKS:
        if task.name == env:
            kept: Any = task.kept if isinstance(task.kept, str) else list(task.kept)
            settings = {"indices": kept, "size": task.size}
            return {"name": KEEP.rpartition(":")[2], "entry_point": KEEP, "kwargs": settings}
    return None
