"""The whole state of a training run in one file without pickle, from which a stopped run continues exactly.

Of a replay buffer it holds the filled rows, without the numbers that the buffer holds twice or that no network reads.
The observation after a step is nearly always the one before the environment's next step, which stands in the following
row. A file holds it only where the two differ, such as at the end of an episode. Networks read observations in
float32, so float64 ones are rounded to it here already, unless a `VecNormalize` computes with all of their digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from ncp_control.base.kinds import read_metadata
from ncp_control.base.notes import read_object
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors

Array = NDArray[Any]
FORMAT = "ncp_control.training"
VERSION, READ = 2, (1, 2)  # version 1 holds all arrays of a replay buffer whole
DESCRIBED = ("state", "about")
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "exploration_rate")  # the last two: DQN's
BEFORE, AFTER = "observations.", "next_observations."
CHUNK = 65_536  # rows that are compared at a time, so that no copy of a whole array is needed


def save_state(model: BaseAlgorithm, path: Path, about: dict[str, Any]) -> None:
    """Writes a model's weights, optimizers, normalisation statistics, counters and replay buffer.

    :param model: the algorithm that is being trained
    :param path: the file; replaced as a whole if it exists
    :param about: anything else that a resumed run needs, as JSON values
    """
    tensors: dict[str, torch.Tensor] = {}
    state = {
        "parameters": pack(model.get_parameters(), tensors),
        "variables": pack(_variables(model), tensors),
        "counters": {key: getattr(model, key) for key in COUNTERS if hasattr(model, key)},
        "normalize": pack(_statistics(model), tensors),
        "replay": pack(replayed(model), tensors, copy=False),  # a second replay buffer might not fit into memory
    }
    described = {"state": json.dumps(state), "about": json.dumps(about)}
    write_tensors(path, FORMAT, VERSION, described, tensors)


def load_state(model: BaseAlgorithm, path: Path) -> None:
    """Loads the state in a file into a model that was newly made from the same recipe."""
    metadata, tensors = read_tensors(path, FORMAT, READ, DESCRIBED, "ncp-control train")
    with described_in(path, "a run that cannot go on"):
        state = read_object(metadata["state"])
        parameters = unpack(state["parameters"], tensors)
        names = model.get_parameters().keys()
        if set(parameters) != set(names):
            raise ValueError("it has other networks or optimizers than the algorithm")
        model.set_parameters(parameters, exact_match=True, device=model.device)
        for part in (attrgetter(name)(model) for name in names):
            if isinstance(part, torch.optim.Optimizer):
                for group in part.param_groups:  # whether one kernel takes a step is no part of a run's state
                    group |= {key: part.defaults[key] for key in ("foreach", "fused") if key in part.defaults}
                check_optimizer(part)
        kept, own = unpack(state["variables"], tensors), _variables(model)
        if set(kept) != set(own):
            raise ValueError("it has other variables than the algorithm")
        for name, value in own.items():
            value.data.copy_(of_shape(kept[name], value.shape))
        for key in COUNTERS:
            if key in state["counters"]:
                setattr(model, key, type(getattr(model, key))(state["counters"][key]))
        _set_statistics(model, unpack(state["normalize"], tensors))
        set_replayed(model, unpack(state["replay"], tensors))


def read_about(path: Path) -> dict[str, Any]:
    """Reads the `about` that `save_state` wrote."""
    metadata, _ = read_tensors(path, FORMAT, READ, DESCRIBED, "ncp-control train")
    with described_in(path, "a run that cannot go on"):
        return read_object(metadata["about"])


def has_cell_of_0_2(path: Path) -> bool:
    """Whether a run's state has the weights of an LTC, which version 0.2.0 made where no cell was named."""
    return "rnn.cell.gleak_raw" in read_metadata(path).get("state", "")


def _variables(model: BaseAlgorithm) -> dict[str, Any]:
    """Returns the trained tensors that belong to no network, such as SAC's entropy coefficient."""
    _, names = model._get_torch_save_params()
    return {name: value for name in names if (value := getattr(model, name, None)) is not None}


def _statistics(model: BaseAlgorithm) -> dict[str, Any] | None:
    wrapper = model.get_vec_normalize_env()
    if wrapper is None:
        return None
    moments: dict[str, Any] = {"ret": _moments(wrapper.ret_rms)}
    if isinstance(wrapper.obs_rms, dict):
        moments["obs"] = {key: _moments(own) for key, own in wrapper.obs_rms.items()}
    elif wrapper.norm_obs:
        moments["obs"] = {"": _moments(wrapper.obs_rms)}
    return moments


