"""Collecting rollouts: what is random, what is the same again, and what survives an interruption."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import EnvSpec
from stable_baselines3 import PPO

import ncp_control.data.episodes as episodes
from helpers.sign_environment import Sign
from ncp_control.cli import main
from ncp_control.data import Rollouts, collect
from ncp_control.data.collection import count_finished
from ncp_control.data.summary import binomial_interval, summarize
from ncp_control.storage import atomic_writes as files
from ncp_control.storage.run_folder import LOCK
from ncp_envs import History


def short(env: str = "Pendulum-v1", steps: int = 20) -> EnvSpec:
    spec = gym.make(env, max_episode_steps=steps).spec
    assert spec is not None
    return spec


def still(observations: Any) -> Any:
    """A policy that always gives the same action, which a random one never is."""
    return np.full((len(observations), 1), 0.125, dtype=np.float32)


PAUSE = 0.0  # a slower process has another, and the same function


def steering(observations: Any) -> Any:
    time.sleep(PAUSE)
    return np.clip(observations[:, 1:2], -2, 2)


def same(one: Rollouts, other: Rollouts) -> bool:
    """Equal bit for bit."""
    keys = ("observations", "actions", "rewards", "is_random")
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, key), getattr(b, key)) and a.seed == b.seed
        for a, b in zip(one, other, strict=True)
        for key in keys
    )


def test_overwritten_steps_are_those_that_are_flagged() -> None:
    rollouts = collect(still, short(), rollouts=3, random_action_fraction=0.3, progress=False)
    for rollout in rollouts:
        assert rollout.steps == 20
        assert np.array_equal((rollout.actions != np.float32(0.125))[:, 0], rollout.is_random)
    assert any(rollout.is_random.any() for rollout in rollouts)


def test_the_share_of_random_actions_is_the_wanted_one() -> None:
    rollouts = collect(still, short(steps=200), rollouts=40, random_action_fraction=0.05, progress=False)
    found = summarize(rollouts)["random_actions"]
    assert found["of"] == 8000
    assert found["low"] < 0.05 < found["high"]
    assert found["wanted"] == 0.05


@pytest.mark.parametrize(("fraction", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_none_and_all_random(fraction: float, share: float) -> None:
    rollouts = collect(still, short(), rollouts=2, random_action_fraction=fraction, progress=False)
    assert np.mean([rollout.is_random for rollout in rollouts]) == share


def test_the_interval_of_a_share() -> None:
    assert binomial_interval(5, 100) == pytest.approx((0.0215, 0.1118), abs=1e-4)  # Wilson's, from tables
    assert binomial_interval(0, 10)[0] == 0.0
    assert binomial_interval(10, 10)[1] == 1.0


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_change_nothing(workers: int) -> None:
    one, several = (
        collect(steering, short(), rollouts=7, seed=3, group=2, workers=count, progress=False) for count in (1, workers)
    )
    assert same(one, several)
    assert one.about == several.about


def test_the_seed_is_what_makes_the_result() -> None:
    one, again, other = (collect(steering, short(), 3, seed=seed, progress=False) for seed in (1, 1, 2))
    assert same(one, again)
    assert not any(np.array_equal(a.observations, b.observations) for a, b in zip(one, other, strict=True))
    assert len({rollout.seed for rollout in one}) == 3


def test_random_actions_do_not_depend_on_the_group() -> None:
    assert same(*(collect("random", short(), 5, group=group, progress=False) for group in (1, 5)))


def test_the_group_is_a_part_of_what_is_recorded() -> None:
    assert collect("random", short(), 2, group=2, progress=False).about["group"] == 2
    assert "a part of what makes the result" in (collect.__doc__ or "")


def test_collecting_leaves_torchs_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    collect(lambda seen: torch.randn(len(seen), 1).clamp(-2, 2).numpy(), short(), 2, progress=False)
    assert torch.equal(torch.rand(1), expected)


def test_a_sampling_policy_is_reproducible() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", device="cpu", seed=0)
    one, again = (collect(model, short(), 3, deterministic=False, progress=False) for _ in range(2))
    mode = collect(model, short(), 3, progress=False)
    assert same(one, again)
    assert not same(one, mode)
    assert one.about["controller"]["deterministic"] is False
    assert len(one.about["controller"]["sha256"]) == 64


class Counter:
    """A policy with memory: its action is how many steps it has seen since its episode began."""

    name = "counter"

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> tuple[Any, Any]:
        before = np.zeros(len(observation)) if state is None else state[0]
        now = np.where(episode_start, 0, before) + 1
        return (now[:, None] / 100).astype(np.float32), (now,)


def test_a_memory_is_carried_and_begins_anew_with_each_episode() -> None:
    rollouts = collect(Counter(), short(), rollouts=5, random_action_fraction=0.0, group=2, progress=False)
    expected = (np.arange(1, 21) / 100).astype(np.float32)
    assert all(np.array_equal(rollout.actions[:, 0], expected) for rollout in rollouts)


def test_a_policy_may_write_into_what_it_is_given() -> None:
    def careless(observations: Any) -> Any:
        observations *= 0
        return np.zeros(len(observations), dtype=np.int64)

    def careful(observations: Any) -> Any:
        return np.zeros(len(observations), dtype=np.int64)

    assert same(*(collect(policy, "CartPole-v1", 4, progress=False) for policy in (careless, careful)))


def test_episodes_of_different_length_do_not_disturb_each_other() -> None:
    def upright(observations: Any) -> Any:
        return (observations[:, 2] > 0).astype(np.int64)

    together = collect(upright, "CartPole-v1", 6, group=6, progress=False)
    alone = collect(upright, "CartPole-v1", 6, group=1, progress=False)
    assert same(together, alone)
    assert len({rollout.steps for rollout in together}) > 1
    assert all(rollout.terminated for rollout in together)


# Policies and environments that cannot be


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (lambda seen: np.zeros((3, 1)), r"actions of shape \(3, 1\) for 2 observations at step 0"),
        (lambda seen: np.zeros((2, 4)), r"they should be \(2, 1\)"),
        (lambda seen: np.zeros(2), r"they should be \(2, 1\)"),
        (lambda seen: np.full((2, 1), np.nan), "gave nan at step 0"),
        (lambda seen: np.array([["left"], ["right"]]), "gave left at step 0"),
        ("teacher", "unknown policy 'teacher'"),
    ],
)
def test_a_policy_that_gives_something_else_is_refused(policy: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        collect(policy, short(), 2, progress=False)


def test_a_choice_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gave 2 at step 0, which is no action of Discrete\(2\)"):
        collect(lambda seen: np.full(len(seen), 2), "CartPole-v1", 2, progress=False)
    with pytest.raises(ValueError, match="which is no action"):
        collect(lambda seen: np.full(len(seen), 0.5), "CartPole-v1", 2, progress=False)


def test_a_policy_of_another_environment_is_refused() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu")
    with pytest.raises(ValueError, match="the policy was made for observations in"):
        collect(model, short(), 2, progress=False)


def test_environments_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no environment 'HalfCheeta-v5'"):
        collect("random", "HalfCheeta-v5", 1, progress=False)
    with pytest.raises(ValueError, match=r"'nowhere:Thing-v0', for .* where nowhere\.py is, or set PYTHONPATH"):
        collect("random", "nowhere:Thing-v0", 1, progress=False)
    with pytest.raises(ValueError, match="flatten them first"):
        collect("random", History(gym.make("Pendulum-v1"), 3), 1, keep=tmp_path / "keep", progress=False)
    assert not (tmp_path / "keep").exists()


OWN = """
import gymnasium as gym
import numpy as np

