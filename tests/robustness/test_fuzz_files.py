"""Whatever a file holds, reading it gives the content that was written or a sentence: no crash, no hang, no code run.

Every reader gets mutated files from a seeded generator, more than 12 000 of them in all, and six times as many in the
slow run. Where a checksum covers the file, chance mutations (`damaged`) must give an error or the very same content.
Forgeries, whose checksums were made to fit, must give an error or something whole.
"""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import ncp_control as nc
from helpers.children import in_child
from helpers.mutations import altered, damaged, forged, json_text, objects, reheaded, reshaped, rezipped
from ncp_control.wiring.plan_text import parse_plan

SECONDS = 20  # for one file, on a busy machine


class Hung(BaseException):
    """A reader that does not come to an end; no `except` of a reader catches it."""


def ring(signum: int, frame: FrameType | None) -> None:
    raise Hung


@pytest.fixture(params=[1, pytest.param(6, marks=pytest.mark.slow)], ids=["some", "many"])
def times(request: pytest.FixtureRequest) -> int:
    """How many times the usual number of files."""
    found: int = request.param
    return found


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def trap(place: Path) -> Iterator[Path]:
    """A file that only a pickle can make."""
    yield place / "sprung"
    assert not (place / "sprung").exists()


def examine(
    count: int,
    path: Path,
    mutate: Callable[[Random], bytes],
    read: Callable[[Path], Any],
    same: Callable[[Any], bool],
    name: str = "",
) -> dict[str, int]:
    """Reads mutated files and says how many were refused and how many read; fails with the seeds of what went wrong.

    :param same: whether what was read may be what it is
    :param name: what a sentence has to name; the file's name by default
    """
    faults, refused = [], 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        for seed in range(count):
            path.write_bytes(mutate(Random(seed)))
            signal.alarm(SECONDS)
            try:
                found = read(path)
                if not same(found):
                    faults.append(f"seed {seed}: read as something else")
            except (ValueError, OSError) as error:
                refused += 1
                if (name or path.name) not in str(error):
                    faults.append(f"seed {seed}: does not name the file: {str(error)[:200]!r}")
            except (Exception, Hung) as error:
                faults.append(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}")
            finally:
                signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not faults, f"{len(faults)} of {count} files, such as:\n" + "\n".join(faults[:12])
    return {"refused": refused, "read": count - refused}


# Checkpoints of networks, policies and models


def network(seed: int) -> nc.RNN:
    torch.manual_seed(seed)
    cells = (
        lambda: nc.LTC(3, nc.AutoNCP(7, 2)),
        lambda: nc.CfC(3, 4, backbone=(5,)),
        lambda: nc.MixedMemory(nc.CTRNN(3, nc.AutoNCP(7, 2), time_constants=(0.5, 8))),
        lambda: nc.CTGRU(3, 4, scales=3),
    )
    return nc.RNN(cells[seed]())


def weights_of(found: Any) -> dict[str, torch.Tensor]:
    module = getattr(found, "policy", found)
    return {name: value.clone() for name, value in module.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@torch.no_grad()
def use(found: Any) -> None:
    """A step of a network, a policy or a model; none of a network of a million steps of its solver."""
    if isinstance(found, nc.RNN):
        if found.cell.config().get("unfolds", 1) < 100:
            found(torch.zeros(1, 1, found.cell.inputs))
    elif hasattr(found, "observation_space"):
        found.predict(found.observation_space.sample())
    elif all(one.rnn.cell.unfolds < 100 for one in circuits(found)):
        actions = torch.zeros(3, found.actions) if found.actions else None
        found.predict(torch.zeros(2, found.features), 2, actions, 1.0 if found.timed else None)


def circuits(model: Any) -> list[Any]:
    """The members of a model that have an ODE solver."""
    return [one for one in getattr(model, "models", [model]) if hasattr(getattr(one.rnn, "cell", None), "unfolds")]


def write_network(path: Path, seed: int) -> None:
    nc.save(network(seed % 4), path, {"seed": seed})


def write_policy(path: Path, seed: int) -> None:
    pytest.importorskip("sb3_contrib")
    import gymnasium as gym
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from ncp_control.rl import RecurrentPPO, save_policy

    envs: Any = DummyVecEnv([lambda: gym.make("CartPole-v1" if seed == 2 else "Pendulum-v1")])
    if seed < 2:
        wiring: Any = nc.AutoNCP(7, 2) if seed else 4
        policy_kwargs = {"wiring": wiring, "critic": "lstm", "critic_units": 3, "net_arch": [3] * seed}
        model: Any = RecurrentPPO(
            "NCPPolicy", VecNormalize(envs), n_steps=8, batch_size=8, seed=0, device="cpu", policy_kwargs=policy_kwargs
        )
    else:
        model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8, seed=0, device="cpu", policy_kwargs={"net_arch": [3]})
    save_policy(model, path, {"env": "Pendulum-v1"})


