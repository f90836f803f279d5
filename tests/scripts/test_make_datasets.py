"""The script that makes the levels of data: what it takes, refuses, keeps and goes on with."""

import json
from pathlib import Path
from typing import Any

import minari
import pytest

from helpers.level_datasets import ROOT, assert_replays, call, made
from helpers.level_runs import CARTPOLE, level_run, linear_policy
from ncp_control.data import Rollouts

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in an environment with short episodes."""
    return level_run(tmp_path_factory.mktemp("run") / "run", "CartPole-v1", CARTPOLE, 60)


def test_control_c_loses_only_what_is_not_finished(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ncp_control.data.groups as module

    write, written = module.write_trace, []

    def interrupted(rollout: Any, path: Path, **named: Any) -> None:
        if len(written) == 10 + 3 + 2:  # the references, one dataset, and two rollouts of the next
            raise KeyboardInterrupt
        written.append(path)
        write(rollout, path, **named)

    words = (run, "--rollouts", "3", "--reference-episodes", "5", "--levels", "expert", "--out", tmp_path / "root")
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_trace", interrupted)
        code, out, err = call(capsys, *words)
    assert (code, out) == (130, "")
    assert "what is finished is kept, and the same command goes on" in err
    found = made(capsys, *words)
    assert [one["kept"] for one in found["datasets"]] == [True, False]
    whole = made(capsys, *words[:-1], tmp_path / "whole")
    assert [one["returns"] for one in found["datasets"]] == [one["returns"] for one in whole["datasets"]]
    assert found["references"] == whole["references"]
    folder = tmp_path / "root" / "ncp" / "cartpole"
    assert {path.name for path in folder.iterdir()} == {"expert-v0", "expert-r05-v0"}


def test_the_shares_of_random_actions_and_the_name_are_chosen(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [run, "--rollouts", "2", "--reference-episodes", "5", "--out", tmp_path, "--levels", "medium", "random"]
    found = made(capsys, *words, "--random", "0.025", "0.5", "--name", "my-pole")
    assert [one["id"] for one in found["datasets"]] == [
        f"ncp/my-pole/{level}-{share}-v0" for level in ("random", "medium") for share in ("r2p5", "r50")
    ]


def test_policy_files_do_in_place_of_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rollouts", "2", "--reference-episodes", "5", "--random", "0"]
    code, out, err = call(capsys, run / "best.safetensors", *words, "--out", tmp_path / "one", "--json")
    assert code == 0
    assert "best.safetensors has no policy before the expert's, so there is no medium (give the folder" in err
    assert [one["level"] for one in json.loads(out)["datasets"]] == ["random", "expert"]
    files = ("--expert", run / "best.safetensors", "--medium", run / "policies" / "000002000.safetensors")
    found = made(capsys, *files, *words, "--out", tmp_path / "two")
    assert [one["trained_steps"] for one in found["datasets"]] == [None, 2000, 3000]
    about = Rollouts.load(tmp_path / "two" / "ncp" / "cartpole" / "medium-v0").about
    assert ", from the file 000002000.safetensors." in about["description"]
    # The same episodes as from the run itself, whose rule chooses the same policies.
    other = made(capsys, run, *words, "--out", tmp_path / "three")
    assert [one["returns"] for one in found["datasets"]] == [one["returns"] for one in other["datasets"]]


def test_a_run_whose_first_policy_is_its_best_has_no_medium(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = level_run(tmp_path / "run", "CartPole-v1", CARTPOLE[::-1], 60)
    words = (run, "--rollouts", "2", "--reference-episodes", "5", "--random", "0", "--out", tmp_path / "root")
    code, out, err = call(capsys, *words, "--levels", "medium")
    assert (code, out) == (2, "")
    assert "has no policy before the expert's, so there is no medium: give the folder of a run" in err
    assert not (tmp_path / "root").exists()
    assert [one["level"] for one in made(capsys, *words)["datasets"]] == ["random", "expert"]


def test_a_second_process_is_refused_and_takes_nothing_away(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ncp_control.runs.folder import Hold

    busy = tmp_path / "ncp" / "cartpole" / ".references.unfinished" / "expert"
    busy.mkdir(parents=True)
    words = (run, "--rollouts", "2", "--reference-episodes", "5", "--levels", "expert", "--out", tmp_path)
    with Hold(busy):
        code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert "is in use by another process" in err
    assert len(list(busy.with_name("random").glob("rollout_*.npz"))) == 5
    assert len(made(capsys, *words)["datasets"]) == 2
    assert not busy.parent.exists()


def test_wrappers_of_the_training_stay_except_the_one_for_random_actions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrappers = [{"RandomActionOverwrite": {"probability": 0.5}}, {"ObservationNoise": {"std": 0.1}}]
    note = {"env": "CartPole-v1", "env_kwargs": {"max_episode_steps": 40}, "env_wrapper": wrappers, "algo": "PPO"}
    linear_policy(tmp_path / "noisy.safetensors", "CartPole-v1", CARTPOLE[-1], note)
    words = ("--rollouts", "2", "--reference-episodes", "5", "--random", "0.2", "--out", tmp_path / "root")
    made(capsys, tmp_path / "noisy.safetensors", *words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
        dataset = minari.load_dataset("ncp/cartpole/expert-r20-v0")
    assert dataset.env_spec is not None
    assert [one.name for one in dataset.env_spec.additional_wrappers] == ["ObservationNoise"]
    assert_replays(dataset)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the levels need an expert: give the folder of a training run, or --expert FILE"),
        (["RUN/nothing"], "there is no run and no policy"),
        (["RUN/best.safetensors", "--levels", "medium"], "so there is no medium: give the folder of a run that kept"),
        (["RUN/best.safetensors", "--expert", "RUN/best.safetensors"], "are two experts: give one of them"),
        (["RUN", "--random", "2"], "is a probability"),
        (["RUN", "--random", "0.1", "0.1"], "each only once"),
        (["RUN", "--rollouts", "0"], "must be at least 1"),
        (["RUN", "--reference-episodes", "0"], "must be at least 1"),
        (["RUN", "--name", "my own"], "makes no Minari id, ncp/my own/random-v0"),
        (["RUN", "--env", "Pendulum-v1"], "the policy was made for observations in"),
        (["RUN", "--expert", "RUN/policies/000001000.safetensors", "--levels", "expert"], "train the expert longer"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    run: Path, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *(word.replace("RUN", str(run)) for word in words), "--out", tmp_path / "root")
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_medium_policy_far_from_the_middle_is_worth_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = level_run(tmp_path / "run", "CartPole-v1", (CARTPOLE[0], CARTPOLE[2]), 60)
    words = ("--rollouts", "2", "--reference-episodes", "5", "--random", "0", "--levels", "medium")
    code, _, err = call(capsys, run, *words, "--out", tmp_path / "root")
    assert code == 0
    assert "at step 1,000, is far from the middle between random actions and the expert" in err


def test_the_half_cheetahs_levels_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a policy whose file says neither its algorithm nor its wrappers."""
    from ncp_control.rl import load_policy
    from ncp_control.rl.files.policy_file import with_note

    teacher = ROOT / "checkpoints" / "halfcheetah-teacher.safetensors"
    note = {"env": load_policy(teacher).note["env"], "env_kwargs": {"max_episode_steps": 60}}
    with_note(teacher, tmp_path / "teacher.safetensors", note)
    words = ("--rollouts", "3", "--reference-episodes", "4", "--out", tmp_path / "root")
    found = made(capsys, tmp_path / "teacher.safetensors", *words)
    assert [one["id"] for one in found["datasets"]] == [
        f"ncp/halfcheetah/{name}-v0" for name in ("random", "random-r05", "expert", "expert-r05")
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
        datasets = [minari.load_dataset(one["id"]) for one in found["datasets"]]
    for dataset in datasets:
        assert dataset.total_steps == 180
        assert_replays(dataset)
    expert = datasets[2].storage.metadata
    assert expert["algorithm_name"] == "teacher"
    assert minari.get_normalized_score(datasets[2], expert["ref_max_score"]) == 1.0
    assert found["datasets"][2]["score"]["mean"] > 0.5 > found["datasets"][0]["score"]["mean"]
