"""A training with its environments in worker processes gives the files of one process, and ends without leftovers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from stable_baselines3.common.callbacks import BaseCallback

from helpers.busy_environment import BUSY, FAULTY
from helpers.children import Child
from helpers.gates import Gate, heed
from helpers.long_commands import same_training
from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.base.run_folder import RECORD
from ncp_control.cli import main
from ncp_control.rl.recipes.recipe import load_recipe
from ncp_control.rl.training import STATE, train

BUSY_RECIPE = """
env: {env}
env_kwargs: {{{kwargs}}}
algo: PPO
n_timesteps: {steps}
n_envs: 4
policy: MlpPolicy
policy_kwargs: {{net_arch: [4]}}
n_steps: 16
batch_size: 32
n_epochs: 1
"""


class Stopped(Exception):
    """Stands for a power cut."""


class Stop(BaseCallback):
    """Ends a training after its first checkpoints."""

    def _on_step(self) -> bool:
        if self.num_timesteps >= 0.6 * self.model._total_timesteps:
            raise Stopped
        return True


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in RECIPES if name != "mlp")]
)
def test_a_training_is_the_same_wherever_its_environments_are(name: str, tmp_path: Path) -> None:
    """Among the recipes are one with action noise and another evaluation, and a normalised one with a memory."""
    recipe = load_recipe(recipe_file(tmp_path, RECIPES[name]))
    one = train(recipe, tmp_path / "one", seed=3, **QUIET)
    several = train(recipe, tmp_path / "several", seed=3, vec="processes=2", **QUIET)
    same_training(tmp_path / "one", tmp_path / "several")
    assert (one.curve, one.also) == (several.curve, several.also)
    assert (tmp_path / "one" / RECORD).read_text() == (tmp_path / "several" / RECORD).read_text()


@pytest.mark.system
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("processes=2", "same"),
        pytest.param("same", "processes=2", marks=pytest.mark.slow),
        pytest.param("processes", "processes=1", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_goes_on_with_another_choice(first: str, then: str, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["teacher"]))
    train(recipe, tmp_path / "whole", seed=3, **QUIET)
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "parts", seed=3, vec=first, callbacks=[Stop()], **QUIET)
    assert (tmp_path / "parts" / STATE).exists()
    train(recipe, tmp_path / "parts", seed=3, vec=then, resume=True, **QUIET)
    same_training(tmp_path / "whole", tmp_path / "parts")


def test_masks_are_asked_for_in_the_workers(tmp_path: Path) -> None:
    import gymnasium as gym

    gym.register("StrictSix-v0", entry_point="helpers.masked_environments:StrictFive")
    text = "env: StrictSix-v0\nalgo: RecurrentPPO\nn_timesteps: 96\nn_envs: 3\nn_steps: 16\nbatch_size: 16\n"
    recipe = load_recipe(recipe_file(tmp_path, f"{text}policy_kwargs: {{wiring: 'AutoNCP(9, 3)'}}\n"))
    train(recipe, tmp_path / "one", **QUIET)  # a forbidden action raises an error
    train(recipe, tmp_path / "several", vec="processes=2", **QUIET)
    same_training(tmp_path / "one", tmp_path / "several")
    gym.registry.pop("StrictSix-v0")


def test_wrong_choices_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", str(recipe_file(tmp_path)), "--out", str(tmp_path / "run")]
    for vec, sentence in (("subproc", "there is no vec 'subproc': choose same"), ("processes=0", "not '0'")):
        assert main([*words, "--vec", vec]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.system
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("raises", "in a worker process: ZeroDivisionError: the pendulum has no mass"),
        pytest.param("dies", "ended by SIGKILL, perhaps because memory ran out", marks=pytest.mark.system),
    ],
)
@pytest.mark.parametrize("at", [1, 9])
def test_a_fault_of_an_environment_is_one_line(
    fault: str, sentence: str, at: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its first step, before anything is written, and later."""
    text = BUSY_RECIPE.format(env=FAULTY, kwargs=f"fault: {fault}, at: {at}", steps=256)
    words = ["train", str(recipe_file(tmp_path, text)), "--out", str(tmp_path / "run"), "--vec", "processes=2"]
    assert main(words) == 2
    lines = capfd.readouterr().err.splitlines()
    assert sentence in lines[-1]
    assert lines[-1].startswith("ncp-control: ")
    assert not any("Traceback" in line for line in lines)
    assert (tmp_path / "run").exists() == (at > 1)


def standing(folder: Path) -> tuple[Child, Gate]:
    """Starts a training in worker processes, in a process group of its own, which stops at its second checkpoint."""
    text = BUSY_RECIPE.format(env=BUSY, kwargs="", steps=512)
    words = ["train", str(recipe_file(folder, text)), "--out", str(folder / "run"), "--vec", "processes=2"]
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
    assert "interrupted at step" in ended.output
    assert "Traceback" not in ended.output
    child.wait_for_group()


@pytest.mark.system
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    child, _ = standing(tmp_path)
    assert len(children_of(child.process)) == 4  # two for the training, two for the evaluations
    os.kill(child.process, how)
    assert child.wait().code == -how
    child.wait_for_group()


@pytest.mark.system
def test_a_killed_worker_ends_the_training_with_one_line(tmp_path: Path) -> None:
    child, gate = standing(tmp_path)
    os.kill(children_of(child.process)[0], signal.SIGKILL)
    gate.open()
    ended = child.wait()
    assert (ended.code, ended.value) == (0, 2), ended.output
    assert "Traceback" not in ended.output
    assert ended.output.splitlines()[-1] == (
        "ncp-control: the worker process with environments 0 and 1 was ended by SIGKILL, perhaps because memory ran out"
    )
    child.wait_for_group()


def children_of(parent: int) -> list[int]:
    """The processes that a process has started, in this order."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
