"""From the weights of existing synapses to a matrix, for cells whose synapses are linear."""

from __future__ import annotations

from torch import Tensor


def edge_matrix(values: Tensor, source: Tensor, target: Tensor, sources: int, targets: int) -> Tensor:
    """Places values (..., E) of synapses at [source, target] of a matrix (..., sources, targets), zero elsewhere.

    Built once a scan from the parameters, which stay one a synapse; its size does not depend on the batch.
    """
    flat = values.new_zeros(*values.shape[:-1], sources * targets)
    return split_last(flat.index_copy(-1, source * targets + target, values), sources, targets)


def split_last(values: Tensor, rows: int, columns: int) -> Tensor:
    """The last dimension (..., rows * columns) as two, (..., rows, columns)."""
    return values.reshape(*values.shape[:-1], rows, columns)
