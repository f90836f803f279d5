"""Weights of existing synapses as matrices, for cells whose synapses are linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Weights(NamedTuple):
    """The weights of synapses, and what `arriving` needs to let a NaN pass through existing synapses only.

    :param values: (..., sources, targets), zero where there is no synapse
    :param signs: the signs of the values; None where every source feeds every target
    :param exist: one where there is a synapse, and zero elsewhere; None where every source feeds every target
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

    if values.shape[-1] == sources * targets:
        return Weights(matrix(values), None, None)
    fixed = values.detach()
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
