"""What kinds of files and folders there are, and how to tell them apart without opening more than a header."""

from __future__ import annotations

import zipfile
from enum import Enum
from pathlib import Path

from safetensors import SafetensorError, safe_open

RECORD = "run.json"  # in the folder of a run, and in no other


class Kind(Enum):
    """A kind of file or folder; the value is its name in messages."""

    NETWORK = "a network"
    POLICY = "a policy"
    DYNAMICS = "a model of the dynamics"
    SERIES = "a model of series"
    TRAINING_STATE = "the state of a training"
    FIT_STATE = "the state of a fit"
    DISTIL_STATE = "the state of a distillation"
    WIRING = "a wiring"
    RECORDING = "a recording"
    ROLLOUTS = "rollouts"
    RUN = "the folder of a run"
    STABLE_BASELINES = "a model of Stable-Baselines3"


# The `format` in the metadata of our safetensors files.
FORMATS = {
    "ncp_control.rnn": Kind.NETWORK,
    "ncp_control.policy": Kind.POLICY,
    "ncp_control.dynamics": Kind.DYNAMICS,
    "ncp_control.series": Kind.SERIES,
    "ncp_control.training": Kind.TRAINING_STATE,
    "ncp_control.fit": Kind.FIT_STATE,
    "ncp_control.distil": Kind.DISTIL_STATE,
}
SUFFIXES = {
    ".safetensors": Kind.NETWORK,
    ".json": Kind.WIRING,
    ".npy": Kind.ROLLOUTS,
    ".npz": Kind.ROLLOUTS,
}
# Members that only these archives have.
ARCHIVES = {
    Kind.RECORDING: {"about.npy", "wiring.npy"},
    Kind.STABLE_BASELINES: {"data", "_stable_baselines3_version"},
}


def kind_of(path: str | Path) -> Kind | None:
    """Tells what is at a path; None means that nothing of ours looks like it.

    Where the contents do not tell, because the file is missing or damaged, the suffix decides, so that the right reader
    says what is wrong with the file. A folder that holds no run is taken for rollouts.
    """
    path = Path(path)
    if path.is_dir():
        return Kind.RUN if (path / RECORD).is_file() else Kind.ROLLOUTS
    by_suffix = SUFFIXES.get(path.suffix)
    if not path.is_file():  # nor is a named pipe opened, which would wait for its writer
        return by_suffix
    return _kind_of_archive(path) or FORMATS.get(read_metadata(path).get("format", "")) or by_suffix


def read_metadata(path: str | Path) -> dict[str, str]:
    """Reads the texts in the header of a safetensors file, and no tensor; none where it is no such file."""
    try:
        with safe_open(path, framework="np") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def _kind_of_archive(path: Path) -> Kind | None:
    try:
        with path.open("rb") as file:
            if file.read(2) != b"PK":
                return None
            with zipfile.ZipFile(file) as archive:
                names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None
    return next((kind for kind, members in ARCHIVES.items() if members <= names), None)
