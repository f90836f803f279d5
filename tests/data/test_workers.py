"""Collecting in several processes: the same result, and errors that arrive."""

import os
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from helpers.collecting import same, short, steering
from helpers.remembering_environment import REMEMBERING
from ncp_control.data import collect


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.system)])
def test_the_number_of_workers_changes_nothing(workers: int) -> None:
    one, several = (
        collect(steering, short(), rollouts=7, seed=3, group=2, workers=count, progress=False) for count in (1, workers)
    )
    assert same(one, several)
    assert one.about == several.about


@pytest.mark.system
@pytest.mark.parametrize("remembers", ["episodes", "numbers"])
def test_an_environment_that_remembers_gives_the_same_rollouts(remembers: str, tmp_path: Path) -> None:
    """By a counter of its own episodes, or by random numbers that no reset seeds."""
    spec = gym.make(REMEMBERING, remembers=remembers).spec
    assert spec is not None
    before = np.random.get_state()[1].copy(), random.getstate(), torch.get_rng_state()  # type: ignore[index, union-attr]
    one, two, again = (
        collect("random", spec, 6, group=2, workers=workers, keep=tmp_path / keep, resume=True, progress=False)
        for workers, keep in ((1, "one"), (2, "two"), (1, "two"))
    )
    assert same(one, two)
    assert same(one, again)
    for k in (1, 4):
        (tmp_path / "one" / f"rollout_0000{k}.npz").unlink()
    assert same(one, collect("random", spec, 6, group=2, keep=tmp_path / "one", resume=True, progress=False))
    assert np.array_equal(before[0], np.random.get_state()[1])  # type: ignore[index, arg-type]
    assert before[1] == random.getstate()
    assert torch.equal(before[2], torch.get_rng_state())


@pytest.mark.system
def test_a_worker_that_dies_is_noticed() -> None:
    def deadly(observations: Any) -> Any:
        os._exit(7)

    with pytest.raises(ChildProcessError, match="ended with code 7"):
        collect(deadly, short(), 4, group=2, workers=2, progress=False)


class Unsendable(Exception):
    """An error that another process cannot build again."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


@pytest.mark.system
def test_an_error_in_a_worker_arrives() -> None:
    def failing(observations: Any) -> Any:
        raise Unsendable("this", "that")

    with pytest.raises(RuntimeError, match="Unsendable: this and that"):
        collect(failing, short(), 4, group=2, workers=2, progress=False)
    with pytest.raises(ValueError, match="gave nan"):
        collect(lambda seen: np.full((len(seen), 1), np.nan), short(), 4, group=2, workers=2, progress=False)
