"""Reading rollouts from wherever they lie: a Minari dataset, or plain `.npy` and `.npz` traces."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ncp_control.data.rollouts import Rollout, Rollouts, Split
from ncp_control.storage.atomic_writes import write_atomically
from ncp_control.storage.safe_arrays import read_arrays

SUFFIXES = (".npy", ".npz")
KEYS = ("observations", "actions", "rewards", "is_random", "elapsed")
FACTS = {"seed": "iu", "terminated": "b"}  # one number each, of these kinds


def read_rollouts(source: str | Path) -> Rollouts:
    """Reads rollouts.

    :param source: one of

        - a Minari id, such as "ncp/halfcheetah/teacher-r05-v0", that is stored on this machine;
        - the folder of a Minari dataset (the one with `data/` in it, or `data` itself);
        - a folder of `.npy` or `.npz` traces, taken in the order of their names;
        - a folder with `train/`, `valid/` and `test/` in it, each a folder of traces;
        - one `.npy` or `.npz` file
    """
    path = Path(source)
    if path.is_file():
        return Rollouts((read_trace(path),), about={"source": str(path)})
    if path.is_dir():
        for folder in (path, path / "data"):
            if (folder / "metadata.json").is_file():
                return _read_minari(folder)
        return _read_folder(path)
    from ncp_control.data.minari_files import minari_folder

    stored = minari_folder(str(source))
    if stored is None:
        raise FileNotFoundError(
            f"there is no file, folder or Minari dataset {str(source)!r} on this machine: give a path, or an id "
            "that `minari list local` shows"
        )
    return _read_minari(stored)


def _read_minari(folder: Path) -> Rollouts:
    from ncp_control.data.minari_files import read_minari

    return read_minari(folder)


def _read_folder(folder: Path) -> Rollouts:
    """Traces of one folder, or of its train/, valid/ and test/."""
    parts = [part for part in Split._fields if (folder / part).is_dir()]
    if not parts:
        return Rollouts(tuple(_traces(folder)), about=_about(folder))
    if len(parts) < len(Split._fields):
        missing = [part for part in Split._fields if part not in parts]
        raise ValueError(f"{folder} has {' and '.join(parts)}, but no folder {' and '.join(missing)}")
    found = [(part, trace) for part in parts for trace in _traces(folder / part)]
    about = {"source": str(folder)}
    return Rollouts(tuple(trace for _, trace in found), about=about, parts=tuple(part for part, _ in found))


def _traces(folder: Path) -> list[Rollout]:
    shown = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    files = sorted(path for path in shown if path.suffix in SUFFIXES)
    if not files:
        raise FileNotFoundError(f"{folder} holds no Minari dataset and no .npy or .npz trace")
    return [read_trace(path) for path in files]


def _about(folder: Path) -> dict[str, Any]:
    return {"source": str(folder)}


def read_trace(path: Path) -> Rollout:
    """One trace: an `.npy` array of observations (T + 1, n), or an `.npz` with the arrays of a `Rollout`."""
    arrays = read_arrays(path)
    arrays = {"observations": arrays[""]} if "" in arrays else arrays
    if "observations" not in arrays:
        raise ValueError(f"{path} has no array 'observations'; it has {', '.join(arrays) or 'nothing'}")
    for key, kinds in FACTS.items():
        if key in arrays and (arrays[key].ndim or arrays[key].dtype.kind not in kinds):
            raise ValueError(f"{path}: {key} is {arrays[key].dtype} of shape {arrays[key].shape}, which it cannot be")
    seed = arrays.get("seed")
    return Rollout(
        **{key: arrays.get(key) for key in KEYS},  # type: ignore[arg-type]
        terminated=bool(arrays.get("terminated", False)),
        seed=None if seed is None else int(seed),
        name=path.name,
    )


def write_trace(rollout: Rollout, path: Path) -> None:
    """Writes one rollout as an `.npz`, whole or not at all."""
    arrays = {key: getattr(rollout, key) for key in KEYS if getattr(rollout, key) is not None}
    if rollout.seed is not None:
        arrays["seed"] = np.int64(rollout.seed)
    buffer = io.BytesIO()
    np.savez(buffer, terminated=np.bool_(rollout.terminated), **arrays)
    write_atomically(path, buffer.getvalue())
