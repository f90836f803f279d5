"""Recorded episodes as a teacher: where they come from, which environment they say, and what is noted about them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer
from minari.utils import create_dataset_from_buffers

import ncp_envs
from helpers.collecting import short, steering, still
from ncp_control.data import Rollout, Rollouts
from ncp_control.data.collect import collect_dataset
from ncp_control.distil import Recorded, distil, load_teacher
from ncp_control.distil.environments import EnvRecipe
from ncp_control.distil.recorded import recipe_in

PENDULUM = json.loads(gym.spec("Pendulum-v1").to_json())


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which Minari's datasets are too."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def collected(out: str, env: Any = None, **settings: Any) -> Rollouts:
    return collect_dataset(steering, env or short(), out, rollouts=3, progress=False, **settings)


@pytest.mark.parametrize("word", ["ncp/swing-v0", "minari/ncp/swing-v0", "minari/ncp/swing-v0/data"])
def test_an_id_and_a_folder_name_a_dataset(word: str, datasets: Path) -> None:
    rollouts = collected("ncp/swing-v0")
    teacher = load_teacher(word)
    assert isinstance(teacher, Recorded)
    assert teacher.name == "ncp/swing-v0"
    assert teacher.steps == 60
    np.testing.assert_array_equal(teacher.rollouts[2].observations, rollouts[2].observations)
    assert teacher.note["env"] == "Pendulum-v1"
    assert teacher.recipe() == EnvRecipe("Pendulum-v1", [], {"max_episode_steps": 20})


def test_what_is_noted_says_where_the_data_come_from(datasets: Path) -> None:
    collected("ncp/swing-v0", random_action_fraction=0.5)
    teacher = load_teacher("ncp/swing-v0")
    about = teacher.about()
    assert json.loads(json.dumps(about)) == about
    assert (about["kind"], about["name"], about["env"]) == ("dataset", "ncp/swing-v0", "Pendulum-v1")
    assert (about["episodes"], about["steps"], about["policy"]) == (3, 60, "steering")
    random = np.concatenate([one.is_random for one in teacher.rollouts])
    assert about["random"] == pytest.approx(random.mean())
    assert 0 < about["random"] < 1


def test_the_hash_is_that_of_the_data(datasets: Path) -> None:
    for out, seed in (("one/swing-v0", 0), ("./swing", 0), ("two/swing-v0", 1)):
        collected(out, seed=seed)
    a, again, b = (load_teacher(word).about()["sha256"] for word in ("one/swing-v0", "./swing", "two/swing-v0"))
    assert a == again != b
    assert len(a) == 64
    teacher = load_teacher("one/swing-v0")
    assert teacher.first(45).about()["sha256"] != a


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari recommends metadata for datasets that are published
def test_another_programs_dataset_says_its_environment_too(datasets: Path) -> None:
    env = gym.make("Pendulum-v1", g=5.0, max_episode_steps=4)
    seen, _ = env.reset(seed=0)
    env.action_space.seed(0)
    observations, actions, rewards = [seen], [], []
    for _ in range(4):
        actions.append(env.action_space.sample())
        seen, reward, *_ = env.step(actions[-1])
        observations.append(seen)
        rewards.append(reward)
    buffer = EpisodeBuffer(
        id=0, observations=observations, actions=actions, rewards=rewards, terminations=[False] * 4,
        truncations=[False, False, False, True], infos={},
    )  # fmt: skip
    create_dataset_from_buffers("others/swing-v0", [buffer], env=env, algorithm_name="by hand")
    teacher = load_teacher("others/swing-v0")
    assert teacher.recipe() == EnvRecipe("Pendulum-v1", [], {"g": 5.0, "max_episode_steps": 4})
    assert teacher.random_share == 0
    about = teacher.about()
    assert (about["algorithm"], about["policy"]) == ("by hand", None)
    create_dataset_from_buffers(
        "others/nowhere-v0", [buffer], observation_space=env.observation_space, action_space=env.action_space
    )
    nameless = load_teacher("others/nowhere-v0")
    assert nameless.note == {}
    with pytest.raises(ValueError, match=r"^others/nowhere-v0 does not say in which environment.*--teacher-env ID"):
        nameless.recipe()
    assert nameless.recipe("Pendulum-v1") == EnvRecipe("Pendulum-v1")


def test_wrappers_of_the_recorded_environment_are_made_again(datasets: Path) -> None:
    env = ncp_envs.PreviousAction(ncp_envs.ObservationNoise(gym.make("ncp/CartPoleNoVel-v0"), std=0.1))
    collect_dataset("random", env, "ncp/cart-v0", rollouts=1, progress=False)
    recipe = load_teacher("ncp/cart-v0").recipe()
    assert recipe.env == "ncp/CartPoleNoVel-v0"
    assert [next(iter(one)) for one in recipe.wrappers] == ["ObservationNoise", "PreviousAction"]
    assert str(recipe.make().unwrapped) == str(env.unwrapped)
    assert recipe.make().observation_space == env.observation_space


def test_entries_chosen_by_a_wrapper_as_earlier_versions_wrote_it_are_not_chosen_twice() -> None:
    spec = json.loads(gym.spec("ncp/HalfCheetahNoVel-v0").to_json())
    keep = {"indices": list(range(8)), "size": 17}
    wrapper = {"name": "KeepObservations", "entry_point": "ncp_envs.observations:KeepObservations", "kwargs": keep}
    recipe = recipe_in({**spec, "additional_wrappers": [wrapper]}, "data")
    assert recipe == EnvRecipe("ncp/HalfCheetahNoVel-v0", [], {})
    again = recipe_in({**spec, "additional_wrappers": [{**wrapper, "kwargs": {"indices": [0]}}]}, "data")
    assert again.wrappers == [{"KeepObservations": {"indices": [0]}}]


@pytest.mark.parametrize(
    ("limit", "found"), [(200, {}), (20, {"max_episode_steps": 20}), (None, {"max_episode_steps": -1})]
)
def test_the_time_limit_is_the_recorded_one(limit: int | None, found: dict[str, Any]) -> None:
    recipe = recipe_in({**PENDULUM, "max_episode_steps": limit}, "data")
    assert recipe.arguments == found
    spec = recipe.make().spec
    assert spec is not None
    assert spec.max_episode_steps == limit


def test_how_a_recorded_environment_was_rendered_does_not_matter() -> None:
    spec = {**PENDULUM, "kwargs": {"render_mode": "human", "g": 5.0}}
    assert recipe_in(spec, "data").arguments == {"g": 5.0}


def test_another_environment_that_the_user_names_is_taken_as_it_is() -> None:
    recipe = recipe_in({**PENDULUM, "max_episode_steps": 3}, "data", "MountainCarContinuous-v0")
    assert recipe == EnvRecipe("MountainCarContinuous-v0")
    assert recipe_in({**PENDULUM, "max_episode_steps": 3}, "data", "Pendulum-v1").arguments == {"max_episode_steps": 3}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({}, "data does not say in which environment it was recorded: name it, --teacher-env ID"),
        ({"id": "this:World-v0"}, "data was recorded in this:World-v0: if importing this is safe, add --teacher-env"),
        ({"id": "World-v0"}, "data was recorded in World-v0, which nothing has registered here: name the module"),
        (
            {
                **PENDULUM,
                "additional_wrappers": [{"name": "PreviousAction", "entry_point": "this:PreviousAction", "kwargs": {}}],
            },
            "data was recorded behind the wrapper PreviousAction, and only those of ncp_envs can be made again",
        ),
        ({**PENDULUM, "additional_wrappers": ["all"]}, "behind the wrapper all"),
    ],
)
def test_what_a_file_says_of_its_environment_never_runs_code(spec: dict[str, Any], sentence: str) -> None:
    spec = {"entry_point": "this:World", **spec}
    with pytest.raises(ValueError, match=sentence):
        recipe_in(spec, "data")


def test_the_entry_point_in_a_file_is_not_used() -> None:
    recipe = recipe_in({**PENDULUM, "entry_point": "this:World", "vector_entry_point": "this:World"}, "data")
    assert type(recipe.make().unwrapped).__name__ == "PendulumEnv"


def test_only_the_first_whole_episodes_are_used(datasets: Path) -> None:
    collected("./swing-v0")
    teacher = load_teacher("./swing-v0")
    assert teacher.first(60) is teacher
    assert teacher.first(59).steps == teacher.first(40).steps == 40
    with pytest.raises(ValueError, match=r"the first episode of swing-v0 has 20 steps.*raise --steps above 19"):
        teacher.first(19)


def test_traces_are_recorded_episodes_whose_environment_the_user_names(datasets: Path) -> None:
    (datasets / "traces").mkdir()
    rng = np.random.default_rng(0)
    arrays = {"observations": rng.normal(size=(5, 3)), "actions": rng.normal(size=(4, 1)), "rewards": np.ones(4)}
    np.savez(datasets / "traces" / "a.npz", **arrays)
    teacher = load_teacher("traces")
    with pytest.raises(ValueError, match=r"traces does not say in which environment it was recorded"):
        distil(teacher, "Pendulum-v1", progress=False)
    assert teacher.recipe("Pendulum-v1") == EnvRecipe("Pendulum-v1")


def table(folder: Path) -> str:
    (folder / "flight.csv").write_text("time,height\n0,1\n")
    return "flight.csv"


def observed(folder: Path) -> str:
    np.save(folder / "seen.npy", np.ones((5, 3)))
    return "seen.npy"


def acted(folder: Path) -> str:
    np.savez(folder / "acted.npz", observations=np.ones((5, 3)), actions=np.ones((4, 1)))
    return "acted.npz"


def empty(folder: Path) -> str:
    """A dataset with an episode that has no step."""
    import h5py

    collected("./broken-v0")
    main = folder / "broken-v0" / "data" / "main_data.hdf5"
    with h5py.File(main, "r+") as file:
        for key, length in (("observations", 1), ("actions", 0), ("rewards", 0), ("terminations", 0)):
            values = file["episode_1"][key][:length]
            del file["episode_1"][key]
            file["episode_1"].create_dataset(key, data=values)
    described = folder / "broken-v0" / "data" / "metadata.json"
    metadata = json.loads(described.read_text())
    del metadata["ncp_control"]["sha256"]
    described.write_text(json.dumps(metadata))
    return "./broken-v0"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            table,
            "'flight.csv' is a table, which does not say its environment, actions and rewards: record episodes",
        ),
        (observed, "seen.npy has no actions, and behaviour cloning needs those of every step: record episodes"),
        (acted, "acted.npz has no rewards, and behaviour cloning needs those"),
        (empty, "broken-v0/data is not a readable Minari dataset, or was cut short"),
    ],
)
def test_what_nobody_can_learn_from_is_refused(make: Callable[[Path], str], sentence: str, datasets: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        load_teacher(make(datasets))


def test_options_of_a_zip_are_refused_with_a_dataset(datasets: Path) -> None:
    collected("./swing-v0")
    with pytest.raises(ValueError, match=r"--algo goes with a \.zip"):
        load_teacher("./swing-v0", algo="SAC")


def test_rollouts_must_be_rollouts() -> None:
    with pytest.raises(TypeError, match=r"Recorded holds Rollouts, not a list: Recorded\.load reads data"):
        Recorded([1, 2])  # type: ignore[arg-type]
    rollout = Rollout(np.ones((3, 3)), still(np.ones((2, 1))), np.ones(2))
    assert Recorded(Rollouts((rollout,))).name == "recorded episodes"
