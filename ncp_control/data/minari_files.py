"""Writing rollouts as a Minari dataset that Minari's own loader can read, and reading any Minari dataset.

A dataset from an untrusted source is checked before Minari reads it. Its metadata hold what Minari's users expect to
know of it: its algorithm, author, versions, returns, and the reference scores that put returns on a scale from 0 to 1.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ncp_control.base.files import check_room, temporary_folder
from ncp_control.base.notes import read_object
from ncp_control.base.tensors import UNREADABLE
from ncp_control.data.env_specs import choices_of, make, range_of
from ncp_control.data.rollout import Rollout, StoredRollouts

VECTORS = (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)
# A namespace, a name and a version, as in Minari; without a version it could be any path.
ID = re.compile(r"^([\w-]+/)*[\w-]+-v\d+$")
REQUIRED = ("ncp-control", "gymnasium", "mujoco")  # what makes the environment again
# Minari's names of entries, and the names that they have in `Rollouts.about`.
KEPT = {"algorithm_name": "algorithm", "description": "description", "code_permalink": "code_link"}
# The key of our own record in Minari's metadata.
RECORD = "ncp_control"
MAIN_FILE = "main_data.hdf5"
ENDS = ("ref_min_score", "ref_max_score")  # Minari's names of the returns that score 0 and 1
LARGEST_SCORE = 1e300  # so that a difference of two scores never overflows


def datasets_root() -> Path:
    """The folder where Minari keeps its datasets: MINARI_DATASETS_PATH, or ~/.minari/datasets."""
    chosen = os.environ.get("MINARI_DATASETS_PATH")
    return Path(chosen) if chosen else Path.home() / ".minari" / "datasets"


def minari_folder(dataset_id: str) -> Path | None:
    """Returns the data folder of a dataset on this machine, or None if there is no such dataset."""
    folder = datasets_root() / dataset_id / "data"
    return folder if (folder / "metadata.json").is_file() else None


def place_of(out: str, root: Path | None = None) -> tuple[str, Path]:
    """Returns the Minari id of a dataset that is to be written to `out`, and its folder.

    :param out: a Minari id, such as "ncp/halfcheetah/teacher-r05-v0", for a dataset where Minari looks for it; or the
        path of the dataset's folder: anything that starts with "." or "/" or is not a valid id
    :param root: the folder that ids lead into, in place of Minari's own
    """
    if ID.match(out) and not Path(out).is_absolute():
        return out, (root or datasets_root()) / out
    path = Path(out)
    name = re.sub(r"[^\w-]+", "-", path.name).strip("-") or "rollouts"
    return (name if re.search(r"-v\d+$", name) else f"{name}-v0"), path


def write_minari(
    rollouts: Sequence[Rollout],
    dataset_id: str,
    folder: Path,
    env_spec: Any,
    record: dict[str, Any],
    scratch: Path | None = None,
) -> None:
    """Writes a dataset to a temporary folder, then renames it.

    :param rollouts: with actions and rewards
    :param dataset_id: the name by which Minari finds the dataset
    :param folder: the dataset's folder, which must not exist yet
    :param env_spec: the spec of the environment without the wrapper for random actions, so that the stored actions
        replay in it
    :param record: further metadata to keep: policy, seeds, versions, command. Minari's own fields are filled from it
        (see `fields_of`)
    :param scratch: the folder for the temporary folder, on the same disk; by default the parent of `folder`
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
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = (scratch or folder.parent).resolve()  # Minari would join a relative root twice
    with _errors_of_hdf5(folder), temporary_folder(place / folder.name) as temporary:
        check_room(place, sum(map(_most_bytes, rollouts)))
        with _minari_root(str(temporary)), warnings.catch_warnings(), without_mass_warning(), make(env_spec) as env:
            # Minari wants to know these about datasets that are published, and not everybody publishes.
            warnings.filterwarnings("ignore", message="`(code_permalink|author|author_email)` is set to None")
            dataset = create_dataset_from_buffers(
                dataset_id,
                buffers,
                env=env_spec,
                eval_env=env_spec,
                observation_space=env.observation_space,
                action_space=env.action_space,
                **fields_of(record),
            )
            # before the checksum, because it changes the file
            dataset.storage.update_episode_metadata(statistics_of(rollouts))
            main = temporary / dataset_id / "data" / MAIN_FILE
            dataset.storage.update_metadata({RECORD: {**record, "sha256": sha256_of(main)}})
        (temporary / dataset_id).rename(folder)  # last, so that a dataset is there as a whole or not at all


