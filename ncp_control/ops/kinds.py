"""The shape of every tensor of a program, and the range of its indexes, from its settings and the circuit's sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from ncp_control.ops.program import (
    CFC_MODES,
    AffineSettings,
    CfCSettings,
    CTGRUSettings,
    DualSettings,
    LTCSettings,
    Settings,
)

Shape = tuple[int, ...]


class Index(NamedTuple):
    """What an index tensor must hold.

    :param shape: its shape
    :param top: its values lie in 0 .. top - 1; those of a list of starts lie in 0 .. top, never fall, begin with 0 and
        end with top
    :param starts: whether it is a list of starts
    """

    shape: Shape
    top: int
    starts: bool = False


class Shapes(NamedTuple):
    """What the tensors of a program must be like, by the cell's names and in the program's order.

    :param indexes: the index tensors
    :param parameters: the shape of every parameter
    :param optional: the parameters that may be None, each with those that are then None too
    """

    indexes: dict[str, Index]
    parameters: Mapping[str, Shape]
    optional: Mapping[str, tuple[str, ...]]

    def forms(self) -> list[list[Shape | None]]:
        """The shapes of all parameters in every form that a cell can have, None for a missing parameter."""
        missing: list[tuple[str, ...]] = [(), *((name, *others) for name, others in self.optional.items())]
        return [[None if name in gone else shape for name, shape in self.parameters.items()] for gone in missing]


@functools.lru_cache(maxsize=256)
def shapes_of(kind: str, settings: Settings, features: int, size: int) -> Shapes:
    """Returns what the tensors of a program must be like.

    :param kind: the program's kind
    :param settings: the program's settings
    :param features: number of input features I
    :param size: size of the state N
    """
    if isinstance(settings, LTCSettings):
        return _ltc(settings, features, size)
    if isinstance(settings, AffineSettings):
        return _affine(settings, features, size)
    if isinstance(settings, CfCSettings):
        return _cfc(settings, features, size)
    if isinstance(settings, DualSettings):
        return _dual(settings, features, size)
    if isinstance(settings, CTGRUSettings):
        units = size // settings.scales
        fan_in = features + units
        layers = {"retrieve": size, "detect": units, "store": size}
        shapes = {f"{layer}.weight": (rows, fan_in) for layer, rows in layers.items()}
        biases = {f"{layer}.bias": (rows,) for layer, rows in layers.items()}
        pairs = zip(shapes, biases, strict=True)
        return Shapes({}, {name: (shapes | biases)[name] for pair in pairs for name in pair}, {})
    units, rows = (size // 2, size // 2 * 4) if kind == "lstm" else (size, 3 * size)
    return Shapes(
        {},
        {"weight_ih": (rows, features), "weight_hh": (rows, units), "bias_ih": (rows,), "bias_hh": (rows,)},
        {},
    )


def _edges(synapses: int, sensory: int, features: int, sources: int, size: int) -> dict[str, Index]:
    """The index tensors of a sparse cell: where the synapses into each neuron begin, and what each comes from."""
    return {
        "start": Index((size + 1,), synapses, starts=True),
        "source": Index((synapses,), sources),
        "sensory_start": Index((size + 1,), sensory, starts=True),
        "sensory_source": Index((sensory,), features),
    }


def _ltc(settings: LTCSettings, features: int, size: int) -> Shapes:
    synapses, sensory, gaps = settings.synapses, settings.sensory, settings.gaps
    of_neurons = dict.fromkeys(("gleak_raw", "vleak", "cm_raw"), (size,))
    of_synapses = dict.fromkeys(("w_raw", "mu", "sigma", "E"), (synapses,))
    of_sensory = dict.fromkeys(("sensory_w_raw", "sensory_mu", "sensory_sigma", "sensory_E"), (sensory,))
    of_inputs = dict.fromkeys(("input_scale", "input_shift"), (features,))
    return Shapes(
        _edges(synapses, sensory, features, size, size) | {"gap_ends": Index((gaps, 2), size)},
        of_neurons | {"gap_raw": (gaps,)} | of_synapses | of_sensory | of_inputs,
        {"input_shift": (), "input_scale": ("input_shift",)},
    )


def _affine(settings: AffineSettings, features: int, size: int) -> Shapes:
    synapses, sensory = settings.synapses, settings.sensory
    neurons = dict.fromkeys(("mu", "tau_raw", "A"), (size,))
    return Shapes(
        _edges(synapses, sensory, features, size, size),
        {"gamma": (sensory,), "gamma_r": (synapses,)} | neurons,
        {} if settings.liquid else {"A": (), "tau_raw": ("A",)},
    )


def _cfc(settings: CfCSettings, features: int, size: int) -> Shapes:
    synapses, sensory, pure = settings.synapses, settings.sensory, CFC_MODES[settings.mode] == "pure"
    maps = 1 if pure else 4
    return Shapes(
        _edges(synapses, sensory, features, 2 * size, size),  # the old states of all neurons, then the new ones
        {"weight": (maps, synapses), "sensory_weight": (maps, sensory), "bias": (maps, size)}
        | dict.fromkeys(("w_tau", "A"), (size,)),
        {} if pure else {"A": ("w_tau",)},
    )


def _dual(settings: DualSettings, features: int, size: int) -> Shapes:
    synapses, sensory = settings.synapses, settings.sensory
    weights = {"weight": (2, synapses), "sensory_weight": (2, sensory)}
    return Shapes(
        _edges(synapses, sensory, features, 2 * size, size),  # the old states of all neurons, then the new ones
        weights | {"bias": (2, size), "brake_raw": (size,), "log_tau": (2,)},
        {"brake_raw": ()},
    )
