"""Levels of data: which policies of a training they are from, and the scale of returns between them."""

from pathlib import Path

import numpy as np
import pytest

from helpers.collecting import same, short, still
from ncp_control.data import Rollout, collect
from ncp_control.data.collect import collect_dataset
from scripts.level_plans import (
    Level,
    LevelPlan,
    References,
    best_of,
    checkpoints_of,
    measure_references,
    medium_of,
)


def run_with(folder: Path, curve: dict[int, float], policies: list[int], best: bool = True) -> Path:
    """A folder with a curve and empty files in place of the policies of these steps."""
    (folder / "policies").mkdir(parents=True)
    rows = "".join(f"{step},{value},1.0,3.0\n" for step, value in curve.items())
    (folder / "curve.csv").write_text(f"steps,mean_return,std_return,noisy_mean_return\n{rows}")
    for step in policies:
        (folder / "policies" / f"{step:09d}.safetensors").touch()
    if best:
        (folder / "best.safetensors").touch()
    return folder


CURVE = {1000: -250.0, 2000: 1100.0, 3000: 2900.0, 4000: 5800.0, 5000: 6000.0, 6000: 3000.0}


def test_medium_is_half_way_without_disturbances_where_the_training_evaluated_so_too(tmp_path: Path) -> None:
    run = run_with(tmp_path, {1000: 200.0, 2000: 900.0, 3000: 1000.0, 4000: 2000.0}, [1000, 2000, 3000, 4000])
    text = "steps,mean_return,std_return,undisturbed_mean_return,undisturbed_std_return\n"
    rows = [(1000, 200, 300), (2000, 900, 1600), (3000, 1000, 3100), (4000, 2000, 3200)]
    (run / "curve.csv").write_text(text + "".join(f"{steps},{mean},1,{calm},1\n" for steps, mean, calm in rows))
    found = checkpoints_of(run)
    assert best_of(found).steps == 4000
    assert medium_of(found, 0.0).steps == 2000  # with disturbances, 3000 is nearest to half-way


def test_the_expert_is_the_best_policy_and_medium_the_nearest_to_half_way_before_it(tmp_path: Path) -> None:
    found = checkpoints_of(run_with(tmp_path, CURVE, list(CURVE)))
    assert [one.steps for one in found] == list(CURVE)
    assert best_of(found).path == tmp_path / "policies" / "000005000.safetensors"
    # 6000 steps are nearer to 2990, but lie behind the best policy.
    assert medium_of(found, -20.0).steps == 3000
    assert medium_of(found, -4000.0).steps == 2000  # the middle is 1000
    assert medium_of(found, 4000.0).steps == 4000  # the middle is 5000


def test_half_way_is_right_for_negative_returns_too(tmp_path: Path) -> None:
    found = checkpoints_of(run_with(tmp_path, {1: -1100.0, 2: -700.0, 3: -260.0, 4: -150.0}, [1, 2, 3, 4]))
    assert medium_of(found, -1200.0).steps == 2  # half of -150 would be better than the expert


def test_of_equal_policies_the_earliest_is_taken(tmp_path: Path) -> None:
    found = checkpoints_of(run_with(tmp_path, {1: 40.0, 2: 60.0, 3: 100.0, 4: 100.0}, [1, 2, 3, 4]))
    assert best_of(found).steps == 3
    assert medium_of(found, 0.0).steps == 1


def test_a_run_that_kept_only_the_best_policy_has_that_one(tmp_path: Path) -> None:
    (only,) = checkpoints_of(run_with(tmp_path, CURVE, []))
    assert (only.steps, only.mean_return, only.path) == (5000, 6000.0, tmp_path / "best.safetensors")
    with pytest.raises(ValueError, match=r"no policy between random actions and the best one, of step 5,000.*--eval"):
        medium_of([only], 0.0)


def test_a_policy_that_is_missing_is_passed_over(tmp_path: Path) -> None:
    found = checkpoints_of(run_with(tmp_path, CURVE, [2000, 4000, 5000]))
    assert [one.steps for one in found] == [2000, 4000, 5000]
    assert medium_of(found, 0.0).steps == 2000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("steps,mean_return\n", "has no evaluation in curve.csv: give the folder of a run"),
        ("epoch,train,valid\n1,0.5,0.5\n", "has no evaluation in curve.csv: give the folder of a run"),
        ("steps,mean_return\n1000,nan\n", "has no evaluation"),
        ("steps,mean_return\n1000,good\n", "is not a readable curve"),
        (None, "has no evaluation"),
    ],
)
def test_a_folder_without_evaluations_is_refused(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "curve.csv").write_text(content)
    with pytest.raises(ValueError, match=words):
        checkpoints_of(tmp_path)


