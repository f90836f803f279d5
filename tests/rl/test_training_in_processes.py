"""A training with each environment in a process gives the files of one process, and ends without leftovers."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback

from helpers.children import Child
from helpers.gates import Gate, heed
from helpers.long_commands import same_training
from helpers.remembering_environment import REMEMBERING
from helpers.same_steps import assert_same
from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.base.kinds import RECORD
from ncp_control.cli import main
from ncp_control.rl.recipes.building import make_envs, random_actions
from ncp_control.rl.recipes.process_envs import ProcessVecEnv
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.runs.run import STATE

FAULTY, STRICT = "Faulty-v0", "StrictFive-v0"


class Faulty(gym.Env[Any, Any]):
    """Draws a walk, and goes wrong at a step of each episode in any process but that of the test.

    :param fault: what happens: "raises", "dies", "odd info"; empty for nothing
    :param at: the step
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fault: str = "", at: int = 9) -> None:
        self.fault, self.at = fault, at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.count = self.np_random.normal(size=3), 0
        return self.place, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.place = 0.9 * self.place + self.np_random.normal(size=3) + action[0]
        info: dict[str, Any] = {}
        if self.count == self.at and multiprocessing.parent_process() is not None:
            if self.fault == "raises":
                raise ZeroDivisionError("the pendulum has no mass")
            if self.fault == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "odd info":
                info["odd"] = lambda: self
        return self.place, -float(abs(self.place[0])), bool(abs(self.place[1]) > 4), self.count >= 20, info


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers the environments, and sees that no process is left."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder
    gym.register(FAULTY, entry_point=Faulty)
    gym.register(STRICT, entry_point="helpers.masked_environments:StrictFive")
    yield
    for name in (FAULTY, STRICT):
        gym.registry.pop(name)
    left = multiprocessing.active_children()
    for process in left:
        process.kill()
        process.join()
    assert not left


def faulty_recipe(folder: Path, fault: str = "", steps: int = 256) -> Path:
    text = (
        f"env: {FAULTY}\nenv_kwargs: {{fault: '{fault}'}}\nalgo: PPO\nn_timesteps: {steps}\nn_envs: 3\n"
        "policy: MlpPolicy\npolicy_kwargs: {net_arch: [4]}\nn_steps: 16\nbatch_size: 24\nn_epochs: 1\n"
    )
    return recipe_file(folder, text)


SIDE_BY_SIDE = {
    "float64": Recipe(FAULTY, "PPO", 9),
    "body": Recipe("ncp/HalfCheetahNoVel-v0", "PPO", 9, env_kwargs={"max_episode_steps": 9}, normalize=True),
    "elapsed": Recipe(
        "ncp/PendulumNoVel-v0", "RecurrentPPO", 9, env_kwargs={"max_episode_steps": 9}, normalize=True,
        env_wrapper=[{"IrregularTime": {"frames": [1, 3]}}],
    ),
    "masks": Recipe(STRICT, "RecurrentPPO", 9),
}  # fmt: skip


@pytest.mark.system
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_every_number_is_that_of_one_process(name: str) -> None:
    recipe = SIDE_BY_SIDE[name]
    one, several = make_envs(recipe, 3, True), make_envs(recipe, 3, True, in_processes=True)
    assert isinstance(several.unwrapped, ProcessVecEnv)
    assert one.observation_space == several.observation_space
    one.action_space.seed(1)
    one.seed(5)
    several.seed(5)
    assert_same(one.reset(), several.reset())
    ended = 0
    for _ in range(25):
        if name == "masks":
            assert_same(one.env_method("action_masks"), several.env_method("action_masks"))
        actions = random_actions(one)
        expected, found = one.step(actions), several.step(actions)
        assert_same(expected[:3], found[:3])
        for info, other in zip(expected[3], found[3], strict=True):
            assert info.keys() == other.keys()
            if "terminal_observation" in info:
                assert_same(info["terminal_observation"], other["terminal_observation"])
                assert info["TimeLimit.truncated"] == other["TimeLimit.truncated"]
        ended += int(found[2].sum())
    assert ended
    several.close()


def test_a_seed_reaches_generators_that_environments_share() -> None:
    recipe = Recipe(REMEMBERING, "PPO", 9, env_kwargs={"remembers": "numbers"})
    envs = make_envs(recipe, 2, True, in_processes=True)
    first, again, other = (observe(envs, seed) for seed in (4, 4, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])
    envs.close()


def observe(envs: Any, seed: int) -> Any:
    envs.seed(seed)
    return envs.reset()


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in RECIPES if name != "mlp")]
)
def test_a_training_is_the_same_wherever_its_environments_are(name: str, tmp_path: Path) -> None:
    """Among the recipes are one with action noise and another evaluation, and a normalised one with a memory."""
    recipe = load_recipe(recipe_file(tmp_path, RECIPES[name]))
    one = train(recipe, tmp_path / "one", seed=3, **QUIET)
    several = train(recipe, tmp_path / "several", seed=3, vec="processes", **QUIET)
    same_training(tmp_path / "one", tmp_path / "several")
    assert (one.curve, one.also) == (several.curve, several.also)
    assert (tmp_path / "one" / RECORD).read_text() == (tmp_path / "several" / RECORD).read_text()


