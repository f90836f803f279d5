"""A policy's class, arguments and spaces as JSON values, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces
from sb3_contrib import crossq, tqc
from stable_baselines3 import dqn, sac, td3
from stable_baselines3.common.policies import ActorCriticPolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, get_actor_critic_arch
from torch import nn

from ncp_control.neurons import CELLS, Cell, named_cell
from ncp_control.neurons.named import IN_FILES
from ncp_control.rl.files.loaded_policy import without_critics
from ncp_control.rl.policies.circuit import Circuit, actor_circuit
from ncp_control.rl.policies.extractor import NCPExtractor
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.wiring import Wiring

POLICIES: dict[str, Any] = {
    "ActorCriticPolicy": ActorCriticPolicy,
    "MultiInputActorCriticPolicy": MultiInputActorCriticPolicy,
    "NCPPolicy": NCPPolicy,
    "DQNPolicy": dqn.MlpPolicy,
    "DQNMultiInputPolicy": dqn.MultiInputPolicy,
    "SACPolicy": sac.MlpPolicy,
    "SACMultiInputPolicy": sac.MultiInputPolicy,
    "SACSequencePolicy": SACSequencePolicy,
    "TQCPolicy": tqc.MlpPolicy,
    "TQCMultiInputPolicy": tqc.MultiInputPolicy,
    "CrossQPolicy": crossq.MlpPolicy,
    "TD3Policy": td3.MlpPolicy,
    "TD3MultiInputPolicy": td3.MultiInputPolicy,
    "TD3SequencePolicy": TD3SequencePolicy,
}
# Those whose critics rate actions and stand apart from the actor, so that a file can do without them.
WITH_CRITICS = tuple(name for name in POLICIES if name.startswith(("SAC", "TQC", "CrossQ", "TD3")))
# The arguments that make their critics as small as possible.
LEAST_CRITICS: dict[str, Any] = {"n_critics": 1, "n_quantiles": 1, "critic": "mlp"}
ACTIVATIONS: dict[str, type[nn.Module]] = {"Tanh": nn.Tanh, "ReLU": nn.ReLU, "ELU": nn.ELU, "SiLU": nn.SiLU}
# The arguments of policies that are JSON values already.
PLAIN = (
    "net_arch", "use_sde", "log_std_init", "full_std", "use_expln", "squash_output", "ortho_init", "clip_mean",
    "n_critics", "n_quantiles", "batch_norm", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps",
    "cell", "cell_kwargs", "critic", "critic_units", "critic_window", "head", "share_features_extractor",
)  # fmt: skip


def policy_to_json(policy: Any) -> dict[str, Any]:
    """Returns a policy's class and arguments as JSON values; a policy that these do not describe is refused."""
    name = next((name for name, kind in POLICIES.items() if kind is type(policy)), None)
    if name is None:
        raise TypeError(f"save_policy writes {', '.join(POLICIES)}, and this model has a {type(policy).__name__}")
    arguments = policy._get_constructor_parameters()
    activation = arguments["activation_fn"].__name__
    if activation not in ACTIVATIONS:
        raise TypeError(f"save_policy knows the activations {', '.join(ACTIVATIONS)}, not {activation}")
    settings = {"class": name, "activation": activation, **{key: arguments[key] for key in PLAIN if key in arguments}}
    if getattr(policy, "share_features_extractor", False):  # which the arguments of SAC's and TQC's policies leave out
        settings["share_features_extractor"] = True
    circuit, extractor = actor_circuit(policy), policy.features_extractor_class
    if extractor is NCPExtractor:
        inner = policy.features_extractor_kwargs
        settings["extractor"] = {**inner, "wiring": _wiring_to_json(inner, circuit), **_cell_to_json(inner)}
    elif extractor not in (FlattenExtractor, CombinedExtractor):
        raise TypeError(
            f"save_policy knows NCPExtractor and the extractors of vectors and dictionaries, not {extractor.__name__}"
        )
    if "wiring" in arguments:
        settings |= {"wiring": _wiring_to_json(arguments, circuit), **_cell_to_json(arguments)}
    return settings