def _most_bytes(rollout: Rollout) -> int:
    """Returns an upper bound of an episode's size in HDF5, whose library crashes when the disk is full."""
    assert rollout.actions is not None
    # 32 bytes a step have room for the reward, the flags and the time; the rest is for what HDF5 itself writes
    return int(1.1 * (rollout.observations.nbytes + rollout.actions.nbytes + 32 * rollout.steps)) + 2**16


@contextmanager
def _errors_of_hdf5(folder: Path) -> Iterator[None]:
    """Turns an error of HDF5 whose message contains a system error, such as a full disk, into that `OSError`."""
    # Meanwhile, HDF5 must not print that it also failed to close its file.
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    except (RuntimeError, OSError) as error:
        traceback.clear_frames(error.__traceback__)  # closes the open files now rather than later
        number = re.search(r"errno = (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder)) from error
    finally:
        sys.unraisablehook = before


def _last_only(steps: int, value: bool) -> Any:
    """Returns flags (T,) that are false, except that the last one is `value`."""
    flags = np.zeros(steps, dtype=bool)
    flags[-1:] = value
    return flags


def _infos(rollout: Rollout) -> dict[str, Any]:
    """Returns the infos (T + 1,) that Minari stores, the first of which belongs to the reset."""
    steps = rollout.steps
    random = np.zeros(steps, dtype=bool) if rollout.is_random is None else rollout.is_random
    elapsed = np.ones(steps + 1) if rollout.elapsed is None else rollout.elapsed
    return {"is_random": np.concatenate([[False], random]), "elapsed": elapsed}


@contextmanager
def _minari_root(path: str) -> Iterator[None]:
    """Makes Minari write below `path`, which only an environment variable can do."""
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = path
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before


def read_minari(folder: Path) -> StoredRollouts:
    """Reads every episode of a Minari dataset, whoever wrote it.

    :param folder: the dataset's `data` folder, which contains `metadata.json`
    """
    from minari import MinariDataset

    with _readable(folder):
        metadata = read_object((folder / "metadata.json").read_text(encoding="utf-8"))
        check_description(metadata, metadata.get(RECORD, {}), folder / MAIN_FILE)
        dataset = MinariDataset(str(folder))
    return read_dataset(dataset, folder, metadata)


def read_dataset(dataset: Any, folder: Path | None = None, metadata: dict[str, Any] | None = None) -> StoredRollouts:
    """Reads the episodes of a dataset that Minari has opened, or of a selection of them, each when its turn comes.

    :param folder: where it lies; None asks the dataset
    :param metadata: its metadata; None asks the dataset
    """
    name = folder or dataset.storage.data_path
    check_kinds(str(name), dataset.observation_space, dataset.action_space)
    with _readable(name):
        metadata = dataset.storage.metadata if metadata is None else metadata
        record = metadata.get(RECORD, {})
        names = tuple(map(str, record.get("observation_names", ())))
    # last our own record, whose entries are more exact than Minari's of the same name
    about = {"source": str(name), "id": metadata.get("dataset_id"), **about_of(metadata), **record}
    space = dataset.action_space
    episodes = _episodes(dataset, name, len(names))
    return StoredRollouts(episodes, names, about, action_range=range_of(space), choices=choices_of(space))


def _episodes(dataset: Any, name: Any, names: int) -> Iterator[Rollout]:
    """Yields the episodes of a dataset, each read when its turn comes.

    :param name: the dataset's name in messages
    :param names: how many observations the dataset names; 0 if none
    """
    with _readable(name):
        seeds = dataset.storage.get_episode_metadata(dataset.episode_indices)
        for episode, metadata in zip(dataset.iterate_episodes(), seeds, strict=True):
            rollout = _rollout(episode, metadata.get("seed"))
            if names and names != rollout.observations.shape[1]:
                raise ValueError(f"it names {names} observations, and each step has {rollout.shapes}")
            yield rollout


def check_kinds(source: str, observations: Any, actions: Any) -> None:
    """Refuses observations that are not vectors of numbers, and actions that are not one array.

    :param source: the dataset's name in messages
    :param observations: their space
    :param actions: their space
    """
    fix = "flatten them with gymnasium.spaces.flatten, and make Rollouts of the arrays"
    if not isinstance(observations, VECTORS) or len(observations.shape) != 1:
        raise ValueError(
            f"{source} has observations in {observations}, and a rollout needs a vector at each step: {fix}"
        )
    if not isinstance(actions, (spaces.Discrete, *VECTORS)):
        raise ValueError(f"{source} has actions in {actions}, and a rollout needs an array or a choice a step: {fix}")


@contextmanager
def _readable(source: Any) -> Iterator[None]:
    """Turns any error in reading a dataset into one that says which dataset cannot be read."""
    try:
        yield
    except (OSError, *UNREADABLE) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{source} is not a readable Minari dataset, or was cut short ({words})") from error


def _rollout(episode: Any, seed: int | None) -> Rollout:
    """Converts an episode of Minari's to a rollout."""
    infos = episode.infos or {}
    random, elapsed = infos.get("is_random"), infos.get("elapsed")
    return Rollout(
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        # the first entry belongs to the reset, in which no action is taken
        is_random=None if random is None else np.asarray(random[1:], dtype=bool),
        elapsed=None if elapsed is None or np.all(elapsed == 1) else np.asarray(elapsed),
        terminated=bool(episode.terminations[-1]),
        seed=seed,
        name=f"episode {episode.id}",
    )


def fields_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of Minari's `create_dataset_from_buffers`.

    :param record: the record of a collection. Its `controller` and `versions` are always read; `description`,
        `algorithm`, `author`, `author_email`, `code_link` and `references` (see `References`) where they are known
    """
    versions = record.get("versions", {})
    fields = {
        "algorithm_name": str(record.get("algorithm") or record.get("controller", {}).get("name", "unknown")),
        "description": str(record.get("description", "")),
        "requirements": [f"{name}=={versions[name]}" for name in REQUIRED if name in versions],
        "author": record.get("author"),
        "author_email": record.get("author_email"),
        "code_permalink": record.get("code_link"),
    }
    if references := record.get("references"):
        fields |= dict(zip(ENDS, (references["random"], references["expert"]), strict=True))
        fields["num_episodes_average_score"] = references["episodes"]
    return fields


def statistics_of(rollouts: Sequence[Rollout]) -> list[dict[str, float]]:
    """Returns what Minari's own collector notes of every episode's rewards."""
    kinds = ("sum", "mean", "std", "max", "min")
    return [{f"rewards_{kind}": float(getattr(rollout.rewards, kind)()) for kind in kinds} for rollout in rollouts]


def about_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries for `Rollouts.about` from a dataset's metadata, whoever wrote it."""
    about: dict[str, Any] = {name: text for key, name in KEPT.items() if isinstance(text := metadata.get(key), str)}
    authors, parts = metadata.get("author"), metadata.get("combined_datasets")
    if isinstance(authors, list | set) and authors:
        about["author"] = ", ".join(sorted(map(str, authors)))
    if isinstance(parts, list) and parts:
        about["combined_from"] = [str(part) for part in parts]
    scale = scale_in(metadata)
    return about if scale is None else about | dict(zip(ENDS, scale, strict=True))


def check_description(metadata: dict[str, Any], record: Any, main: Path) -> None:
    """Refuses metadata that would make Minari run code, and data that does not match the metadata.

    :param metadata: the content of `metadata.json`
    :param record: our own entry in it
    :param main: the HDF5 file
    """
    for key in ("observation_space", "action_space"):
        if not isinstance(metadata.get(key), str):
            raise ValueError(
                f"it does not say its {key}; the environment that it names would have one, but making an environment "
                "that a file names could run any code"
            )
    if metadata.get("data_format") != "hdf5":
        raise ValueError(f"it is stored as {metadata.get('data_format')}, and only hdf5 is read")
    episodes, size = metadata.get("total_episodes"), main.stat().st_size
    # Minari makes an array of so many numbers, and no episode is smaller than a byte.
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not 0 < episodes <= size:
        raise ValueError(f"its metadata claim {episodes} episodes")
    if not isinstance(record, dict) or not isinstance(record.get("observation_names", []), list):
        raise ValueError(f"the entry {RECORD} of its metadata is not the record of a collection")
    if "sha256" in record and record["sha256"] != sha256_of(main):
        raise ValueError(f"{MAIN_FILE} does not match the checksum in metadata.json: the file was altered or damaged")


def sha256_of(path: Path) -> str:
    """Returns the checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):  # a dataset may be larger than the memory
            digest.update(block)
    return digest.hexdigest()


def scale_in(metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the returns that score 0 and 1, as a dataset's metadata name them; None where they name no such scale."""
    ends = [metadata.get(name) for name in ENDS]
    numbers = [float(value) for value in ends if value is not None and is_number(value)]
    return (numbers[0], numbers[1]) if len(numbers) == len(ENDS) and numbers[0] != numbers[1] else None


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number, and a finite one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -LARGEST_SCORE < value < LARGEST_SCORE


def normalized(returns: NDArray[Any], scale: tuple[float, float]) -> NDArray[Any]:
    """Returns scores, (return - least) / (greatest - least), as `minari.get_normalized_score` does.

    :param returns: the returns of episodes
    :param scale: the returns that score 0 and 1
    """
    least, greatest = scale
    return np.asarray((returns - least) / (greatest - least))