def write_model(path: Path, seed: int) -> None:
    pytest.importorskip("gymnasium")
    from helpers.oscillators import oscillators

    from ncp_control.dynamics import DynamicsModel, Ensemble, save_model

    train = oscillators(actions=True, steps=10)
    torch.manual_seed(seed)
    inputs = "observations+actions"
    members = [
        DynamicsModel.of(train, cell, wiring, inputs=inputs, residual=bool(seed % 2))
        for cell, wiring in (("ltc", nc.AutoNCP(7, 2)), ("mlp", 4))
    ]
    save_model(Ensemble(members) if seed % 3 == 0 else members[seed % 2], path, {"seed": seed})


CHECKPOINTS: dict[str, tuple[Callable[[Path, int], None], tuple[str, ...], int]] = {
    "network": (write_network, ("config", "wiring", "note"), 4),
    "policy": (write_policy, ("policy", "spaces", "normalize", "note"), 3),
    "model": (write_model, ("models", "ensemble", "note"), 3),
}


@pytest.fixture(scope="module")
def checkpoints(place: Path) -> Callable[[str], list[bytes]]:
    """The contents of whole files of a kind."""
    made: dict[str, list[bytes]] = {}

    def contents(kind: str) -> list[bytes]:
        if kind not in made:
            write, _, count = CHECKPOINTS[kind]
            made[kind] = []
            for seed in range(count):
                write(place / "whole.safetensors", seed)
                made[kind].append((place / "whole.safetensors").read_bytes())
        return made[kind]

    return contents


@pytest.mark.parametrize(("kind", "count"), [("network", 1600), ("policy", 1400), ("model", 1400)])
def test_a_damaged_checkpoint(
    kind: str, count: int, times: int, place: Path, checkpoints: Callable[[str], list[bytes]]
) -> None:
    contents, path = checkpoints(kind), place / "mutated.safetensors"
    known = []
    for content in contents:
        path.write_bytes(content)
        known.append(weights_of(nc.load(path)))

    def mutate(random: Random) -> bytes:
        content = random.choice(contents)
        if random.random() < 0.25:
            return reheaded(content, random)
        return damaged(content, random, random.choice(contents))

    found = examine(count * times, path, mutate, nc.load, lambda one: any(equal(weights_of(one), own) for own in known))
    assert found["refused"] > 0.9 * count * times


@pytest.mark.parametrize(("kind", "count"), [("network", 250), ("policy", 200), ("model", 200)])
def test_a_forged_checkpoint(
    kind: str, count: int, times: int, place: Path, checkpoints: Callable[[str], list[bytes]]
) -> None:
    contents, described = checkpoints(kind), CHECKPOINTS[kind][1]

    def whole(found: Any) -> bool:
        with suppress(ValueError):  # of a policy whose weights are NaN
            use(found)
        return True

    def mutate(random: Random) -> bytes:
        return forged(random.choice(contents), described, random)

    found = examine(count * times, place / "mutated.safetensors", mutate, nc.load, whole)
    assert min(found.values()) > 0


# Wirings and plans