def as_actor_only(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the description of a policy whose critics are not in the file; refused for a policy that needs them."""
    if settings.get("class") not in WITH_CRITICS:
        raise ValueError(
            f"only files of {', '.join(WITH_CRITICS)} can leave out the critics, and this is a "
            f"{settings.get('class')}: leave critics True"
        )
    return {**settings, "critics": False}


def can_leave_critics(policy: Any) -> bool:
    """Whether a policy's file can leave out the critics."""
    return any(type(policy) is POLICIES[name] for name in WITH_CRITICS)


def _cell_to_json(arguments: dict[str, Any]) -> dict[str, str]:
    """Returns the cell's name, by which `load_policy` finds the class again."""
    cell = arguments.get("cell", "ltc")
    if isinstance(cell, str):
        return {"cell": cell}
    if cell not in CELLS and cell.__name__ in [own.__name__ for own in CELLS]:
        raise ValueError(
            f"a file holds only a cell's name, and ncp_control has a cell {cell.__name__} of its own: rename {cell!r}"
        )
    return {"cell": cell.__name__}


def _wiring_to_json(arguments: dict[str, Any], circuit: Circuit | None) -> int | str:
    """Returns the number of neurons, or the wiring as it was built, so that the file outlives changes to the plans."""
    wiring = arguments.get("wiring")
    if isinstance(wiring, int):
        return wiring
    assert circuit is not None
    return circuit.cell.wiring.to_json()


def policy_from_json(
    settings: dict[str, Any],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    cells: Iterable[type[Cell]],
) -> Any:
    """Makes the policy that `policy_to_json` or `as_actor_only` described, with fresh weights.

    :param settings: the class and the arguments, as JSON values
    :param observation_space: the policy's observation space
    :param action_space: the policy's action space
    :param cells: classes of the user's own cells
    """
    arguments = {key: settings[key] for key in PLAIN if key in settings}
    if "cell" in arguments:
        arguments["cell"] = named_cell(arguments["cell"], cells, IN_FILES)
    if "wiring" in settings:
        arguments["wiring"] = _wiring_from_json(settings["wiring"])
    if "extractor" in settings:
        extractor = settings["extractor"]
        arguments["features_extractor_class"] = NCPExtractor
        arguments["features_extractor_kwargs"] = {
            **extractor,
            "wiring": _wiring_from_json(extractor["wiring"]),
            "cell": named_cell(extractor.get("cell", "ltc"), cells, IN_FILES),
        }
    activation = ACTIVATIONS[settings["activation"]]
    kind = POLICIES[settings["class"]]
    has_critics = settings.get("critics", True)
    if not has_critics:  # their size says nothing about the file's, so they are made small before they are taken out
        as_actor_only(settings)
        arguments |= {key: least for key, least in LEAST_CRITICS.items() if key in arguments}
        arguments["net_arch"] = {"pi": get_actor_critic_arch(arguments["net_arch"])[0], "qf": []}
    # no step is ever taken at this learning rate
    policy = kind(observation_space, action_space, lambda _: 0.0, activation_fn=activation, **arguments)
    return policy if has_critics else without_critics(policy)


def _wiring_from_json(written: int | str) -> int | Wiring:
    """Returns a number of neurons or a wiring."""
    return written if isinstance(written, int) else Wiring.from_json(written)


def space_to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """Returns a space as JSON values: infinite bounds as null, and bounds that are all equal as one number."""
    if isinstance(space, spaces.Box):
        low, high = (_bound(bound) for bound in (space.low, space.high))
        return {"type": "Box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = {"start": space.start.tolist()} if space.start.any() else {}
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), **start}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: space_to_json(own) for key, own in space.spaces.items()}}
    raise TypeError(f"a policy's file holds Box, Discrete, MultiDiscrete, MultiBinary and Dict spaces, not {space}")


def _bound(bound: Any) -> list[float | None] | float | None:
    values = [float(x) if np.isfinite(x) else None for x in bound.ravel()]
    return values[0] if len(set(values)) == 1 else values


def space_from_json(described: dict[str, Any]) -> spaces.Space[Any]:
    """Returns the space that `space_to_json` described.

    :param described: the JSON values
    """
    kind = described["type"]
    if kind == "Discrete":
        return spaces.Discrete(described["n"], start=described["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(described["nvec"], start=described.get("start"))
    if kind == "MultiBinary":
        return spaces.MultiBinary(described["n"])
    if kind == "Dict":
        # Networks rely on the order of the keys; Gymnasium keeps it for an OrderedDict, and sorts a plain dict.
        return spaces.Dict(OrderedDict((key, space_from_json(own)) for key, own in described["spaces"].items()))
    if kind != "Box":
        raise ValueError(f"unknown space {kind!r}")
    shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"])
    if dtype.kind not in "fiub":
        raise ValueError(f"a policy cannot see a Box of {shape} {dtype}")
    low, high = (
        _numbers(described[side], infinite, shape, dtype) for side, infinite in (("low", -np.inf), ("high", np.inf))
    )
    return spaces.Box(low, high, dtype=dtype.type)


def _numbers(bound: Any, infinite: float, shape: tuple[int, ...], dtype: Any) -> Any:
    if not isinstance(bound, list):
        return np.full(shape, infinite if bound is None else bound, dtype=dtype)
    return np.array([infinite if x is None else x for x in bound], dtype=dtype).reshape(shape)