def _moments(statistics: RunningMeanStd) -> dict[str, Any]:
    return {"mean": np.array(statistics.mean), "var": np.array(statistics.var), "count": float(statistics.count)}


def _set_statistics(model: BaseAlgorithm, saved: dict[str, Any] | None) -> None:
    wrapper = model.get_vec_normalize_env()
    if wrapper is None or saved is None:
        return
    assert isinstance(wrapper, VecNormalize)
    parts: Any = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {"": wrapper.obs_rms}
    pairs = [(wrapper.ret_rms, saved["ret"]), *((parts[key], moments) for key, moments in saved.get("obs", {}).items())]
    for statistics, moments in pairs:
        shape = np.shape(statistics.mean)
        statistics.mean, statistics.var = (moments[key].numpy().reshape(shape) for key in ("mean", "var"))
        statistics.count = float(moments["count"])


def replayed(model: BaseAlgorithm) -> dict[str, Any] | None:
    """Returns the filled rows of a model's replay buffer, and where it writes next; None without a replay buffer.

    Arrays may be the buffer's own memory: write them before the buffer changes.
    """
    buffer, normalizer = getattr(model, "replay_buffer", None), model.get_vec_normalize_env()
    if buffer is None:
        return None
    arrays = {name: array[: buffer.size()] for name, array in arrays_of(buffer)}
    if normalizer is None or not normalizer.norm_obs:
        arrays = {name: as_read(array) if name.startswith((BEFORE, AFTER)) else array for name, array in arrays.items()}
    apart = {}
    for name in [name for name in arrays if name.startswith(AFTER)]:
        after = arrays.pop(name)
        places = places_apart(after, arrays[before_of(name)])
        apart[name] = {"places": places, "values": after.reshape(-1, *after.shape[2:])[places]}
    return {"pos": buffer.pos, "full": buffer.full, "arrays": arrays, "apart": apart}


def set_replayed(model: BaseAlgorithm, saved: dict[str, Any] | None) -> None:
    """Fills a new model's replay buffer.

    :param model: the model
    :param saved: what `replayed` returned, with tensors for arrays; files of version 1 have whole arrays only
    """
    buffer = getattr(model, "replay_buffer", None)
    if buffer is None or saved is None:
        return
    pos, full = int(saved["pos"]), bool(saved["full"])
    if not 0 <= pos < buffer.buffer_size:
        raise ValueError(f"a replay buffer of {buffer.buffer_size} rows cannot be at row {pos}")
    rows = buffer.buffer_size if full else pos
    arrays, apart = {name: array[:rows] for name, array in arrays_of(buffer)}, saved.get("apart", {})
    for name, array in arrays.items():
        if name not in apart:
            array[:] = of_shape(saved["arrays"][name], array.shape).numpy()
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
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite for a network, too
        return observations.astype(np.float32) if observations.dtype == np.float64 else observations


def places_apart(after: Array, before: Array) -> Array:
    """Returns where the observation after a step is not the one before the step in the following row, bit by bit.

    :param after: (R, E, ...), of R rows and E environments; the first row follows the last one
    :param before: (R, E, ...)
    :return: places (K,), counted along the rows and within them along the environments
    """
    rows, envs = after.shape[:2]
    places = []
    for start in range(0, rows, CHUNK):
        part = after[start : start + CHUNK]
        following = before[np.arange(start + 1, start + 1 + len(part)) % rows]
        differs = (bits_of(part) != bits_of(following)).any(axis=2)
        places.append(start * envs + np.flatnonzero(differs))
    return np.concatenate(places) if places else np.zeros(0, np.int64)


def bits_of(observations: Array) -> Array:
    """Returns the bytes of observations (R, E, ...) as (R, E, bytes)."""
    return np.ascontiguousarray(observations).reshape(*observations.shape[:2], -1).view(np.uint8)


def fill_after(after: Array, before: Array, places: Array, values: Array) -> None:
    """Fills in the observations after the steps: those before the steps that follow, but `values` at `places`."""
    rows, envs = after.shape[:2]
    of_shape(values, (len(places), *after.shape[2:]))
    if len(places) and not 0 <= places.min() <= places.max() < rows * envs:
        raise ValueError(f"a replay buffer of {rows} rows has no observation {places.max()}")
    if rows:
        after[:-1], after[-1] = before[1:], before[0]
        after[places // envs, places % envs] = values
