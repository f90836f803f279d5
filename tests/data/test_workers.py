"""Collecting in several processes: the same result, and errors that arrive."""

import os
from typing import Any

import numpy as np
import pytest

from helpers.collecting import same, short, steering
from ncp_control.data import collect


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_nothing(workers: int) -> None:
    one, several = (
        collect(steering, short(), rollouts=7, seed=3, group=2, workers=count, progress=False) for count in (1, workers)
    )
    assert same(one, several)
    assert one.about == several.about


def test_a_worker_that_dies_is_noticed() -> None:
    def deadly(observations: Any) -> Any:
        os._exit(7)

    with pytest.raises(ChildProcessError, match="ended with code 7"):
        collect(deadly, short(), 4, group=2, workers=2, progress=False)


class Unsendable(Exception):
    """An error that another process cannot build again."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def test_an_error_in_a_worker_arrives() -> None:
    def failing(observations: Any) -> Any:
        raise Unsendable("this", "that")

    with pytest.raises(RuntimeError, match="Unsendable: this and that"):
        collect(failing, short(), 4, group=2, workers=2, progress=False)
    with pytest.raises(ValueError, match="gave nan"):
        collect(lambda seen: np.full((len(seen), 1), np.nan), short(), 4, group=2, workers=2, progress=False)
