"""Matrices from the weights of existing synapses, for cells whose synapses are linear."""

from __future__ import annotations

from torch import Tensor


def edge_matrix(values: Tensor, source: Tensor, target: Tensor, sources: int, targets: int) -> Tensor:
    """Returns a matrix with the value of each synapse at [source, target] and zero elsewhere.

    A scan builds it once, from parameters that exist for existing synapses only; its size does not depend on the batch.

    :param values: one for each synapse, (..., E)
    :param source: (E,)
    :param target: (E,)
    :return: (..., sources, targets)
    """
    flat = values.new_zeros(*values.shape[:-1], sources * targets)
    return split_last(flat.index_copy(-1, source * targets + target, values), sources, targets)


def split_last(values: Tensor, rows: int, columns: int) -> Tensor:
    """Splits the last dimension of (..., rows * columns) in two: (..., rows, columns)."""
    return values.reshape(*values.shape[:-1], rows, columns)