def test_a_run_without_its_best_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"keeps neither the policy of step 5,000, the best one, nor best.safetensors"):
        checkpoints_of(run_with(tmp_path, CURVE, [1000, 2000], best=False))


def test_references_are_the_mean_returns_of_whole_episodes(tmp_path: Path) -> None:
    spec = short()

    def damped(observations: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.clip(-8 * observations[:, 1:2], -2, 2)

    references = measure_references(damped, spec, 6, seed=3, keep=tmp_path / "kept", progress=False)
    for policy, value in (("random", references.random), (damped, references.expert)):
        own = collect(policy, spec, 6, random_action_fraction=0.0, seed=3, progress=False)
        assert value == np.mean([rollout.total_reward for rollout in own])
    assert (references.episodes, references.seed) == (6, 3)


@pytest.mark.parametrize("expert", [1.0, 0.5, float("nan")])
def test_an_expert_that_is_no_better_than_random_actions_is_refused(expert: float) -> None:
    with pytest.raises(ValueError, match=r"is not above 1.0, that of random actions, .* train the expert longer"):
        References(1.0, expert, 5, 0)


def test_datasets_of_one_plan_begin_no_episode_alike(tmp_path: Path) -> None:
    plan = LevelPlan(short(), still, root=tmp_path, rollouts=3, reference_episodes=4)
    references = References(-200.0, -100.0, 4, 0)
    levels = [Level("random", "random", "random actions"), Level("expert", still, "one action")]
    made = [plan.collect(level, share, references, progress=False) for level in levels for share in (0.0, 0.5)]
    seeds = [rollout.seed for rollouts in made for rollout in rollouts]
    assert len(set(seeds)) == 12
    again = LevelPlan(short(), still, root=tmp_path / "again", rollouts=3, reference_episodes=4)
    other = again.collect(levels[1], 0.5, references, progress=False)
    assert [rollout.seed for rollout in other] == [rollout.seed for rollout in made[3]]


@pytest.mark.parametrize(
    ("share", "name"),
    [
        (0.0, "expert-v0"),
        (0.05, "expert-r05-v0"),
        (0.07, "expert-r07-v0"),
        (0.025, "expert-r2p5-v0"),
        (1.0, "expert-r100-v0"),
    ],
)
def test_an_id_says_the_level_and_the_share(share: float, name: str, tmp_path: Path) -> None:
    plan = LevelPlan("ncp/HalfCheetahNoVel-v0", still, root=tmp_path)
    assert plan.place("expert", share) == (f"ncp/halfcheetahnovel/{name}", tmp_path / "ncp" / "halfcheetahnovel" / name)
    assert LevelPlan("Pendulum-v1", still, "mine", tmp_path).place("expert", share)[0] == f"ncp/mine/{name}"
    with pytest.raises(ValueError, match="makes no Minari id"):
        LevelPlan("Pendulum-v1", still, "my own").place("expert", share)


def test_a_dataset_of_another_kind_is_never_taken_for_a_level(tmp_path: Path) -> None:
    plan = LevelPlan(short(), still, root=tmp_path, rollouts=2)
    dataset_id, folder = plan.place("expert", 0.0)
    collect_dataset(still, short(), dataset_id, tmp_path, rollouts=2, progress=False)
    with pytest.raises(FileExistsError, match="exists already, and was not made as a level of data: choose another"):
        plan.finished("expert", 0.0)
    assert plan.finished("expert", 0.5) is None
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        collect_dataset(still, short(), str(folder), rollouts=2, progress=False)


def test_an_interrupted_dataset_goes_on_and_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ncp_control.data.groups as module

    write, written = module.write_trace, []

    def interrupted(rollout: Rollout, path: Path, **named: bool) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        write(rollout, path, **named)

    out = tmp_path / "one-v0"
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_trace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect_dataset(still, short(), str(out), rollouts=3, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == [".one-v0.unfinished"]
    with pytest.raises(FileExistsError, match="holds an unfinished collection"):
        collect_dataset(still, short(), str(out), resume=False, rollouts=3, progress=False)
    found = collect_dataset(still, short(), str(out), record={"algorithm": "none"}, rollouts=3, progress=False)
    assert same(found, collect(still, short(), 3, progress=False))
    assert (found.about["algorithm"], found.about["source"]) == ("none", str(out / "data"))
    assert [path.name for path in tmp_path.iterdir()] == ["one-v0"]
