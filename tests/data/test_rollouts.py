"""Rollouts on disk: Minari datasets of ours and of others, plain traces, splits, and files that are broken."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from minari.data_collector import EpisodeBuffer
from numpy.testing import assert_array_equal

import ncp_envs
from ncp_control.data import Rollout, Rollouts, Windows, collect
from ncp_control.data.linear import linear_error, mean_error, persistence_error
from ncp_control.data.minari_files import place_of, write_minari
from ncp_control.data.sources import read_trace, write_trace

CHEETAH = Path(__file__).resolve().parents[3] / "shared" / "data" / "cheetah"
KEYS = ("observations", "actions", "rewards", "is_random", "elapsed", "terminated", "seed")


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
    """Rollouts that were collected, and written under a name."""
    rollouts = collect("random", spec, count, progress=False)
    record = {**rollouts.about, "observation_names": list(rollouts.observation_names)}
    write_minari(rollouts, name, place_of(name)[1], spec, record)
    return rollouts


def assert_same(one: Rollouts, other: Rollouts) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        for key in KEYS:
            assert_array_equal(getattr(a, key), getattr(b, key), strict=key not in ("terminated", "seed", "elapsed"))


# Minari


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
    with ncp_envs.without_mass_warning():
        recovered = dataset.recover_environment()
    seeds = [found["seed"] for found in dataset.storage.get_episode_metadata(dataset.episode_indices)]
    for episode, seed in zip(dataset.iterate_episodes(), seeds, strict=True):
        observation, _ = recovered.reset(seed=seed)
        assert_array_equal(observation, episode.observations[0])
        for step, action in enumerate(episode.actions):
            observation, reward, terminated, truncated, _ = recovered.step(action)
            assert_array_equal(observation, episode.observations[step + 1])
            assert reward == episode.rewards[step]
            assert (terminated, truncated) == (episode.terminations[step], episode.truncations[step])
        assert terminated or truncated
    recovered.close()


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


def test_minari_lists_it_and_another_process_recovers_it(datasets: Path) -> None:
    written(spec_with("ncp/CartPoleNoVel-v0"))
    assert list(minari.list_local_datasets()) == ["ncp/test/rollouts-v0"]
    code = "import minari; print(minari.load_dataset('ncp/test/rollouts-v0').recover_environment().observation_space)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert "(2,)" in result.stdout, result.stderr


def test_a_dataset_of_somebody_else(datasets: Path) -> None:
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


def test_a_dataset_of_dictionaries_is_refused(datasets: Path) -> None:
    space = gym.spaces.Dict(here=gym.spaces.Box(-1, 1, (2,)))
    buffer = EpisodeBuffer(
        id=0,
        observations={"here": np.zeros((3, 2), np.float32)},
        actions=np.zeros((2, 1), np.float32),
        rewards=[0.0, 0.0],
        terminations=[False, True],
        truncations=[False, False],
    )
    with pytest.warns(UserWarning, match="None"):
        minari.create_dataset_from_buffers(
            "other/dict-v0", [buffer], observation_space=space, action_space=gym.spaces.Box(-1, 1, (1,))
        )
    with pytest.raises(ValueError, match="flatten them first"):
        Rollouts.load("other/dict-v0")


def test_what_a_name_stands_for(datasets: Path) -> None:
    assert place_of("ncp/half/teacher-v0") == ("ncp/half/teacher-v0", datasets / "ncp/half/teacher-v0")
    assert place_of("./cheetah-v0") == ("cheetah-v0", Path("cheetah-v0"))
    assert place_of("/data/my cheetah") == ("my-cheetah-v0", Path("/data/my cheetah"))
    assert place_of("folder") == ("folder-v0", Path("folder"))


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


# Traces


def trace(steps: int = 6, features: int = 3, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(steps, features))


def test_traces_of_both_kinds(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", trace(seed=1))
    full = Rollout(
        trace(),
        actions=trace(5, 2),
        rewards=trace(5)[:, 0],
        is_random=np.arange(5) > 3,
        elapsed=np.arange(1.0, 7.0),
        terminated=True,
        seed=2**32 - 1,
    )
    write_trace(full, tmp_path / "a.npz")
    assert_same(Rollouts((full,)), Rollouts((read_trace(tmp_path / "a.npz"),)))
    with pytest.raises(ValueError, match=r"of a\.npz and b\.npy only one has actions"):
        Rollouts.load(tmp_path)
    (tmp_path / "a.npz").unlink()
    np.savez(tmp_path / "a.npz", observations=trace(seed=2))
    (tmp_path / ".hidden.npy").write_bytes(b"not a trace")
    (tmp_path / "notes.txt").write_text("nor this", encoding="utf-8")
    rollouts = Rollouts.load(tmp_path)
    assert [rollout.name for rollout in rollouts] == ["a.npz", "b.npy"]
    assert_array_equal(rollouts[1].observations, trace(seed=1))
    assert len(Rollouts.load(tmp_path / "b.npy")) == 1


def test_broken_traces(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", observations=trace(500))
    np.save(tmp_path / "whole.npy", trace(500))
    for name in ("whole.npz", "whole.npy"):
        for share in (0.0, 0.2, 0.95):
            content = (tmp_path / name).read_bytes()
            path = tmp_path / f"cut{Path(name).suffix}"
            path.write_bytes(content[: int(share * len(content))])
            with pytest.raises(ValueError, match=r"cut\.np[yz] (is not a readable|holds Python objects or)"):
                Rollouts.load(path)


def test_a_pickle_is_not_unpickled(tmp_path: Path) -> None:
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self) -> Any:
            return (open, (str(trap), "w"))

    np.save(tmp_path / "objects.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Trap()))
    np.savez(tmp_path / "objects.npz", observations=np.array([Trap()], dtype=object))
    trap.unlink(missing_ok=True)
    for name in ("objects.npy", "plain.npy", "objects.npz"):
        with pytest.raises(ValueError, match="holds Python objects or is no NumPy file: neither is read"):
            Rollouts.load(tmp_path / name)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"observations": trace()[:, 0]}, r"must have shape \(steps, features\), got \(6,\)"),
        ({"observations": trace(1)}, "needs two observations or more, and this has 1"),
        ({"observations": trace(), "actions": trace(6)}, "6 observations go with 5 actions, but there are 6"),
        ({"observations": trace(), "elapsed": np.ones(5)}, "go with 6 elapsed, but there are 5"),
        ({"states": trace()}, "has no array 'observations'; it has states"),
        ({"observations": trace().astype(str)}, "must be numbers"),
    ],
)
def test_wrong_arrays(tmp_path: Path, arrays: dict[str, Any], reason: str) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ValueError, match=reason) as caught:
        Rollouts.load(tmp_path / "wrong.npz")
    assert "wrong.npz" in str(caught.value)


def test_bad_numbers_are_named(tmp_path: Path) -> None:
    values = trace()
    values[4, 1] = np.nan
    values[5, 0] = np.inf
    np.save(tmp_path / "bad.npy", values)
    with pytest.raises(ValueError, match=r"bad.npy: observations\[4, 1\] is nan \(1 more like it\)"):
        Rollouts.load(tmp_path)


def test_traces_that_do_not_belong_together(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", trace())
    np.save(tmp_path / "b.npy", trace(features=4))
    with pytest.raises(ValueError, match=r"b.npy has 4 observations a step, a.npy has 3"):
        Rollouts.load(tmp_path)
    with pytest.raises(ValueError, match=r"actions of shape \(2,\), rollout of \(3,\)"):
        Rollouts((Rollout(trace(), actions=trace(5, 3)), Rollout(trace(), actions=trace(5, 2))))


def test_arrays_of_ones_own() -> None:
    seen, acted = trace(), trace(5, 2)
    wanted = Rollout(seen, acted, rewards=np.arange(5.0))
    for kind in (np.ndarray.tolist, torch.from_numpy, lambda values: torch.from_numpy(values).requires_grad_()):
        found = Rollout(kind(seen), kind(acted), kind(np.arange(5.0)))
        assert isinstance(found.observations, np.ndarray)
        assert_same(Rollouts((found,)), Rollouts((wanted,)))
    assert len(Rollouts([wanted, wanted])) == 2  # type: ignore[arg-type]
    assert Rollouts([wanted]).rollouts == (wanted,)  # type: ignore[arg-type]
    for bare in ([seen, seen], np.stack([seen, seen]), [seen.tolist()]):
        with pytest.raises(TypeError, match=r"wrap your arrays, Rollouts\(\(Rollout\(observations, actions\)"):
            Rollouts(bare)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rollout: observations must be one array of numbers"):
        Rollout([[0.0, 1.0], [2.0]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="observations must be numbers"):
        Rollout([["a", "b"], ["c", "d"]])  # type: ignore[arg-type]


def test_a_slice_is_rollouts_and_all_are_shown_in_a_line() -> None:
    found = tuple(Rollout(trace(seed=k), trace(5, 2), rewards=np.ones(5), name=f"r{k}") for k in range(5))
    rollouts = Rollouts(found, ("a", "b", "c"), {"seed": 1}, ("train", "valid", "test", "test", "train"))
    part = rollouts[1:4]
    assert isinstance(part, Rollouts)
    assert [rollout.name for rollout in part] == ["r1", "r2", "r3"]
    assert (part.observation_names, part.about, part.parts) == (("a", "b", "c"), {"seed": 1}, ("valid", "test", "test"))
    assert rollouts[::-1][0] is rollouts[-1]
    with pytest.raises(ValueError, match="no rollout"):
        rollouts[5:]
    assert repr(found[0]) == "Rollout(r0: 5 steps, observations (3,), actions (2,), return 5.0)"
    assert repr(rollouts) == "Rollouts(5 rollouts, 25 steps, observations (3,), actions (2,))"
    assert repr(Rollout(trace())) == "Rollout(rollout: 5 steps, observations (3,), no actions)"


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file, folder or Minari dataset 'ncp/nothing-v0'"):
        Rollouts.load("ncp/nothing-v0")
    with pytest.raises(FileNotFoundError, match=r"holds no Minari dataset and no \.npy or \.npz trace"):
        Rollouts.load(tmp_path)


# Splits


def test_a_folder_that_names_its_parts(tmp_path: Path) -> None:
    for k, part in enumerate(("train", "valid", "test")):
        (tmp_path / part).mkdir()
        for number in range(k + 1):
            np.save(tmp_path / part / f"{number}.npy", trace(seed=10 * k + number))
    split = Rollouts.load(tmp_path).split()
    assert [len(part) for part in split] == [1, 2, 3]
    assert_array_equal(split.test[2].observations, trace(seed=22))
    for path in (tmp_path / "test").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match="test holds no"):
        Rollouts.load(tmp_path)
    (tmp_path / "test").rmdir()
    with pytest.raises(ValueError, match="has train and valid, but no folder test"):
        Rollouts.load(tmp_path)


@pytest.mark.parametrize("count", [3, 4, 5, 7, 25, 26])
def test_every_rollout_is_in_one_part(count: int) -> None:
    rollouts = Rollouts(tuple(Rollout(trace(seed=k), name=str(k)) for k in range(count)))
    for seed in (None, 1):
        split = rollouts.split(seed)
        assert sorted(int(rollout.name) for part in split for rollout in part) == list(range(count))
        assert all(len(part) for part in split)
    names = [[rollout.name for part in rollouts.split(seed) for rollout in part] for seed in (1, 1, 2)]
    assert names[0] == names[1]
    if count > 5:
        assert names[0] != names[2]


def test_two_rollouts_are_too_few() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        Rollouts((Rollout(trace()), Rollout(trace()))).split()


def test_the_papers_split() -> None:
    split = Rollouts(tuple(Rollout(trace(), name=str(k)) for k in range(25))).split()
    numbers = {part: [int(rollout.name) for rollout in getattr(split, part)] for part in split._fields}
    assert numbers == {"valid": list(range(5)), "test": list(range(5, 15)), "train": list(range(15, 25))}


@pytest.mark.skipif(not CHEETAH.is_dir(), reason="the paper's traces are not on this machine")
def test_the_papers_traces() -> None:
    split = Rollouts.load(CHEETAH).split()
    assert [part[0].name for part in split] == ["trace_0015.npy", "trace_0000.npy", "trace_0005.npy"]
    train, test = Windows(split.train, 32, 10), Windows(split.test, 32, 10)
    assert persistence_error(test) == pytest.approx(62.87, abs=0.005)
    assert mean_error(train, test) == pytest.approx(17.47, abs=0.005)
    assert linear_error(split.train, split.test, lags=1) == pytest.approx(3.438, abs=0.0005)
    assert linear_error(split.train, split.test, lags=5) == pytest.approx(3.075, abs=0.0005)


def test_the_record_is_json(datasets: Path) -> None:
    rollouts = written(spec_with("Pendulum-v1"))
    metadata = json.loads((datasets / "ncp/test/rollouts-v0/data/metadata.json").read_text(encoding="utf-8"))
    assert metadata["ncp_control"]["seed"] == rollouts.about["seed"] == 0
    assert metadata["algorithm_name"] == "random"
