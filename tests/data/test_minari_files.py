"""Minari datasets, ours and others': what is written replays and is read again, and broken files are refused."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from numpy.testing import assert_array_equal

import ncp_envs
from helpers.level_datasets import assert_replays
from helpers.rollouts import assert_same
from ncp_control.data import Rollouts, collect
from ncp_control.data.minari_files import place_of, write_minari
from ncp_control.data.summary import summarize


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's datasets in a folder of the test's own."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def spec_with(env: str, steps: int = 15, irregular: bool = False) -> EnvSpec:
    with ncp_envs.without_mass_warning():
        made: gym.Env[Any, Any] = gym.make(env, max_episode_steps=steps)
    made = ncp_envs.IrregularTime(made, 3, observe_elapsed=True) if irregular else made
    assert made.spec is not None
    return made.spec


def written(spec: EnvSpec, name: str = "ncp/test/rollouts-v0", count: int = 3) -> Rollouts:
    """Collects rollouts and writes them as a dataset."""
    rollouts = collect("random", spec, count, progress=False)
    record = {**rollouts.about, "observation_names": list(rollouts.observation_names)}
    write_minari(rollouts, name, place_of(name)[1], spec, record)
    return rollouts


@pytest.mark.parametrize(
    ("env", "irregular"),
    [
        ("HalfCheetah-v5", False),
        ("Pendulum-v1", False),
        ("CartPole-v1", False),
        ("ncp/CartPoleNoVel-v0", False),
        ("ncp/HalfCheetahNoVel-v0", False),
        ("Pendulum-v1", True),
    ],
)
def test_stored_actions_replay_in_the_recovered_environment(env: str, irregular: bool, tmp_path: Path) -> None:
    rollouts = written(spec_with(env, irregular=irregular))
    dataset = minari.load_dataset("ncp/test/rollouts-v0")
    assert dataset.total_steps == rollouts.steps
    assert_replays(dataset)


@pytest.mark.parametrize("irregular", [False, True])
def test_what_was_written_is_what_is_read(irregular: bool, datasets: Path) -> None:
    rollouts = written(spec_with("Pendulum-v1", irregular=irregular))
    folder = datasets / "ncp" / "test" / "rollouts-v0"
    for source in ("ncp/test/rollouts-v0", folder, folder / "data"):
        read = Rollouts.load(source)
        assert_same(read, rollouts)
        assert read.observation_names == rollouts.observation_names
        assert read.observation_names[0] == "cosine of the angle"
        assert read.about["controller"] == rollouts.about["controller"]
        assert read.about["versions"]["gymnasium"] == gym.__version__
    assert (read[0].elapsed is not None) == irregular


@pytest.mark.system
def test_minari_lists_a_dataset_and_another_process_recovers_its_environment(datasets: Path) -> None:
    written(spec_with("ncp/CartPoleNoVel-v0"))
    assert list(minari.list_local_datasets()) == ["ncp/test/rollouts-v0"]
    code = "import minari; print(minari.load_dataset('ncp/test/rollouts-v0').recover_environment().observation_space)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert "(2,)" in result.stdout, result.stderr


def test_a_dataset_that_another_program_wrote_is_read(datasets: Path) -> None:
    rng = np.random.default_rng(0)
    buffers = [
        EpisodeBuffer(
            id=k,
            observations=rng.normal(size=(steps + 1, 3)).astype(np.float32),
            actions=rng.uniform(-2, 2, size=(steps, 1)).astype(np.float32),
            rewards=rng.normal(size=steps).tolist(),
            terminations=[False] * steps,
            truncations=[False] * (steps - 1) + [True],
        )
        for k, steps in enumerate((5, 8))
    ]
    with pytest.warns(UserWarning, match="None"):
        minari.create_dataset_from_buffers("other/pendulum-v3", buffers, env="Pendulum-v1")
    rollouts = Rollouts.load("other/pendulum-v3")
    assert [rollout.steps for rollout in rollouts] == [5, 8]
    for rollout, buffer in zip(rollouts, buffers, strict=True):
        assert_array_equal(rollout.observations, buffer.observations)
        assert_array_equal(rollout.actions, buffer.actions)
        assert_array_equal(rollout.rewards, buffer.rewards)
        assert (rollout.is_random, rollout.elapsed, rollout.seed) == (None, None, None)


def samples(space: gym.Space[Any], count: int) -> Any:
    """Samples of a space, as Minari keeps those of an episode."""
    if isinstance(space, gym.spaces.Dict):
        return {key: samples(own, count) for key, own in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(samples(own, count) for own in space)
    space.seed(count)
    return np.stack([space.sample() for _ in range(count)])


def stored(name: str, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
    """Writes a dataset of samples from two spaces with Minari itself."""
    buffers = [
        EpisodeBuffer(
            id=k,
            observations=samples(observations, steps + 1),
            actions=samples(actions, steps),
            rewards=[1.0] * steps,
            terminations=[False] * steps,
            truncations=[False] * (steps - 1) + [True],
        )
        for k, steps in enumerate((4, 9, 30))
    ]
    with pytest.warns(UserWarning, match="None"):
        minari.create_dataset_from_buffers(name, buffers, observation_space=observations, action_space=actions)


VECTOR = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("observations", "actions", "words"),
    [
        (
            gym.spaces.Dict(here=VECTOR),
            VECTOR,
            r"has observations in Dict\('here': Box.* needs a vector at each step: fl",
        ),
        (gym.spaces.Discrete(16), VECTOR, r"has observations in Discrete\(16\), and .* gymnasium.spaces.flatten, and"),
        (
            gym.spaces.Box(0, 255, (36, 36, 3), np.uint8),
            VECTOR,
            r"has observations in Box\(0, 255, \(36, 36, 3\), uint8",
        ),
        (gym.spaces.Tuple((VECTOR, VECTOR)), VECTOR, "has observations in Tuple"),
        (VECTOR, gym.spaces.Dict(here=VECTOR), "has actions in Dict.* needs an array or a choice a step: flatten"),
        (VECTOR, gym.spaces.Tuple((VECTOR, VECTOR)), "has actions in Tuple"),
    ],
)
def test_a_dataset_of_other_than_vectors_is_refused_in_its_own_words(
    observations: gym.Space[Any], actions: gym.Space[Any], words: str
) -> None:
    stored("other/odd-v0", observations, actions)
    for source in ("other/odd-v0", minari.load_dataset("other/odd-v0")):
        with pytest.raises(ValueError, match=words) as caught:
            Rollouts.load(source)
        assert "odd-v0" in str(caught.value)


def test_a_dataset_that_minari_has_opened_is_read_and_a_selection_of_it_too(datasets: Path) -> None:
    written(spec_with("Pendulum-v1"))
    by_name, dataset = Rollouts.load("ncp/test/rollouts-v0"), minari.load_dataset("ncp/test/rollouts-v0")
    assert_same(Rollouts.load(dataset), by_name)
    assert Rollouts.load(dataset).observation_names == by_name.observation_names
    assert_array_equal(Rollouts.load(dataset).action_range, by_name.action_range)
    some = Rollouts.load(dataset.filter_episodes(lambda episode: episode.id != 1))
    assert_same(some, by_name.select([0, 2]))
    with pytest.raises(
        TypeError, match=r"or a dataset of minari\.load_dataset, and was given a ndarray: wrap your arrays"
    ):
        Rollouts.load(np.zeros((4, 2)))


def test_choices_are_read_as_choices_and_become_vectors_of_zeros_and_a_one() -> None:
    stored("other/choices-v0", VECTOR, gym.spaces.Discrete(3, start=5))
    rollouts = Rollouts.load("other/choices-v0")
    assert rollouts.choices == range(5, 8)
    assert rollouts.action_range is None
    made = rollouts.one_hot()
    for rollout, own in zip(rollouts, made, strict=True):
        assert rollout.actions is not None
        assert own.actions is not None
        assert set(rollout.actions.tolist()) <= {5, 6, 7}
        assert_array_equal(own.actions, (rollout.actions[:, None] == [5, 6, 7]).astype(np.float32))
    assert made.choices is None
    assert made.action_range is not None
    assert made.action_range.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_an_id_and_a_path_lead_to_the_folder_of_a_dataset(datasets: Path) -> None:
    assert place_of("ncp/half/teacher-v0") == ("ncp/half/teacher-v0", datasets / "ncp/half/teacher-v0")
    assert place_of("./cheetah-v0") == ("cheetah-v0", Path("cheetah-v0"))
    assert place_of("/data/my cheetah") == ("my-cheetah-v0", Path("/data/my cheetah"))
    assert place_of("folder") == ("folder-v0", Path("folder"))
    assert place_of("ncp/half-v0", Path("root")) == ("ncp/half-v0", Path("root/ncp/half-v0"))


def test_a_dataset_is_not_overwritten() -> None:
    written(spec_with("Pendulum-v1"))
    with pytest.raises(FileExistsError, match="exists already"):
        written(spec_with("Pendulum-v1"))


def test_a_dataset_that_cannot_be_written_leaves_nothing(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(h5py.Group, "create_dataset", full)
        with pytest.raises(OSError, match="No space left"):
            written(spec_with("Pendulum-v1"))
    assert list((datasets / "ncp" / "test").iterdir()) == []
    assert os.environ["MINARI_DATASETS_PATH"] == str(datasets)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_dataset_is_refused(datasets: Path, share: float) -> None:
    written(spec_with("Pendulum-v1"))
    path = datasets / "ncp/test/rollouts-v0/data/main_data.hdf5"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match="not a readable Minari dataset, or was cut short"):
        Rollouts.load("ncp/test/rollouts-v0")


@pytest.mark.parametrize("content", ["", "{", "{}", '{"total_episodes": 3}', "[]"])
def test_a_damaged_description_is_refused(datasets: Path, content: str) -> None:
    written(spec_with("Pendulum-v1"))
    (datasets / "ncp/test/rollouts-v0/data/metadata.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="not a readable Minari dataset, or was cut short"):
        Rollouts.load("ncp/test/rollouts-v0")


def test_reference_scores_of_another_programs_dataset_are_read() -> None:
    steps, space = 4, gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    buffer = EpisodeBuffer(
        id=0,
        observations=samples(space, steps + 1),
        actions=samples(space, steps),
        rewards=[1.0, 2.0, 3.0, 4.0],
        terminations=[False] * steps,
        truncations=[False] * (steps - 1) + [True],
    )
    minari.create_dataset_from_buffers(
        "other/scored-v0", [buffer], env="Pendulum-v1", eval_env="Pendulum-v1", observation_space=space,
        action_space=space, algorithm_name="TD3", author={"B", "A"}, author_email="a@example.org",
        code_permalink="https://example.org", description="Scored.", ref_min_score=-10.0, ref_max_score=30.0,
    )  # fmt: skip
    for source in ("other/scored-v0", minari.load_dataset("other/scored-v0")):
        rollouts = Rollouts.load(source)
        assert rollouts.about["algorithm"] == "TD3"
        assert rollouts.about["author"] == "A, B"
        assert rollouts.about["description"] == "Scored."
        score = summarize(rollouts)["score"]
        assert score["mean"] == minari.get_normalized_score(minari.load_dataset("other/scored-v0"), 10.0) == 0.5


@pytest.mark.parametrize(
    "odd",
    [
        {"algorithm_name": float("nan"), "author": "A", "description": ["x"], "combined_datasets": "x"},
        {"ref_min_score": 0.0, "ref_max_score": 5e-324},
        {"ref_min_score": "low", "ref_max_score": [1]},
        {"author": [None, 3], "code_permalink": None},
    ],
)
def test_odd_metadata_of_another_program_do_no_harm(datasets: Path, odd: dict[str, Any]) -> None:
    rollouts = written(spec_with("Pendulum-v1"))
    path = datasets / "ncp/test/rollouts-v0/data/metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | odd))
    found = summarize(Rollouts.load("ncp/test/rollouts-v0"))
    assert found["returns"]["mean"] == summarize(rollouts)["returns"]["mean"]
    assert found["score"] is None
    json.dumps(found, allow_nan=False)


def test_minari_has_nothing_to_warn_of_when_everything_is_said(datasets: Path) -> None:
    rollouts = collect("random", spec_with("Pendulum-v1"), 2, progress=False)
    record = {
        **rollouts.about, "author": "A", "author_email": "a@example.org", "code_link": "https://example.org",
        "references": {"random": -1.0, "expert": 1.0, "episodes": 7, "seed": 0},
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_minari(rollouts, "ncp/test/said-v0", datasets / "ncp/test/said-v0", spec_with("Pendulum-v1"), record)
    metadata = minari.load_dataset("ncp/test/said-v0").storage.metadata
    assert (metadata["ref_min_score"], metadata["ref_max_score"]) == (-1.0, 1.0)
    assert metadata["num_episodes_average_score"] == 7


def test_the_record_is_json(datasets: Path) -> None:
    rollouts = written(spec_with("Pendulum-v1"))
    metadata = json.loads((datasets / "ncp/test/rollouts-v0/data/metadata.json").read_text(encoding="utf-8"))
    assert metadata["ncp_control"]["seed"] == rollouts.about["seed"] == 0
    assert metadata["algorithm_name"] == "random"