def test_a_mutated_wiring(times: int) -> None:
    texts = [
        wiring.to_json()
        for wiring in (
            nc.AutoNCP(7, 2).build(3),
            nc.GapJunctions(nc.AutoNCP(7, 2), 2).build(3),
            nc.Random(5, 2).build(2),
            nc.Wiring.from_edges(
                ["touch"], inter=["AVD"], motor=["REV"], sensory=[(0, 0)], synapses=[(0, 1), (0, 0, -1)]
            ),
        )
    ]
    found = {"refused": 0, "read": 0}
    for seed in range(2500 * times):
        random = Random(seed)
        text = random.choice(texts)
        if random.random() < 0.6:
            text = json_text(altered(json.loads(text), random), random)
        else:
            text = damaged(text.encode(), random, random.choice(texts).encode()).decode("utf-8", "replace")
        try:
            wiring = nc.Wiring.from_json(text)
        except nc.WiringError:
            found["refused"] += 1
        else:
            assert nc.Wiring.from_json(wiring.to_json()) == wiring
            assert wiring.summary()
            found["read"] += 1
    assert min(found.values()) > 0


def test_a_mutated_plan(times: int) -> None:
    plans = [b"AutoNCP(40, 16, seed=1)", b"GapJunctions(NCP((6, 4), 3, 2, sensory_fanout=2), 4)", b"Random(9, 2, 0.5)"]
    plans += [
        b"AutoNCP(" + b"-" * 900 + b"1)",
        b"AutoNCP(" + b"(" * 300 + b"1",
        b"().__class__.__bases__",
        b"open('x', 'w')",
    ]
    for seed in range(600 * times):
        random = Random(seed)
        text = damaged(random.choice(plans), random, random.choice(plans)).decode("utf-8", "replace")
        with suppress(nc.WiringError):
            assert isinstance(parse_plan(text).units, int)


# Traces and recordings


def write_traces(place: Path) -> list[bytes]:
    from ncp_control.data import Rollout
    from ncp_control.data.sources import write_trace

    random = np.random.default_rng(0)
    seen = random.normal(size=(6, 3))
    whole = Rollout(
        seen, random.normal(size=(5, 2)), random.normal(size=5), np.arange(5) > 3, np.arange(1.0, 7.0), True, 7
    )
    write_trace(whole, place / "whole.npz")
    np.savez_compressed(place / "packed.npz", observations=seen.astype(np.float32), seed=np.int64(3))
    return [(place / name).read_bytes() for name in ("whole.npz", "packed.npz")]


def content_of(found: Any) -> list[Any]:
    """The arrays of a trace or a recording, in order."""
    names = ("observations", "actions", "rewards", "is_random", "elapsed", "terminated", "seed")
    return [None if (value := getattr(found, name)) is None else np.asarray(value) for name in names]


def alike(one: list[Any], other: list[Any]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or (a.dtype == b.dtype and np.array_equal(a, b)))
        for a, b in zip(one, other, strict=True)
    )


def fine(found: Any) -> bool:
    """What every rollout is: two finite observations or more, and as many of everything else."""
    from ncp_control.data import Rollouts

    rollout = found[0] if isinstance(found, Rollouts) else found
    parts = [value for value in (rollout.actions, rollout.rewards, rollout.is_random) if value is not None]
    return bool(np.isfinite(rollout.observations).all()) and all(len(part) == rollout.steps >= 1 for part in parts)


def test_a_damaged_trace(times: int, place: Path) -> None:
    from ncp_control.data.sources import read_trace

    contents, path = write_traces(place), place / "mutated.npz"
    known = []
    for content in contents:
        path.write_bytes(content)
        known.append(content_of(read_trace(path)))

    def mutate(random: Random) -> bytes:
        return damaged(random.choice(contents), random, random.choice(contents))

    found = examine(
        1200 * times, path, mutate, read_trace, lambda one: any(alike(content_of(one), own) for own in known)
    )
    assert min(found.values()) > 0


def test_a_forged_trace(times: int, place: Path, trap: Path) -> None:
    from ncp_control.data import Rollouts

    contents = write_traces(place)
    found = examine(
        300 * times,
        place / "mutated.npz",
        lambda random: rezipped(random.choice(contents), random, trap),
        Rollouts.load,
        fine,
    )
    assert min(found.values()) > 0


