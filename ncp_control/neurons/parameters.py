"""Parameters: how they begin, how they stay positive, which are computed from others, and weights as matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ncp_control.wiring import Wiring

Range = tuple[float, float]
FARTHEST = 1e30  # no time constant is longer, or shorter than its inverse
ROOM = 1e-5  # this share of a bounded range stays free at both ends, for what float32 rounds


def spread(limits: Range, units: int) -> Tensor:
    """Returns time constants from the shortest to the longest, evenly spaced in the logarithm, in random order.

    :param limits: the shortest and the longest
    :param units: how many
    :return: (units,)
    """
    shortest, longest = limits
    steps = torch.linspace(0, 1, units) if units > 1 else torch.full((1,), 0.5)  # one alone lies in the middle
    return (shortest * (longest / shortest) ** steps)[torch.randperm(units)]


def check_time_constants(limits: Range | None) -> Range | None:
    """Returns a range of time constants as floats and refuses one that is not 0 < shortest <= longest.

    It also refuses numbers so far out that float32 cannot hold their inverses, or a short time over them.
    """
    if limits is None:
        return None
    shortest, longest = limits
    if not 0 < shortest <= longest < float("inf"):
        raise ValueError(f"time_constants must be (shortest, longest) with 0 < shortest <= longest, got {limits!r}")
    if shortest < 1 / FARTHEST or longest > FARTHEST:
        raise ValueError(
            f"time_constants must lie between {1 / FARTHEST:g} and {FARTHEST:g}, got {limits!r}: give them and the "
            "elapsed times in another unit of time"
        )
    return float(shortest), float(longest)


def with_room(limits: Range) -> Range:
    """Returns a bounded range without the room that it leaves for rounding at both ends."""
    return limits[0] * (1 + ROOM), limits[1] / (1 + ROOM)


def check_init(init: str, known: dict[str, Any]) -> None:
    """Refuses the name of an initialisation that does not exist."""
    if init not in known:
        raise ValueError(f"unknown init {init!r}: choose one of {', '.join(known)}")


def leads_back(wiring: Wiring) -> Tensor:
    """Returns which synapses stay within a layer or lead to an earlier one, (E,) bool."""
    sizes = torch.tensor([size for _, size in wiring.layer_sizes])
    layer = torch.arange(len(sizes)).repeat_interleave(sizes).numpy()
    return torch.tensor(layer[wiring.synapses.source] >= layer[wiring.synapses.target])


def fan_in(wiring: Wiring) -> Tensor:
    """Returns the number of synapses into every neuron, sensory ones included, but at least one, (N,)."""
    return torch.tensor(wiring.fan_in, dtype=torch.get_default_dtype()).clamp(min=1)


SMALLEST = 1e-8  # added to a softplus, which rounds to 0 far below zero: rates and capacitances are divided by
EDGE = 0.05  # `free_of` stays this share of the range away from its limits, where the gradient vanishes


def positive(raw: Tensor) -> Tensor:
    """Returns `log(1 + exp(raw)) + 1e-8`, which is above zero even where a softplus alone would round to zero."""
    return softplus(raw) + SMALLEST


def raw_of(value: Tensor) -> Tensor:
    """Returns the `raw` for which `positive(raw)` is `value`; values below 2e-8 count as 2e-8."""
    # The inverse of softplus, log(exp(a) - 1), in a form in which a large a does not overflow.
    above = (value - SMALLEST).clamp(min=SMALLEST)
    return above + torch.log(-torch.expm1(-above))


def within(free: Tensor, limits: tuple[float, float] | tuple[Tensor, Tensor]) -> Tensor:
    """Returns `low^(1 - s) high^s` with `s = sigmoid(free)`, which lies between the limits, evenly in the logarithm.

    It is computed in float64: the power of a wide range makes the rounding of its exponent many times as large.
    """
    low, high = limits
    exact = free.double()
    return (low ** torch.sigmoid(-exact) * high ** torch.sigmoid(exact)).to(free.dtype)


def free_of(value: Tensor, limits: tuple[float, float]) -> Tensor:
    """Returns the `free` for which `within(free, limits)` is `value`; values near a limit, or outside, move inwards."""
    low, high = limits
    return torch.logit(torch.log(value / low) / math.log(high / low), eps=EDGE)


def refresh(module: nn.Module) -> None:
    """Computes pruned and normalised parameters anew from the tensors behind them.

    Torch does this in a hook before it calls a module. A scan reads a cell's parameters without calling it.
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod | WeightNorm | SpectralNorm):
            hook(module, ())
    for part in module._modules.values():
        if part is not None:
            refresh(part)