def test_masks_are_asked_for_in_the_processes(tmp_path: Path) -> None:
    text = f"env: {STRICT}\nalgo: RecurrentPPO\nn_timesteps: 96\nn_envs: 3\nn_steps: 16\nbatch_size: 16\n"
    recipe = load_recipe(recipe_file(tmp_path, f"{text}policy_kwargs: {{wiring: 'AutoNCP(9, 3)'}}\n"))
    train(recipe, tmp_path / "one", **QUIET)  # a forbidden action raises an error
    train(recipe, tmp_path / "several", vec="processes", **QUIET)
    same_training(tmp_path / "one", tmp_path / "several")


class Stopped(Exception):
    """Stands for a power cut."""


class Stop(BaseCallback):
    """Ends a training after its first checkpoints."""

    def _on_step(self) -> bool:
        if self.num_timesteps >= 0.6 * self.model._total_timesteps:
            raise Stopped
        return True


@pytest.mark.system
@pytest.mark.parametrize(("first", "then"), [("processes", "same"), ("same", "processes")])
def test_a_stopped_run_goes_on_with_the_other_choice(first: str, then: str, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["teacher"]))
    train(recipe, tmp_path / "whole", seed=3, **QUIET)
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "parts", seed=3, vec=first, callbacks=[Stop()], **QUIET)
    assert (tmp_path / "parts" / STATE).exists()
    train(recipe, tmp_path / "parts", seed=3, vec=then, resume=True, **QUIET)
    same_training(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("vec", ["subproc", "processes=4", ""])
def test_other_choices_are_refused_before_anything_is_written(
    vec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(recipe_file(tmp_path)), "--out", str(tmp_path / "run"), "--vec", vec]
    assert main(words) == 2
    assert f"there is no vec {vec!r}: choose same or processes" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_does_not_fit_is_refused_with_the_same_sentence(tmp_path: Path) -> None:
    recipe, told = Recipe(FAULTY, "DQN", 9), []
    for in_processes in (False, True):
        with pytest.raises(ValueError, match=f"DQN does not give actions of .*, which {FAULTY} needs") as refused:
            make_envs(recipe, 2, True, in_processes)
        told.append(str(refused.value))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("raises", "environment [0-2], in a process of its own: ZeroDivisionError: the pendulum has no mass"),
        pytest.param(
            "dies", "the process of environment [0-2] was ended by SIGKILL, perhaps because memory ran out",
            marks=pytest.mark.system,
        ),
        pytest.param(
            "odd info", "the process of environment [0-2] ended with the exit code 1", marks=pytest.mark.system
        ),
    ],
)  # fmt: skip
def test_a_failure_in_a_process_ends_the_training_with_a_sentence(
    fault: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No process is left, as the fixture sees. What cannot be sent shows the process's own traceback before."""
    words = ["train", str(faulty_recipe(tmp_path, fault)), "--out", str(tmp_path / "run"), "--vec", "processes"]
    assert main(words) == 2
    lines = capfd.readouterr().err.splitlines()
    assert sum(re.fullmatch(f"ncp-control: {sentence}", line) is not None for line in lines) == 1
    assert any("Traceback" in line for line in lines) == (fault == "odd info")


def test_the_last_of_several_processes_may_die() -> None:
    """Processes that were forked earlier do not keep its pipe open for ever."""
    envs = make_envs(Recipe(FAULTY, "PPO", 9), 3, True, in_processes=True)
    envs.reset()
    workers: Any = envs.unwrapped
    workers.processes[2].kill()
    with pytest.raises(ChildProcessError, match="the process of environment 2 was ended by SIGKILL"):
        envs.env_method("get_wrapper_attr", "count")
    envs.close()
    envs.close()


def test_a_busy_process_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncp_control.rl.recipes.process_envs.PATIENCE", 0.0)
    monkeypatch.setattr(Faulty, "step", lambda *_: signal.pause())
    envs = make_envs(Recipe(FAULTY, "PPO", 9), 2, True, in_processes=True)
    envs.reset()
    envs.step_async(np.zeros((2, 1), np.float32))
    envs.close()
    assert not multiprocessing.active_children()


def standing(folder: Path) -> tuple[Child, Gate]:
    """Starts a training in processes, in a process group of its own, which stops at its second checkpoint."""
    words = ["train", str(faulty_recipe(folder, steps=512)), "--out", str(folder / "run"), "--vec", "processes"]
    gate = Gate(folder / "gate", STATE)

    def work() -> int:
        heed(gate.folder)
        return main([*words, "--checkpoint-every", "64"])

    child = Child(work, folder)
    assert gate.wait_for() == [child.process]
    return child, gate


@pytest.mark.system
def test_ctrl_c_ends_all_processes_without_a_traceback(tmp_path: Path) -> None:
    child, _ = standing(tmp_path)
    os.killpg(child.process, signal.SIGINT)  # as a terminal does
    ended = child.wait()
    assert (ended.code, ended.value) == (0, 130), ended.output
    assert "interrupted: --resume goes on from what is in" in ended.output
    assert "Traceback" not in ended.output
    child.wait_for_group()


@pytest.mark.system
def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    child, _ = standing(tmp_path)
    os.kill(child.process, signal.SIGKILL)
    assert child.wait().code == -signal.SIGKILL
    child.wait_for_group()