class Walk(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left = self.np_random.normal(size=1).astype(np.float32), 5
        return self.place, {}

    def step(self, action):
        self.place, self.left = (self.place + action).astype(np.float32), self.left - 1
        return self.place, 1.0, self.left == 0, False, {}

gym.register("Walk-v0", entry_point=f"{__name__}:Walk")
"""


def test_an_environment_of_ones_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "walking.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    one, several = (collect("random", "walking:Walk-v0", 4, group=1, workers=k, progress=False) for k in (1, 2))
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    spawned = collect("random", "walking:Walk-v0", 4, group=1, workers=2, progress=False)
    assert same(one, several)
    assert same(one, spawned)
    assert one.about["env"] == "Walk-v0"
    assert one.steps == 20
    gym.registry.pop("Walk-v0")


def test_the_command_finds_a_module_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "strolling.py").write_text(OWN)
    words = ["collect", "--env", "strolling:Walk-v0", "--rollouts", "2", "--out", "./walk-v0"]
    code = f"import sys; from ncp_control.cli import main; sys.exit(main({words}))"
    # isolated, as an installed command is: the working folder is not where Python looks
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(Rollouts.load(tmp_path / "walk-v0")) == 2


def test_environments_that_cannot_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r'its entry_point cannot be written down: .* entry_point="module:Class"'):
        collect("random", "sign_environment:SignClass-v0", 2, progress=False)
    with pytest.raises(ValueError, match="its arguments cannot be written down"):
        collect("random", EnvSpec("A-v0", "sign_environment:Sign", kwargs={"x": np.zeros(2)}), 2, progress=False)
    with pytest.raises(ValueError, match=r"this Sign has no spec: register it and make it with gymnasium\.make"):
        collect("random", Sign(), 2, progress=False)
    with pytest.raises(TypeError, match="not what makes it: call it first"):
        collect("random", lambda: gym.make("Pendulum-v1"), 2, progress=False)  # type: ignore[arg-type]
    (tmp_path / "needy.py").write_text("import something_not_installed")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.raises(ValueError, match=r"needy, which has .* cannot be imported: No module named 'something_not"):
        collect("random", "needy:Thing-v0", 2, progress=False)
    with pytest.raises(ValueError, match="there is no environment 'sign_environment:Sing-v0'"):
        collect("random", "sign_environment:Sing-v0", 2, progress=False)


@pytest.mark.parametrize("wrong", [{"rollouts": 0}, {"workers": 0}, {"group": 0}, {"random_action_fraction": 1.5}])
def test_numbers_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|is a probability"):
        collect("random", short(), progress=False, **wrong)


# Interruptions

SLOW = """
import sys, time
import gymnasium as gym
import numpy as np
from ncp_control.data import collect

PAUSE = 0.01

def steering(observations):
    time.sleep(PAUSE)
    return np.clip(observations[:, 1:2], -2, 2)

spec = gym.make("Pendulum-v1", max_episode_steps=20).spec
collect(steering, spec, rollouts=12, seed=4, group=2, workers=int(sys.argv[2]), keep=sys.argv[1], progress=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are others elsewhere")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_collection_goes_on(tmp_path: Path, how: signal.Signals, workers: int) -> None:
    keep = tmp_path / "keep"
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(keep), str(workers)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # in the background a shell has it ignored
    )
    deadline = time.monotonic() + 60
    while count_finished(keep) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(how)
    assert process.wait(timeout=30) != 0
    time.sleep(0.5 if workers > 1 else 0)  # for orphans of a killed parent to notice
    finished = count_finished(keep)
    assert 4 <= finished < 12
    before = {path: path.stat().st_mtime_ns for path in keep.glob("rollout_*.npz")}
    resumed = collect(steering, short(), 12, seed=4, group=2, keep=keep, resume=True, progress=False)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert same(resumed, collect(steering, short(), 12, seed=4, group=2, progress=False))


def begun(folder: Path) -> None:
    """A collection of which one rollout is missing."""
    collect(steering, short(), 4, group=2, keep=folder, progress=False)
    (folder / "rollout_00003.npz").unlink()


def test_another_plan_does_not_go_on(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(ValueError, match="begun with another group and seed: use the same, or another folder"):
        collect(steering, short(), 4, seed=1, group=4, keep=tmp_path, resume=True, progress=False)
    with pytest.raises(ValueError, match="begun with another controller"):
        collect(still, short(), 4, group=2, keep=tmp_path, resume=True, progress=False)
    with pytest.raises(ValueError, match="begun with another deterministic"):
        collect(steering, short(), 4, group=2, deterministic=False, keep=tmp_path, resume=True, progress=False)


def test_another_function_does_not_go_on(tmp_path: Path) -> None:
    def pushing(force: float) -> Any:
        return lambda seen: np.full((len(seen), 1), force)

    class Pushing:
        def __call__(self, seen: Any) -> Any:
            return np.zeros((len(seen), 1))

    for one, other, words in (
        (pushing(0.0), pushing(1.0), "begun with another sha256"),
        (lambda seen: seen[:, :1] * 0, lambda seen: seen[:, :1] * 1, "begun with another sha256"),
        (Pushing(), Pushing(), "nobody can tell whether Pushing is the policy"),
    ):
        keep = tmp_path / str(id(one))
        collect(one, short(), 4, group=2, keep=keep, progress=False)
        (keep / "rollout_00003.npz").unlink()
        with pytest.raises(ValueError, match=words):
            collect(other, short(), 4, group=2, keep=keep, resume=True, progress=False)
    keep = tmp_path / "same"
    collect(pushing(0.5), short(), 4, group=2, keep=keep, progress=False)
    (keep / "rollout_00003.npz").unlink()
    assert len(collect(pushing(0.5), short(), 4, group=2, keep=keep, resume=True, progress=False)) == 4


def test_an_unfinished_collection_is_not_overwritten(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(FileExistsError, match="unfinished collection"):
        collect(steering, short(), 4, group=2, keep=tmp_path, progress=False)


def test_a_plan_without_rollouts_is_in_nobodys_way(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gave nan"):
        collect(lambda seen: np.full((len(seen), 1), np.nan), short(), 2, keep=tmp_path, progress=False)
    assert len(collect(steering, short(), 2, keep=tmp_path, progress=False)) == 2


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = 0

    def full(handle: int) -> None:
        nonlocal synced
        synced += 1
        if synced > 3:  # the plan and two rollouts
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            collect(steering, short(), 4, group=2, keep=tmp_path, progress=False)
    left = sorted(path.name for path in tmp_path.iterdir() if path.name != LOCK)
    assert left == ["plan.json", "rollout_00000.npz", "rollout_00001.npz"]
    resumed = collect(steering, short(), 4, group=2, keep=tmp_path, resume=True, progress=False)
    assert same(resumed, collect(steering, short(), 4, group=2, progress=False))


def test_a_worker_that_dies_is_noticed() -> None:
    def deadly(observations: Any) -> Any:
        os._exit(7)

    with pytest.raises(ChildProcessError, match="ended with code 7"):
        collect(deadly, short(), 4, group=2, workers=2, progress=False)


class Unsendable(Exception):
    """An error that another process cannot build again."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def test_an_error_in_a_worker_arrives() -> None:
    def failing(observations: Any) -> Any:
        raise Unsendable("this", "that")

    with pytest.raises(RuntimeError, match="Unsendable: this and that"):
        collect(failing, short(), 4, group=2, workers=2, progress=False)
    with pytest.raises(ValueError, match="gave nan"):
        collect(lambda seen: np.full((len(seen), 1), np.nan), short(), 4, group=2, workers=2, progress=False)


def test_every_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EVERY", 7)
    counts: list[tuple[int, int]] = []
    envs = [episodes.make(gym.spec("CartPole-v1")) for _ in range(3)]

    class Pushing:
        name, sha256 = "pushing", None

        def begin(self, seeds: Any) -> None:
            pass

        def act(self, observations: Any) -> Any:
            return np.zeros(len(observations), dtype=np.int64)

    from ncp_envs import RandomActionOverwrite

    wrapped: list[Any] = [RandomActionOverwrite(env, 0.0) for env in envs]
    found = dict(episodes.run_group(wrapped, Pushing(), [1, 2, 3], lambda *seen: counts.append(seen)))
    assert sum(steps for _, steps in counts) == sum(rollout.steps for rollout in found.values())


def test_a_dataset_in_a_folder_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["collect", "--env", "Pendulum-v1", "--rollouts", "2", "--out", "./kept/pendulum-v0"]) == 0
    assert len(Rollouts.load("./kept/pendulum-v0")) == 2