def test_a_mutated_plain_trace(times: int, place: Path, trap: Path) -> None:
    """An `.npy` has no checksum: what is read from one may be other numbers, but is a whole trace."""
    from ncp_control.data import Rollouts

    np.save(place / "whole.npy", np.random.default_rng(0).normal(size=(9, 3)))
    whole = (place / "whole.npy").read_bytes()

    def mutate(random: Random) -> bytes:
        change = random.random()
        if change < 0.02:
            return objects(trap)
        return reshaped(whole, random) if change < 0.4 else damaged(whole, random, whole)

    found = examine(700 * times, place / "mutated.npy", mutate, Rollouts.load, fine)
    assert min(found.values()) > 0


def write_recording(path: Path, seed: int) -> None:
    from ncp_control.activity import record_network

    torch.manual_seed(seed)
    rnn = nc.RNN(nc.LTC(3, nc.GapJunctions(nc.AutoNCP(7, 2), 2)))
    record_network(rnn, torch.randn(5, 3), path, elapsed=0.5)


def arrays_of(found: Any) -> dict[str, Any]:
    from ncp_control.activity.recording.activity import NEEDED

    return {**{name: getattr(found, name) for name in NEEDED}, **found.extras}


@pytest.mark.parametrize(("how", "count"), [("damaged", 300), ("forged", 120)])
def test_a_mutated_recording(how: str, count: int, times: int, place: Path, trap: Path) -> None:
    from ncp_control.activity import Activity

    contents, known, path = [], [], place / "mutated.npz"
    for seed in range(2):
        write_recording(path, seed)
        contents.append(path.read_bytes())
        known.append(Activity.load(path))

    def mutate(random: Random) -> bytes:
        if how == "forged":
            return rezipped(random.choice(contents), random, trap)
        return damaged(random.choice(contents), random, random.choice(contents))

    def same(found: Any) -> bool:
        arrays = arrays_of(found)
        if how == "forged":
            return all(np.issubdtype(values.dtype, np.number) or values.dtype == bool for values in arrays.values())
        return any(
            found.about == own.about
            and found.wiring == own.wiring
            and arrays.keys() == arrays_of(own).keys()
            and all(np.array_equal(values, arrays_of(own)[name]) for name, values in arrays.items())
            for own in known
        )

    found = examine(count * times, path, mutate, Activity.load, same)
    assert min(found.values()) > 0


# Recipes

RECIPES = (
    """
env: ncp/PendulumNoVel-v0
algo: RecurrentPPO
n_timesteps: 512
n_envs: 2
normalize: {norm_reward: false, clip_obs: 5.0}
env_wrapper:
- ObservationNoise: {std: 0.1}
policy_kwargs:
  wiring: AutoNCP(9, 3)
  critic: lstm
  features_extractor_kwargs: {wiring: "GapJunctions(AutoNCP(9, 3), 2)"}
learning_rate: lin_3e-3
""",
    "based_on: halfcheetah-novel\nn_timesteps: 100000\npolicy_kwargs: &them {cell: cfc}\nmore: *them\n",
)
BOMB = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(['*' + before] * 9)}], {name}: 1}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
WRONG_YAML = (
    BOMB, MERGES, "a: &a [*a]", "a: &a {b: *a}", "[" * 600, "a: " * 400, "a: 2001-99-99", "a: !!timestamp x",
    "a: !!binary x", "a: " + "9" * 5000, "a: .nan", "? [1]\n: 2", "1: 2", "a: {1: 2}", "a: !!set {b, c}",
    "a: !!python/name:os.system", "env: 5", "algo: [PPO]", "n_timesteps: .inf", "policy: {}", "normalize: 3",
    "based_on: 7", "based_on: [a]", "policy_kwargs: {features_extractor_kwargs: 3}",
    "policy_kwargs: {activation_fn: [1]}",
    "\ud800", "\x00",
)  # fmt: skip


def read_recipe(path: Path) -> Any:
    """A recipe, all that is made of it before an environment is."""
    pytest.importorskip("sb3_contrib")
    from ncp_control.rl.recipes.recipe import load_recipe, policy_arguments

    try:
        recipe = load_recipe(path)
        policy_arguments(recipe.policy_kwargs)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error  # some are of a value, not of the file
    return recipe


