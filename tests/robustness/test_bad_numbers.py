"""Observations and rewards that are not finite numbers end the work with a sentence, and keep what was done."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from helpers.command_line import complaint
from helpers.command_line import refused_after_progress as refused
from helpers.odd_environments import ID
from helpers.odd_recipes import odd_recipe, trained
from ncp_control.cli import main
from ncp_control.data import collect
from ncp_control.data.collection import spawned_seed
from ncp_control.data.env_specs import spec_of

pytest.importorskip("sb3_contrib")


@pytest.mark.system
@pytest.mark.parametrize("algo", ["RecurrentPPO", "RecurrentSAC"])
@pytest.mark.parametrize(
    ("bad", "value", "words"),
    [
        ("observation", "nan", "gave the observation [1] = nan at step 7 of an episode"),
        ("observation", "-inf", "gave the observation [1] = -inf at step 7 of an episode"),
        ("reward", "nan", "gave the reward nan at step 7 of an episode"),
        ("reward", "null", "gave the reward None at step 7 of an episode"),
    ],
)
def test_training_ends_at_the_first_number_that_is_not_finite(
    algo: str, bad: str, value: str, words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = odd_recipe(tmp_path, algo, bad=bad, at=71, value=value)
    settings = ["--checkpoint-every", "32", "--eval-every", "32", "--eval-episodes", "1"]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *settings]) == 2
    assert f"the environment {ID} {words}" in complaint(capfd.readouterr().err)
    # the last checkpoint and the best weights are still there
    from ncp_control.rl import load_policy
    from ncp_control.rl.files.run_state import read_about

    assert read_about(tmp_path / "run" / "state.safetensors")["steps"] == 64
    weights = load_policy(tmp_path / "run" / "best.safetensors").policy.state_dict()
    assert all(bool(value.isfinite().all()) for value in weights.values())


@pytest.mark.system
def test_evaluating_recording_and_collecting_end_there_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from ncp_control.rl import load_policy
    from ncp_control.rl.files.policy_file import with_note

    policy = trained(tmp_path)
    capfd.readouterr()
    note = load_policy(policy).note
    for bad, at in (("observation", 0), ("observation", 3), ("reward", 3)):
        when = f"step {at} of an episode" if at else "the beginning of an episode"
        with_note(policy, tmp_path / "bad.safetensors", {**note, "env_kwargs": {"bad": bad, "at": at}})
        evaluated = refused(capfd, "evaluate", tmp_path / "bad.safetensors", "--json")
        assert f"the environment {ID} gave the {bad}" in evaluated
        assert when in evaluated
        recorded = refused(capfd, "record", tmp_path / "bad.safetensors", "--out", tmp_path / "run.npz")
        assert when in recorded
        assert not (tmp_path / "run.npz").exists()
        spec = copy.deepcopy(spec_of(ID))
        spec.kwargs = {"bad": bad, "at": at}
        with pytest.raises(ValueError, match=f"{ID} gave the {bad}.* at {when}"):
            collect("random", spec, 3, keep=tmp_path / f"keep-{bad}-{at}", progress=False)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".run")]


def test_finished_rollouts_are_kept_when_a_later_one_fails(tmp_path: Path) -> None:
    spec = copy.deepcopy(spec_of(ID))
    spec.kwargs = {"bad": "reward", "at": 5, "only": spawned_seed(0, 2)}  # in the third rollout
    with pytest.raises(ValueError, match="gave the reward nan at step 5 of an episode"):
        collect("random", spec, 4, group=1, keep=tmp_path, progress=False)
    assert len(list(tmp_path.glob("rollout_*.npz"))) == 2
