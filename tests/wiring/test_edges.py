"""Lists of synapses."""

import numpy as np
import pytest

from helpers.wirings import refused
from ncp_control.wiring import Edges


def test_edges_are_sorted_by_target_then_source():
    edges = Edges([2, 0, 1], [0, 1, 0], [-1, 1, 1])
    assert list(edges) == [(1, 0, 1), (2, 0, -1), (0, 1, 1)]
    assert len(edges) == 3
    assert edges == Edges([0, 1, 2], [1, 0, 0], [1, 1, -1])
    assert edges != Edges([0, 1, 2], [1, 0, 0], [1, 1, 1])
    assert edges.source.dtype == edges.target.dtype == edges.polarity.dtype == np.int64


@pytest.mark.parametrize(
    ("columns", "fragments"),
    [
        (([0, 0], [1, 1], [1, -1]), ["from 0 to 1", "more than once"]),
        (([0], [1], [2]), ["+1 or -1", "from 0 to 1 has 2"]),
        (([0, 1], [1], [1]), ["equally long"]),
        (([[0]], [[1]], [[1]]), ["flat"]),
        (([0.0], [1], [1]), ["sources", "whole numbers"]),
    ],
)
def test_edges_that_make_no_sense_are_refused(columns, fragments):
    refused(lambda: Edges(*columns), *fragments)