def test_a_mutated_recipe(times: int, place: Path) -> None:
    def mutate(random: Random) -> bytes:
        text = random.choice(RECIPES)
        change = random.random()
        if change < 0.1:
            return (text + random.choice(WRONG_YAML)).encode("utf-8", "surrogatepass")
        if change < 0.2:
            return random.choice(WRONG_YAML).encode("utf-8", "surrogatepass")
        if change < 0.6:
            return yaml.safe_dump(altered(yaml.safe_load(text), random)).encode("utf-8", "surrogatepass")
        return damaged(text.encode(), random, random.choice(RECIPES).encode())

    def whole(recipe: Any) -> bool:
        return len(json.dumps(recipe.to_json())) < 10**6

    found = examine(300 * times, place / "mutated.yml", mutate, read_recipe, whole)
    assert min(found.values()) > 0


# What a run is resumed from


def test_a_mutated_record(times: int, place: Path) -> None:
    """`run.json` of a run, `plan.json` of a collection, `result.json` of a comparison's fit."""
    from ncp_control.data.collection import RECORD as PLAN
    from ncp_control.data.collection import Plan, path_of, prepare
    from ncp_control.dynamics.comparison import read_result
    from ncp_control.storage.run_folder import RECORD, prepare_run

    folder = place / "records"
    about = {"recipe": {"env": "x", "n_timesteps": 5}, "seed": 1, "threads": 1, "data": [1, 2]}
    plan = Plan('{"id": "x"}', 3, 0.05, 1, 2, "random", None, True)
    prepare_run(folder, about, False).release()
    collected = place / "collected"
    prepare(collected, plan, False).release()
    path_of(collected, 0).write_bytes(b"")
    result = {"error": 0.5, "parameters": 7, "seconds": 1.5, "best_epoch": 1, "trouble": ""}
    (folder / "result.json").write_text(json.dumps(result))

    def resume(path: Path) -> None:
        whole = path.read_bytes()
        with prepare_run(folder, about, True):
            assert {key: json.loads(whole)[key] for key in about} == about

    def plan_again(path: Path) -> None:
        prepare(collected, plan, True).release()

    readers: dict[Path, Callable[[Path], Any]] = {
        folder / RECORD: resume, collected / PLAN: plan_again, folder / "result.json": read_result,
    }  # fmt: skip
    for path, read in readers.items():
        whole = path.read_bytes()

        def mutate(random: Random, whole: bytes = whole) -> bytes:
            if random.random() < 0.5:
                return json_text(altered(json.loads(whole), random), random).encode("utf-8", "replace")
            return damaged(whole, random, whole)

        def named(path: Path, read: Callable[[Path], Any] = read) -> Any:
            try:
                return read(path)
            except ValueError as error:  # a record of something else: the folder is what is named
                raise ValueError(str(error).replace(str(path.parent), path.name)) from error

        found = examine(250 * times, path, mutate, named, lambda one: one is None or isinstance(one, dict))
        assert min(found.values()) > 0


