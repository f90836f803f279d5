"""Minari datasets: writing rollouts so that Minari's own loader reads them, and reading them back."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.data.environments import make, range_of
from ncp_control.data.minari_checks import MAIN_FILE, RECORD, check_description, sha256_of
from ncp_control.data.rollouts import Rollout, Rollouts
from ncp_control.storage.atomic_writes import check_room
from ncp_control.storage.descriptions import UNREADABLE, read_object

ID = re.compile(r"^([\w-]+/)*[\w-]+-v\d+$")


def datasets_root() -> Path:
    """Where Minari keeps its datasets: MINARI_DATASETS_PATH, or ~/.minari/datasets."""
    chosen = os.environ.get("MINARI_DATASETS_PATH")
    return Path(chosen) if chosen else Path.home() / ".minari" / "datasets"


def minari_folder(dataset_id: str) -> Path | None:
    """The data folder of a dataset of this machine, or None."""
    folder = datasets_root() / dataset_id / "data"
    return folder if (folder / "metadata.json").is_file() else None


def place_of(out: str) -> tuple[str, Path]:
    """The Minari id that `out` stands for, and the folder where that dataset goes.

    `out` is an id, such as "ncp/halfcheetah/teacher-r05-v0", which goes where Minari looks for it; or the path of a
    folder, starting with "." or "/" or of another form than an id, which becomes the dataset.
    """
    if ID.match(out) and not Path(out).is_absolute():
        return out, datasets_root() / out
    path = Path(out)
    name = re.sub(r"[^\w-]+", "-", path.name).strip("-") or "rollouts"
    return (name if re.search(r"-v\d+$", name) else f"{name}-v0"), path


def write_minari(
    rollouts: Rollouts,
    dataset_id: str,
    folder: Path,
    env_spec: Any,
    record: dict[str, Any],
    scratch: Path | None = None,
) -> None:
    """Writes a dataset to a temporary folder, then renames it.

    :param rollouts: with actions and rewards
    :param dataset_id: Minari's name for it
    :param folder: where it goes; must not exist
    :param env_spec: of the environment without random actions, so that stored actions replay in it
    :param record: what else to keep: controller, seeds, versions, command
    :param scratch: where the temporary folder is, on the same disk; beside `folder` by default
    """
    from minari.data_collector import EpisodeBuffer
    from minari.utils import create_dataset_from_buffers

    from ncp_envs import without_mass_warning

    if folder.exists():
        raise FileExistsError(f"{folder} exists already: choose another name, or remove it first")
    buffers = [
        EpisodeBuffer(
            id=k,
            seed=rollout.seed,
            observations=rollout.observations,
            actions=rollout.actions,
            rewards=rollout.rewards,
            terminations=_last_only(rollout.steps, rollout.terminated),
            truncations=_last_only(rollout.steps, not rollout.terminated),
            infos=_infos(rollout),
        )
        for k, rollout in enumerate(rollouts)
    ]
    versions = record.get("versions", {})
    requirements = [f"{name}=={versions[name]}" for name in ("gymnasium", "mujoco") if name in versions]
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = (scratch or folder.parent).resolve()  # Minari joins what is relative to itself
    with _errors_of_hdf5(folder), tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=place) as temporary:
        check_room(place, sum(map(_most_bytes, rollouts)))
        with _minari_root(temporary), warnings.catch_warnings(), without_mass_warning(), make(env_spec) as env:
            # what Minari wishes to know of its authors' public datasets
            warnings.filterwarnings("ignore", message="`(code_permalink|author|author_email|eval_env)` is set to None")
            dataset = create_dataset_from_buffers(
                dataset_id,
                buffers,
                env=env_spec,
                observation_space=env.observation_space,
                action_space=env.action_space,
                algorithm_name=str(record.get("controller", {}).get("name", "unknown")),
                description=str(record.get("description", "")),
                requirements=requirements,
            )
            main = Path(temporary) / dataset_id / "data" / MAIN_FILE
            dataset.storage.update_metadata({RECORD: {**record, "sha256": sha256_of(main)}})
        (Path(temporary) / dataset_id).rename(folder)


def _most_bytes(rollout: Rollout) -> int:
    """What an episode takes in HDF5, which crashes on a full disk; more than that is never needed."""
    assert rollout.actions is not None
    return int(1.1 * (rollout.observations.nbytes + rollout.actions.nbytes + 32 * rollout.steps)) + 2**16


@contextmanager
def _errors_of_hdf5(folder: Path) -> Iterator[None]:
    """HDF5 hides the system's errors in long texts, some of them RuntimeErrors: they become what they are."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None  # what it cannot close either it would print
    try:
        yield
    except (RuntimeError, OSError) as error:
        traceback.clear_frames(error.__traceback__)  # closes what it can, now
        number = re.search(r"errno = (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder)) from error
    finally:
        sys.unraisablehook = before


def _last_only(steps: int, value: bool) -> Any:
    flags = np.zeros(steps, dtype=bool)
    flags[-1:] = value
    return flags


def _infos(rollout: Rollout) -> dict[str, Any]:
    """Minari's infos begin with that of the reset."""
    steps = rollout.steps
    random = np.zeros(steps, dtype=bool) if rollout.is_random is None else rollout.is_random
    elapsed = np.ones(steps + 1) if rollout.elapsed is None else rollout.elapsed
    return {"is_random": np.concatenate([[False], random]), "elapsed": elapsed}


@contextmanager
def _minari_root(path: str) -> Iterator[None]:
    """Minari writes below the folder that an environment variable names."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before


def read_minari(folder: Path) -> Rollouts:
    """Every episode of the dataset whose `metadata.json` lies in `folder`; of any controller, ours or not."""
    from minari import MinariDataset

    try:
        metadata = read_object((folder / "metadata.json").read_text(encoding="utf-8"))
        record = metadata.get(RECORD, {})
        check_description(metadata, record, folder / MAIN_FILE)
        dataset = MinariDataset(str(folder))
        episodes = list(dataset.iterate_episodes())
        seeds = [found.get("seed") for found in dataset.storage.get_episode_metadata(dataset.episode_indices)]
        names = tuple(record.get("observation_names", ()))
        rollouts = tuple(_rollout(episode, seed) for episode, seed in zip(episodes, seeds, strict=True))
    except (OSError, *UNREADABLE) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{folder} is not a readable Minari dataset, or was cut short ({words})") from error
    about = {"source": str(folder), "id": metadata.get("dataset_id"), **record}
    return Rollouts(rollouts, observation_names=names, about=about, action_range=range_of(dataset.action_space))


def _rollout(episode: Any, seed: int | None) -> Rollout:
    """An episode of Minari's as ours."""
    name = f"episode {episode.id}"
    if not isinstance(episode.observations, np.ndarray):
        raise ValueError(f"{name} has observations that are not one array: flatten them first")
    infos = episode.infos or {}
    random, elapsed = infos.get("is_random"), infos.get("elapsed")
    return Rollout(
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        is_random=None if random is None else np.asarray(random[1:], dtype=bool),
        elapsed=None if elapsed is None or np.all(elapsed == 1) else np.asarray(elapsed),
        terminated=bool(episode.terminations[-1]),
        seed=seed,
        name=name,
    )
