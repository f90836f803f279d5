"""The levels of data of one training, as people use them with Minari's own tools."""

import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from minari.cli import app
from numpy.testing import assert_array_equal
from scipy.stats import binomtest
from typer.testing import CliRunner

from helpers.level_datasets import assert_replays, call, made, run_script, seeds_of
from helpers.level_runs import CARTPOLE, PENDULUM, level_run
from ncp_control.data import Rollouts
from ncp_control.data.summary import summarize

pytestmark = pytest.mark.system

SUFFIXES = ("random-v0", "random-r05-v0", "medium-v0", "medium-r05-v0", "expert-v0", "expert-r05-v0")
Made = tuple[Path, Path, dict[str, Any]]  # the run, Minari's root, and what the script printed as JSON


@pytest.fixture(scope="module", params=["CartPole-v1", "Pendulum-v1"])
def all_six(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The six datasets of one training."""
    folder, pole = tmp_path_factory.mktemp("levels"), request.param == "CartPole-v1"
    run = level_run(folder / "run", request.param, CARTPOLE if pole else PENDULUM, 100 if pole else 20)
    words = [run, "--rollouts", "8", "--reference-episodes", "12", "--out", folder / "root", "--json"]
    words += ["--author", "A. Maker", "--code-link", "https://example.org/code"]
    with redirect_stdout(io.StringIO()) as printed:
        assert run_script(*words) == 0
    return run, folder / "root", json.loads(printed.getvalue().splitlines()[-1])


@pytest.fixture
def here(all_six: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    """The same, where Minari looks for datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(all_six[1]))
    return all_six