def test_a_mutated_state_of_a_fit(times: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gymnasium")
    from helpers.oscillators import oscillators

    from ncp_control.data import Windows
    from ncp_control.dynamics import DynamicsModel, FitSettings, fit, fitting
    from ncp_control.support.progress import Tracker

    monkeypatch.setattr(fitting, "make_board", lambda folder: None)
    parts = oscillators(steps=20).split()
    settings = FitSettings(epochs=1, length=8, average=0.9).of_cell("gru")
    out = place / "fit"
    fit(DynamicsModel.of(parts.train, "gru", 3), parts, settings, out=out, device="cpu", progress=False)
    content = (out / fitting.STATE).read_bytes()

    def read(path: Path) -> Any:
        train, valid = (Windows(part, 8, 10) for part in (parts.train, parts.valid))
        model = DynamicsModel.of(parts.train, "gru", 3)
        return fitting.Fit(model, train, valid, settings, 0, out, {}, Tracker("", 1, 0, "steps"))

    def whole(found: Any) -> bool:
        found.epoch(1)  # goes on
        return all(isinstance(value, float) for pair in found.fitted.curve for value in pair)

    def mutate(random: Random) -> bytes:
        return damaged(content, random, content) if random.random() < 0.3 else forged(content, ("state",), random)

    found = examine(80 * times, out / fitting.STATE, mutate, read, whole)
    assert min(found.values()) > 0


def test_a_mutated_state_of_a_training(times: int, place: Path) -> None:
    pytest.importorskip("sb3_contrib")
    import gymnasium as gym
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from ncp_control.rl import RecurrentSAC
    from ncp_control.rl.files.run_state import load_state, read_about, save_state

    path = place / "state.safetensors"
    envs: Any = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    model = RecurrentSAC(
        "NCPPolicy", envs, learning_starts=4, batch_size=4, sequence=2, burn_in=1, buffer_size=12, seed=0, device="cpu",
        policy_kwargs={"wiring": 4, "net_arch": [3]},
    )  # fmt: skip
    model.learn(8)
    save_state(model, path, {"curve": [[8, 1.0, 0.5]], "best": [8, 1.0], "seconds": 1.0, "judged": 1, "steps": 8})
    content = path.read_bytes()

    def read(path: Path) -> Any:
        load_state(model, path)
        return read_about(path)

    def mutate(random: Random) -> bytes:
        return (
            damaged(content, random, content) if random.random() < 0.3 else forged(content, ("state", "about"), random)
        )

    def whole(about: Any) -> bool:
        return isinstance(about, dict) and 0 <= model.replay_buffer.pos < 12

    found = examine(60 * times, path, mutate, read, whole)
    assert min(found.values()) > 0


# Minari datasets


@pytest.fixture(scope="module")
def dataset(place: Path) -> Path:
    """A small dataset of ours."""
    pytest.importorskip("minari")
    import gymnasium as gym

    from ncp_control.data import collect
    from ncp_control.data.minari_files import write_minari

    spec = gym.make("Pendulum-v1", max_episode_steps=4).spec
    assert spec is not None
    rollouts = collect("random", spec, 2, progress=False)
    write_minari(rollouts, "small-v0", place / "small", spec, dict(rollouts.about))
    return place / "small"


def examine_dataset(folder: Path, count: int, mutate: Callable[[Random], bytes]) -> dict[str, int]:
    """Of a dataset's arrays, in a process of their own: HDF5 is C, and what goes wrong in C takes the process along."""
    from ncp_control.data import Rollouts

    main = folder / "data" / "main_data.hdf5"
    whole = main.read_bytes()
    try:
        found: dict[str, int] = in_child(
            lambda: examine(count, main, mutate, lambda path: Rollouts.load(folder), fine, folder.name), folder.parent
        )
    finally:
        main.write_bytes(whole)
    return found


def test_damaged_arrays_of_a_dataset(times: int, dataset: Path) -> None:
    """Ours have a checksum: what is read is what was written."""
    content = (dataset / "data" / "main_data.hdf5").read_bytes()
    found = examine_dataset(dataset, 250 * times, lambda random: damaged(content, random, content))
    assert found["refused"] > 220 * times


def test_damaged_arrays_of_somebody_elses_dataset(times: int, dataset: Path) -> None:
    """Without one: what is read is whole."""
    description = dataset / "data" / "metadata.json"
    before = description.read_text()
    content = (dataset / "data" / "main_data.hdf5").read_bytes()
    metadata = json.loads(before)
    del metadata["ncp_control"]
    description.write_text(json.dumps(metadata))
    try:
        found = examine_dataset(dataset, 120 * times, lambda random: damaged(content, random, content))
    finally:
        description.write_text(before)
    assert min(found.values()) > 0


def test_a_mutated_description_of_a_dataset(times: int, dataset: Path) -> None:
    from ncp_control.data import Rollouts

    path = dataset / "data" / "metadata.json"
    before = path.read_bytes()
    whole = Rollouts.load(dataset)

    def mutate(random: Random) -> bytes:
        if random.random() < 0.7:
            return json_text(altered(json.loads(before), random), random).encode("utf-8", "replace")
        return damaged(before, random, before)

    def same(found: Any) -> bool:
        return all(alike(content_of(one), content_of(own)) for one, own in zip(found, whole, strict=False))

    try:
        found = examine(120 * times, path, mutate, lambda path: Rollouts.load(dataset), same, dataset.name)
    finally:
        path.write_bytes(before)
    assert min(found.values()) > 0
