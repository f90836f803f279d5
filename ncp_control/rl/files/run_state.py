"""The whole state of a training run in one file without pickle, from which a stopped run continues exactly."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from ncp_control.base.kinds import read_metadata
from ncp_control.base.notes import read_object
from ncp_control.base.tensors import check_optimizer, described_in, pack, read_tensors, unpack, write_tensors
from ncp_control.rl.files.replay_rows import of_shape, replayed, set_replayed

FORMAT = "ncp_control.training"
VERSION, READ = 2, (1, 2)  # version 1 holds all arrays of a replay buffer whole
DESCRIBED = ("state", "about")
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "exploration_rate")  # the last two: DQN's


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
        "replay": pack(replayed(model), tensors, copy=False),
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
    """Whether version 0.2.0 wrote a run's state with circuits that no cell was named for, which were LTCs then."""
    return "rnn.cell.gleak_raw" in read_metadata(path).get("state", "")


def _variables(model: BaseAlgorithm) -> dict[str, Any]:
    """Returns the trained tensors that belong to no network, such as SAC's entropy coefficient."""
    _, names = model._get_torch_save_params()
    return {name: value for name in names if (value := getattr(model, name, None)) is not None}


def _statistics(model: BaseAlgorithm) -> dict[str, Any] | None:
    wrapper = model.get_vec_normalize_env()
    if wrapper is None:
        return None
    found: dict[str, Any] = {"ret": _moments(wrapper.ret_rms)}
    if isinstance(wrapper.obs_rms, dict):
        found["obs"] = {key: _moments(own) for key, own in wrapper.obs_rms.items()}
    elif wrapper.norm_obs:
        found["obs"] = {"": _moments(wrapper.obs_rms)}
    return found


def _moments(statistics: RunningMeanStd) -> dict[str, Any]:
    return {"mean": np.array(statistics.mean), "var": np.array(statistics.var), "count": float(statistics.count)}


def _set_statistics(model: BaseAlgorithm, found: dict[str, Any] | None) -> None:
    wrapper = model.get_vec_normalize_env()
    if wrapper is None or found is None:
        return
    assert isinstance(wrapper, VecNormalize)
    parts: Any = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {"": wrapper.obs_rms}
    pairs = [(wrapper.ret_rms, found["ret"]), *((parts[key], kept) for key, kept in found.get("obs", {}).items())]
    for statistics, kept in pairs:
        shape = np.shape(statistics.mean)
        statistics.mean, statistics.var = (kept[key].numpy().reshape(shape) for key in ("mean", "var"))
        statistics.count = float(kept["count"])