@pytest.fixture
def copied(all_six: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A copy of the six datasets that a test may add to; the beginning of their ids."""
    shutil.copytree(all_six[1], tmp_path / "root")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    return prefix_of(all_six)


def prefix_of(made: Made) -> str:
    return str(made[2]["datasets"][0]["id"]).removesuffix(SUFFIXES[0])


def minari_says(*words: str) -> str:
    """What Minari's command prints, in one line."""
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_one_command_makes_six_datasets(here: Made) -> None:
    _, root, printed = here
    prefix = prefix_of(here)
    assert [one["id"] for one in printed["datasets"]] == [prefix + suffix for suffix in SUFFIXES]
    folder = root / prefix
    assert sorted(path.name for path in folder.iterdir()) == sorted(SUFFIXES)  # and nothing unfinished
    if "cartpole" in prefix:  # a pendulum's return is mostly that of its first angle
        scores = [one["score"]["mean"] for one in printed["datasets"]]
        assert scores[0] < 0.3 < scores[2] < 0.7 < scores[4]
    assert {one["rollouts"] for one in printed["datasets"]} == {8}
    assert [one["trained_steps"] for one in printed["datasets"]] == [None, None, 2000, 2000, 3000, 3000]


def test_minari_lists_and_shows_them(here: Made) -> None:
    prefix = prefix_of(here)
    listed = minari_says("list", "local")
    assert all(prefix + suffix in listed for suffix in SUFFIXES)
    assert "Number of datasets: 6" in listed
    assert "A. Maker" in listed
    shown = minari_says("show", f"{prefix}medium-r05-v0")
    for words in (
        "Level medium: 8 episodes of PPO after 2,000 steps",
        "nearest to",
        "5 % of the actions were overwritten",
        "Algorithm │ PPO",
        "Author │ A. Maker",
        "https://example.org/code",
        "Evaluation Environment Specs",
    ):
        assert words in shown, words


def test_minari_itself_runs_as_a_command(here: Made) -> None:
    command = Path(sys.executable).with_name("minari")
    done = subprocess.run([str(command), "list", "local"], capture_output=True, text=True, env=dict(os.environ))
    assert "Number of datasets: 6" in done.stdout, done.stderr


def test_minari_loads_them_without_a_warning_and_finds_all_its_fields(here: Made) -> None:
    from importlib.metadata import version

    for suffix in SUFFIXES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dataset = minari.load_dataset(prefix_of(here) + suffix)
            dataset.recover_environment().close()
            dataset.recover_environment(eval_env=True).close()
        metadata = dataset.storage.metadata
        assert metadata["algorithm_name"] == ("random" if suffix.startswith("random") else "PPO")
        assert metadata["author"] == {"A. Maker"}
        assert "author_email" not in metadata
        assert metadata["code_permalink"] == "https://example.org/code"
        assert metadata["data_format"] == "hdf5"
        assert metadata["eval_env_spec"] == metadata["env_spec"]
        pinned = {f"{name}=={version(name)}" for name in ("ncp-control", "gymnasium", "mujoco")}
        assert set(metadata["requirements"]) == pinned
        assert metadata["num_episodes_average_score"] == 12
        assert metadata["ref_min_score"] < metadata["ref_max_score"]
        for episode, found in zip(dataset, dataset.storage.get_episode_metadata(range(8)), strict=True):
            assert found["rewards_sum"] == pytest.approx(episode.rewards.sum(), rel=1e-12)
            assert found["rewards_min"] == episode.rewards.min()


def test_normalized_scores_are_those_of_minari(here: Made) -> None:
    _, _, printed = here
    references = printed["references"]
    for one in printed["datasets"]:
        dataset = minari.load_dataset(one["id"])
        assert minari.get_normalized_score(dataset, references["random"]) == 0.0
        assert minari.get_normalized_score(dataset, references["expert"]) == 1.0
        returns = np.array([episode.rewards.sum() for episode in dataset])
        scores = minari.get_normalized_score(dataset, returns)
        assert one["score"]["mean"] == pytest.approx(scores.mean(), rel=1e-12)
        assert one["score"]["least"] == pytest.approx(scores.min(), rel=1e-12)


def test_every_episode_replays_in_the_recovered_environment(here: Made) -> None:
    for suffix in SUFFIXES:
        dataset = minari.load_dataset(prefix_of(here) + suffix)
        assert dataset.total_episodes == 8
        assert_replays(dataset)


def test_episodes_of_different_datasets_begin_differently(here: Made) -> None:
    seeds = [seed for suffix in SUFFIXES for seed in seeds_of(minari.load_dataset(prefix_of(here) + suffix))]
    assert len(set(seeds)) == 48


def test_the_share_of_random_actions_is_as_asked(here: Made) -> None:
    for suffix in SUFFIXES:
        dataset = minari.load_dataset(prefix_of(here) + suffix)
        flags = np.concatenate([episode.infos["is_random"][1:] for episode in dataset])
        count, of = int(flags.sum()), len(flags)
        assert of == dataset.total_steps
        if "r05" not in suffix:
            assert count == 0
        else:
            assert binomtest(count, of, 0.05).pvalue > 1e-4, (suffix, count, of)


def test_minari_splits_and_filters_them_and_the_parts_are_read(here: Made) -> None:
    name = f"{prefix_of(here)}expert-r05-v0"
    dataset = minari.load_dataset(name)
    train, test = minari.split_dataset(dataset, [5, 3], seed=3)
    assert (train.total_episodes, test.total_episodes) == (5, 3)
    assert not set(train.episode_indices) & set(test.episode_indices)
    assert_replays(test)
    returns = sorted(episode.rewards.sum() for episode in dataset)
    best = dataset.filter_episodes(lambda episode: episode.rewards.sum() >= returns[4])
    assert best.total_episodes == sum(value >= returns[4] for value in returns)
    assert_replays(best)
    for part in (train, test, best):
        read = Rollouts.load(part)
        assert len(read) == part.total_episodes
        assert read.about["level"] == "expert"
        assert [rollout.seed for rollout in read] == seeds_of(part)
        assert summarize(read)["score"] is not None


def test_minari_combines_them_but_forgets_seeds_and_scores(copied: str) -> None:
    """The guide says what is lost; as soon as Minari keeps it, this test fails and the guide can be mended."""
    names = [f"{copied}medium-v0", f"{copied}expert-r05-v0"]
    says = minari_says("combine", *names, "--dataset-id", f"{copied}medium-expert-v0")
    assert "successfully combined" in says
    assert "Number of datasets: 7" in minari_says("list", "local")
    dataset = minari.load_dataset(f"{copied}medium-expert-v0")
    parts = [minari.load_dataset(name) for name in names]
    assert dataset.total_steps == sum(part.total_steps for part in parts)
    theirs = [episode for part in parts for episode in part]
    for one, other in zip(dataset, theirs, strict=True):
        assert_array_equal(one.observations, other.observations)
        assert_array_equal(one.actions, other.actions)
        assert_array_equal(one.rewards, other.rewards)
        assert_array_equal(one.infos["is_random"], other.infos["is_random"])
    assert seeds_of(dataset) == [None] * 16
    with pytest.raises(FileNotFoundError):
        minari.combine_datasets(parts, "mine/medium-expert-v0")
    with pytest.raises(ValueError, match="Reference score not provided"):
        minari.get_normalized_score(dataset, 1.0)
    assert "description" not in dataset.storage.metadata
    read = Rollouts.load(dataset)
    assert len(read) == 16
    assert read.about["combined_from"] == names
    assert summarize(read)["score"] is None
    # The scores can be given back, as the guide shows.
    kept = parts[0].storage.metadata
    dataset.storage.update_metadata({key: kept[key] for key in ("ref_min_score", "ref_max_score")})
    again = minari.load_dataset(f"{copied}medium-expert-v0")
    assert minari.get_normalized_score(again, kept["ref_max_score"]) == 1.0
    assert summarize(Rollouts.load(again))["score"] is not None


def test_rollouts_keep_what_is_known_about_them(here: Made) -> None:
    run, _, printed = here
    rollouts = Rollouts.load(f"{prefix_of(here)}medium-r05-v0")
    about, references = rollouts.about, printed["references"]
    assert (about["level"], about["algorithm"], about["trained_steps"]) == ("medium", "PPO", 2000)
    assert (about["ref_min_score"], about["ref_max_score"]) == (references["random"], references["expert"])
    assert about["references"] == references
    curve = [line.split(",") for line in (run / "curve.csv").read_text().splitlines()[1:]]
    assert about["evaluated_return"] == float(curve[1][1])
    assert "scripts/make_datasets.py" in about["command"]
    assert "level medium" in repr(rollouts)


def test_describe_shows_level_score_and_how_it_was_made(here: Made, capsys: pytest.CaptureFixture[str]) -> None:
    from helpers.command_line import described, printed

    name = f"{prefix_of(here)}expert-r05-v0"
    found = described(capsys, name)["rollouts"]
    assert found["level"] == "expert"
    assert found["score"] == next(one["score"] for one in here[2]["datasets"] if one["id"] == name)
    text = " ".join(printed(capsys, "describe", name).split())
    for words in ("level expert", "; 0 is a return of", "algorithm PPO", "A. Maker"):
        assert words in text, words


def test_the_same_command_keeps_what_is_there_and_makes_what_is_missing(
    all_six: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, root, printed = all_six
    shutil.copytree(root, tmp_path / "root")
    lost = tmp_path / "root" / prefix_of(all_six) / "medium-v0"
    shutil.rmtree(lost)
    words = (run, "--rollouts", "8", "--reference-episodes", "12", "--out", tmp_path / "root")
    again = made(capsys, *words)
    assert [one["kept"] for one in again["datasets"]] == [True, True, False, True, True, True]
    assert again["references"] == printed["references"]
    assert [one["returns"] for one in again["datasets"]] == [one["returns"] for one in printed["datasets"]]
    one = Rollouts.load(lost)
    other = Rollouts.load(root / prefix_of(all_six) / "medium-v0")
    assert all((a.observations == b.observations).all() for a, b in zip(one, other, strict=True))
    code, out, err = call(capsys, *words)
    assert (code, err) == (0, "")
    assert out.count("kept") == 6
    assert max(map(len, out.splitlines())) <= 80


def test_a_dataset_that_was_made_otherwise_is_refused_before_any_work(
    all_six: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, root, _ = all_six
    shutil.copytree(root, tmp_path / "root")
    words = (run, "--reference-episodes", "12", "--out", tmp_path / "root")
    code, out, err = call(capsys, *words, "--rollouts", "3")
    assert (code, out) == (2, "")
    assert "random-v0 exists already, and was made otherwise (rollouts: 8 there, 3 here): choose another name" in err
    code, _, err = call(capsys, *words, "--rollouts", "8", "--seed", "1", "--levels", "expert")
    assert code == 2
    assert "expert-v0 exists already, and was made otherwise (seed: " in err
    assert {path.name for path in (tmp_path / "root" / prefix_of(all_six)).iterdir()} == set(SUFFIXES)
