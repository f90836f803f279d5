"""Collecting rollouts: which actions are random, and what the result depends on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.collecting import same, short, steering, still
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
    assert main(["collect", "--env", "Pendulum-v1", "--rollouts", "2", "--out", "./kept/pendulum-v0"]) == 0
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
