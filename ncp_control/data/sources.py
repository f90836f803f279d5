"""Reading rollouts from a Minari dataset, from plain `.npy` and `.npz` traces, or from a table."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.base.files import write_atomically
from ncp_control.base.safe_arrays import read_arrays
from ncp_control.data import tables
from ncp_control.data.minari_files import minari_folder, read_dataset, read_minari
from ncp_control.data.rollout import PARTS, Rollout, StoredRollouts
from ncp_control.data.table_rollouts import TableSource, read_table_rollouts, table_source

SUFFIXES = (".npy", ".npz")
TABLES = (*tables.SUFFIXES, ".feather", ".xls", ".xlsx")
KEYS = ("observations", "actions", "rewards", "is_random", "elapsed")
# Arrays of one number: what each must be, and NumPy's kinds of it.
SCALARS = {"seed": ("one integer", "iu"), "terminated": ("true or false", "b")}


def read_source(source: str | Path | Any) -> StoredRollouts:
    """Reads whatever `Rollouts.load` takes; each rollout is read when its turn comes."""
    if hasattr(source, "iterate_episodes"):
        return read_dataset(source)
    if isinstance(source, TableSource):
        return read_table_rollouts(source)
    if not isinstance(source, str | PathLike):
        raise TypeError(
            "Rollouts.load reads a path, a Minari id, or a dataset of minari.load_dataset, and was given a "
            f"{type(source).__name__}: wrap your arrays, Rollouts((Rollout(observations, actions), ...))"
        )
    path = Path(source)
    table = table_source(source)
    if table is not None and table.path.is_file():
        return read_table_rollouts(table)
    if path.is_file() and path.suffix.lower() in TABLES:
        raise ValueError(f"{path} is a table that cannot be read here: save it as .csv or .parquet")
    if path.is_file():
        return StoredRollouts((read_trace(path),), (), {"source": str(path)})
    if path.is_dir():
        for folder in (path, path / "data"):
            if (folder / "metadata.json").is_file():
                return read_minari(folder)
        return _read_folder(path)
    stored = minari_folder(str(source))
    if stored is None:
        raise FileNotFoundError(
            f"there is no file, folder or Minari dataset {str(source)!r} on this machine: give a path, or an id "
            "that `minari list local` shows"
        )
    return read_minari(stored)


def _read_folder(folder: Path) -> StoredRollouts:
    """Reads the traces of one folder, or those in its train/, valid/ and test/."""
    about = {"source": str(folder)}
    present = [part for part in PARTS if (folder / part).is_dir()]
    if not present:
        return StoredRollouts(map(read_trace, _traces(folder)), (), about)
    if len(present) < len(PARTS):
        missing = [part for part in PARTS if part not in present]
        raise ValueError(f"{folder} has {' and '.join(present)}, but no folder {' and '.join(missing)}")
    traces = [(part, path) for part in PARTS for path in _traces(folder / part)]
    return StoredRollouts((read_trace(path) for _, path in traces), (), about, tuple(part for part, _ in traces))


def _traces(folder: Path) -> list[Path]:
    """Returns the files of a folder's traces, in the order of their names."""
    shown = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    files = sorted(path for path in shown if path.suffix in SUFFIXES)
    if not files:
        raise FileNotFoundError(f"{folder} holds no Minari dataset and no .npy or .npz trace")
    return files


def read_trace(path: Path) -> Rollout:
    """Reads one trace: an `.npy` array of observations (T + 1, n), or an `.npz` with the arrays of a `Rollout`."""
    arrays = read_arrays(path)
    arrays = {"observations": arrays[""]} if "" in arrays else arrays
    if "observations" not in arrays:
        raise ValueError(f"{path} has no array 'observations'; it has {', '.join(arrays) or 'nothing'}")
    for key, (wanted, kinds) in SCALARS.items():
        if key in arrays and (arrays[key].ndim or arrays[key].dtype.kind not in kinds):
            raise ValueError(
                f"{path}: {key} must be {wanted}, and is an array of {arrays[key].dtype} and shape {arrays[key].shape}"
            )
    seed = arrays.get("seed")
    return Rollout(
        **{key: arrays.get(key) for key in KEYS},  # type: ignore[arg-type]
        terminated=bool(arrays.get("terminated", False)),
        seed=None if seed is None else int(seed),
        name=path.name,
    )


def write_trace(rollout: Rollout, path: Path, durable: bool = True) -> None:
    """Writes one rollout as an `.npz`. The file appears whole or not at all.

    :param rollout: the rollout
    :param path: the file
    :param durable: as in `write_atomically`
    """
    arrays = {key: getattr(rollout, key) for key in KEYS if getattr(rollout, key) is not None}
    if rollout.seed is not None:
        arrays["seed"] = np.int64(rollout.seed)
    buffer = io.BytesIO()  # np.savez cannot write a file that appears as a whole
    np.savez(buffer, terminated=np.bool_(rollout.terminated), **arrays)
    write_atomically(path, buffer.getvalue(), durable)
