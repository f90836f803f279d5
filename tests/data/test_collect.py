"""Collecting rollouts: which actions are random, what the result depends on, and what happens in several processes."""

import os
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from helpers.collecting import same, short, steering, still
from helpers.remembering_environment import REMEMBERING
from ncp_control.cli import main
from ncp_control.data import Rollouts, collect


def test_the_overwritten_actions_are_the_flagged_ones() -> None:
    rollouts = collect(still, short(), rollouts=3, random_action_fraction=0.3, progress=False)
    for rollout in rollouts:
        assert rollout.steps == 20
        assert np.array_equal((rollout.actions != np.float32(0.125))[:, 0], rollout.is_random)
    assert any(rollout.is_random.any() for rollout in rollouts)


@pytest.mark.parametrize(("fraction", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_a_fraction_of_0_overwrites_no_action_and_a_fraction_of_1_all(fraction: float, share: float) -> None:
    rollouts = collect(still, short(), rollouts=2, random_action_fraction=fraction, progress=False)
    assert np.mean([rollout.is_random for rollout in rollouts]) == share


def test_the_seed_determines_the_result() -> None:
    one, again, other = (collect(steering, short(), 3, seed=seed, progress=False) for seed in (1, 1, 2))
    assert same(one, again)
    assert not any(np.array_equal(a.observations, b.observations) for a, b in zip(one, other, strict=True))
    assert len({rollout.seed for rollout in one}) == 3


def test_random_actions_do_not_depend_on_the_group() -> None:
    assert same(*(collect("random", short(), 5, group=group, progress=False) for group in (1, 5)))


def test_the_size_of_the_groups_is_recorded() -> None:
    assert collect("random", short(), 2, group=2, progress=False).about["group"] == 2
    assert "the result depends on it" in (collect.__doc__ or "")


def test_collecting_leaves_torchs_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    collect(lambda seen: torch.randn(len(seen), 1).clamp(-2, 2).numpy(), short(), 2, progress=False)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("wrong", [{"rollouts": 0}, {"workers": 0}, {"group": 0}, {"random_action_fraction": 1.5}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|is a probability"):
        collect("random", short(), progress=False, **wrong)


def test_a_dataset_goes_to_a_folder_given_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["collect", "--env", "Pendulum-v1", "--episodes", "2", "--out", "./kept/pendulum-v0"]) == 0
    assert len(Rollouts.load("./kept/pendulum-v0")) == 2


def test_bursts_are_flagged_recorded_and_follow_from_the_seed() -> None:
    def once(bursts: float) -> Rollouts:
        return collect(still, short(), 3, random_action_fraction=0.0, bursts=bursts, progress=False)

    one, again, none = once(0.1), once(0.1), once(0.0)
    assert same(one, again)
    assert one.about["bursts"] == 0.1
    assert "bursts" not in none.about
    assert not any(rollout.is_random.any() for rollout in none)
    assert 0.3 < np.mean([rollout.is_random for rollout in one]) < 1
    for rollout in one:  # an earlier moment of this policy is no other action
        assert rollout.is_random[(rollout.actions != np.float32(0.125))[:, 0]].all()
    with pytest.raises(ValueError, match="bursts is a probability, got 2"):
        once(2)


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
