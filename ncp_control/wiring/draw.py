"""Random synapses as boolean masks of shape (sources, targets), and their signs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ncp_control.wiring.edges import Edges

Mask = npt.NDArray[np.bool_]


def deal(sources: int, targets: int, fanout: int, rng: np.random.Generator) -> Mask:
    """Draws `fanout` distinct targets for each source, and at least one source for each target.

    The targets are shuffled and dealt to the sources like cards. Then each source draws the rest of its targets from
    all that it does not have. If the sources could not take all targets, each target left over draws one source more.

    :return: (sources, targets)
    """
    mask = np.zeros((sources, targets), dtype=bool)
    deck = rng.permutation(targets)
    hands = np.arange(min(targets, sources * fanout)) % sources
    mask[rng.permutation(sources)[hands], deck[: len(hands)]] = True
    for row in mask:
        fill(row, fanout, rng)
    for target in deck[len(hands) :]:
        mask[rng.integers(sources), target] = True
    return mask


def fill(mask: Mask, count: int, rng: np.random.Generator) -> Mask:
    """Sets random entries of `mask` until `count` are set, and returns `mask` itself."""
    free = np.argwhere(~mask)
    drawn = free[rng.choice(len(free), size=count - int(mask.sum()), replace=False)]
    mask[tuple(drawn.T)] = True
    return mask


def signed(mask: Mask, rng: np.random.Generator) -> Edges:
    """Returns the synapses of `mask`, each +1 or -1 with equal chance."""
    target, source = np.nonzero(mask.T)
    return Edges(source, target, 2 * rng.integers(0, 2, size=len(source)) - 1)
