"""One dataset from start to end: finished rollouts are kept on disk until all are there, and then written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from ncp_control.data import minari_files
from ncp_control.data.collect import collect
from ncp_control.data.collection import remove_finished
from ncp_control.data.environments import spec_of
from ncp_control.data.rollouts import Rollouts
from ncp_control.runs.folder import Hold


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
    with Hold(keep):
        minari_files.write_minari(rollouts, dataset_id, folder, spec, about, keep)
    remove_finished(keep)
    return Rollouts.load(folder)
