"""The filled rows of a replay buffer, without the numbers that it holds twice or that no network reads.

The observation after a step is nearly always the one before the environment's next step, which stands in the following
row. A file holds it only where it is another one, such as at the end of an episode. Networks read observations in
float32, so float64 ones are rounded to it here already, unless a `VecNormalize` computes with all of their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer

Array = NDArray[Any]
BEFORE, AFTER = "observations.", "next_observations."
CHUNK = 65_536  # rows that are compared at a time, so that no copy of a whole array is needed


def replayed(model: BaseAlgorithm) -> dict[str, Any] | None:
    """Returns the filled rows of a model's replay buffer, and where it writes next; None without a replay buffer.

    Arrays may be the buffer's own memory: write them before the buffer changes.
    """
    buffer, normalizer = getattr(model, "replay_buffer", None), model.get_vec_normalize_env()
    if buffer is None:
        return None
    found = {name: array[: buffer.size()] for name, array in arrays_of(buffer)}
    if normalizer is None or not normalizer.norm_obs:
        found = {name: as_read(array) if name.startswith((BEFORE, AFTER)) else array for name, array in found.items()}
    apart = {}
    for name in [name for name in found if name.startswith(AFTER)]:
        after = found.pop(name)
        places = places_apart(after, found[before_of(name)])
        apart[name] = {"places": places, "values": after.reshape(-1, *after.shape[2:])[places]}
    return {"pos": buffer.pos, "full": buffer.full, "arrays": found, "apart": apart}


def set_replayed(model: BaseAlgorithm, found: dict[str, Any] | None) -> None:
    """Fills a new model's replay buffer.

    :param model: the model
    :param found: what `replayed` returned, with tensors for arrays; files of version 1 have whole arrays only
    """
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None or found is None:
        return
    pos, full = int(found["pos"]), bool(found["full"])
    if not 0 <= pos < buffer.buffer_size:
        raise ValueError(f"a replay buffer of {buffer.buffer_size} rows cannot be at row {pos}")
    rows = buffer.buffer_size if full else pos
    arrays, apart = {name: array[:rows] for name, array in arrays_of(buffer)}, found.get("apart", {})
    for name, array in arrays.items():
        if name not in apart:
            array[:] = of_shape(found["arrays"][name], array.shape).numpy()
    for name, described in apart.items():
        fill_after(arrays[name], arrays[before_of(name)], described["places"].numpy(), described["values"].numpy())
    buffer.pos, buffer.full = pos, full


def of_shape(value: Any, shape: tuple[int, ...]) -> Any:
    """Returns a tensor or a number; refuses one that has another shape than the one it replaces."""
    if np.shape(value) != tuple(shape):
        raise ValueError(f"a tensor has shape {np.shape(value)} instead of {tuple(shape)}")
    return value


def arrays_of(buffer: ReplayBuffer) -> Iterator[tuple[str, Array]]:
    """Gives a replay buffer's arrays with a row for each step that it has room for, and their names."""
    for name, value in vars(buffer).items():
        for key, array in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(array, np.ndarray) and array.ndim and len(array) == buffer.buffer_size:
                yield f"{name}.{key}", array


def before_of(name: str) -> str:
    """Returns the name of the observations before the steps, given that of the ones after them."""
    return BEFORE + name.removeprefix(AFTER)


def as_read(observations: Array) -> Array:
    """Returns observations with no more digits than the networks read."""
    with np.errstate(over="ignore"):
        return observations.astype(np.float32) if observations.dtype == np.float64 else observations


def places_apart(after: Array, before: Array) -> Array:
    """Returns where the observation after a step is not the one before the step in the following row, bit by bit.

    :param after: (R, E, ...), of R rows and E environments; the first row follows the last one
    :param before: (R, E, ...)
    :return: places (K,), counted along the rows and within them along the environments
    """
    rows, envs = after.shape[:2]
    found = []
    for start in range(0, rows, CHUNK):
        part = after[start : start + CHUNK]
        following = before[np.arange(start + 1, start + 1 + len(part)) % rows]
        differs = (bits_of(part) != bits_of(following)).any(axis=2)
        found.append(start * envs + np.flatnonzero(differs))
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def bits_of(observations: Array) -> Array:
    """Returns the bytes of observations (R, E, ...) as (R, E, bytes)."""
    return np.ascontiguousarray(observations).reshape(*observations.shape[:2], -1).view(np.uint8)


def fill_after(after: Array, before: Array, places: Array, values: Array) -> None:
    """Fills in the observations after the steps, given those before the steps, and the others with their places."""
    rows, envs = after.shape[:2]
    of_shape(values, (len(places), *after.shape[2:]))
    if len(places) and not 0 <= places.min() <= places.max() < rows * envs:
        raise ValueError(f"a replay buffer of {rows} rows has no observation {places.max()}")
    if rows:
        after[:-1], after[-1] = before[1:], before[0]
        after[places // envs, places % envs] = values