def value_of(module: nn.Module, name: str) -> Tensor | None:
    """Returns a parameter, None for one that the module does without, or what is computed in its place.

    This is faster than `getattr`, which matters in the single step of a controller.
    """
    parameters = module._parameters
    value: Tensor | None = parameters[name] if name in parameters else getattr(module, name)
    return value


def written_class(module: nn.Module) -> type[nn.Module]:
    """Returns the class as it was written: `torch.nn.utils.parametrize` gives a module a subclass of it instead."""
    return type(module).__bases__[0] if "parametrizations" in module._modules else type(module)


def check_plain(module: nn.Module) -> None:
    """Raises a ValueError if a parameter is computed from others, because a value written into it would be lost."""
    for name, part in module.named_modules():
        where = f"{name}." if name else ""
        names = list(part.parametrizations) if parametrize.is_parametrized(part) else []
        for hook in part._forward_pre_hooks.values():
            if isinstance(hook, BasePruningMethod):
                names.append(hook._tensor_name)
            elif isinstance(hook, WeightNorm | SpectralNorm):
                names.append(hook.name)
        if names:
            raise ValueError(
                f"{where}{names[0]} is pruned or parametrised, so that what is written into it does not stay: make it "
                "a plain parameter first, with torch.nn.utils.prune.remove, parametrize.remove_parametrizations or "
                "remove_weight_norm"
            )


class Weights(NamedTuple):
    """The weights of synapses, and what `arriving` needs to let a NaN pass through existing synapses only.

    :param values: (..., sources, targets), zero where there is no synapse
    :param signs: the signs of the values; None if every source feeds every target
    :param exist: one where there is a synapse, and zero elsewhere; None if every source feeds every target
    """

    values: Tensor
    signs: Tensor | None
    exist: Tensor | None

    def each(self, change: Callable[[Tensor], Tensor]) -> Weights:
        """Returns the same weights with all matrices changed in the same way, such as transposed."""
        values, signs, exist = self
        return Weights(
            change(values), None if signs is None else change(signs), None if exist is None else change(exist)
        )


def weights_of(values: Tensor, source: Tensor, target: Tensor, sources: int, targets: int) -> Weights:
    """Returns the weights of synapses as matrices.

    A scan builds them once, from parameters that exist for existing synapses only; their size does not depend on the
    batch.

    :param values: one for each synapse, (..., E)
    :param source: (E,)
    :param target: (E,)
    """

    def matrix(values: Tensor) -> Tensor:
        flat = values.new_zeros(*values.shape[:-1], sources * targets)
        return split_last(flat.index_copy(-1, source * targets + target, values), sources, targets)

    if values.shape[-1] == sources * targets:  # no synapse is missing
        return Weights(matrix(values), None, None)
    fixed = values.detach()  # signs have no gradient
    return Weights(matrix(values), matrix(fixed.sign()), matrix(torch.ones_like(fixed)))


def arriving(values: Tensor, weights: Weights) -> Tensor:
    """Returns the sum of what arrives at every target, (..., targets), from the values (..., sources).

    NaN and infinity pass through existing synapses only, as in a sum over these. In a product of matrices they would
    meet the zeros in the places of the others, and 0 times infinity is NaN.
    """
    if weights.signs is None or weights.exist is None:
        return values @ weights.values
    finite = torch.isfinite(values)
    sums = torch.where(finite, values, torch.zeros_like(values)) @ weights.values
    signs = values.detach().masked_fill(finite, 0).clamp(-1, 1).nan_to_num(0)  # 1 and -1 for infinity, 0 for NaN
    pushes, count = signs @ weights.signs, (~finite).to(values.dtype) @ weights.exist
    # infinities of one sign add up to infinity; with others, NaN or a weight of zero among them, they do not
    lost = torch.where(pushes.abs() == count, pushes * torch.inf, torch.nan)
    return torch.where(count > 0, lost, sums)


def split_last(values: Tensor, rows: int, columns: int) -> Tensor:
    """Splits the last dimension of (..., rows * columns) in two: (..., rows, columns)."""
    return values.reshape(*values.shape[:-1], rows, columns)
