"""Training from recipes: a run that was stopped continues exactly, and its folder has all that is needed to use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv
from stable_baselines3.common.callbacks import BaseCallback

from helpers.gates import Gate
from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.base.kinds import RECORD
from ncp_control.base.tensors import CheckpointError
from ncp_control.cli import main
from ncp_control.rl import load_policy
from ncp_control.rl.files.run_state import read_about
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import POLICIES, Schedule, train
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, LAST, STATE


def tensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def same(one: Path, other: Path) -> None:
    """Both runs have the same weights, optimizers, statistics and evaluations."""
    assert (one / CURVE).read_text() == (other / CURVE).read_text()
    kept = [sorted(path.relative_to(run) for path in (run / POLICIES).iterdir()) for run in (one, other)]
    assert kept[0] == kept[1]
    for name in (STATE, BEST, LAST, *kept[0]):
        ours, theirs = tensors(one / name), tensors(other / name)
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert torch.equal(value, theirs[key]), (name, key)


class Stopped(Exception):
    """Stands for a power cut."""


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "stop"),
    [
        ("ppo", "between"),
        ("teacher", "between"),
        pytest.param("sac", "between", marks=pytest.mark.slow),
        pytest.param("mlp", "between", marks=pytest.mark.slow),
        pytest.param("ppo", "at once", marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_ends_as_an_uninterrupted_one(name: str, stop: str, tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES[name]))
    train(recipe, tmp_path / "whole", seed=3, **QUIET)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if stop == "at once" or self.num_timesteps >= 0.7 * recipe.n_timesteps:
                raise Stopped

    with pytest.raises(Stopped):
        train(recipe, tmp_path / "parts", seed=3, callbacks=[Stop()], **QUIET)
    assert (tmp_path / "parts" / STATE).exists() == (stop == "between")
    result = train(recipe, tmp_path / "parts", seed=3, resume=True, **QUIET)
    assert result.steps >= recipe.n_timesteps
    same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.gpu
def test_a_run_on_a_gpu_goes_on_after_a_resume(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["ppo"]))

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            if self.num_timesteps >= 0.7 * recipe.n_timesteps:
                raise Stopped

    with pytest.raises(Stopped):
        train(recipe, tmp_path / "run", callbacks=[Stop()], device="cuda", **QUIET)
    assert train(recipe, tmp_path / "run", resume=True, device="cuda", **QUIET).steps >= recipe.n_timesteps


@pytest.mark.system
def test_a_run_of_version_0_1_that_names_no_cell_goes_on_as_the_ltc_that_it_was(tmp_path: Path) -> None:
    file = recipe_file(tmp_path)
    named = load_recipe(file, {"policy_kwargs.cell": "ltc"})
    train(named, tmp_path / "whole", seed=3, **QUIET)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 300:
                raise Stopped
            return True

    out = tmp_path / "parts"
    with pytest.raises(Stopped):
        train(named, out, seed=3, callbacks=[Stop()], **QUIET)
    record = json.loads((out / RECORD).read_text())
    del record["recipe"]["policy_kwargs"]["cell"]
    record["versions"]["ncp-control"] = "0.1.0"
    (out / RECORD).write_text(json.dumps(record))
    train(load_recipe(file), out, seed=3, resume=True, **QUIET)
    same(tmp_path / "whole", out)


@pytest.mark.system
@pytest.mark.timeout(600)
def test_a_killed_run_has_a_checkpoint_and_keeps_to_its_settings(tmp_path: Path) -> None:
    """kill -9, by the command line."""
    recipe, out, gate = recipe_file(tmp_path), tmp_path / "run", Gate(tmp_path / "gate", STATE)
    words = ["train", str(recipe), "--seed", "1", "--eval-episodes", "1", "--checkpoint-every", "128"]
    process = gate.start([*words, "--out", str(out)])
    assert gate.wait_for() == [process.pid]
    process.kill()
    process.communicate()
    assert read_about(out / STATE)["steps"] == 128
    kept = json.loads((out / RECORD).read_text())
    assert kept["seed"] == 1
    with pytest.raises(FileExistsError, match="holds a run already: resume it"):
        train(load_recipe(recipe), out, **QUIET)
    with pytest.raises(ValueError, match=r"another eval_episodes and seed: .*seed: 1 there, 2 here"):
        train(load_recipe(recipe), out, seed=2, resume=True, eval_every=25, checkpoint_every=128, progress=False)


@pytest.mark.system
@pytest.mark.parametrize("name", RECIPES)
def test_the_files_of_a_run_can_be_evaluated_and_described(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_file(tmp_path, RECIPES[name])
    assert (
        main(
            [
                "train",
                str(recipe),
                "--out",
                str(tmp_path / "run"),
                "--eval-episodes",
                "2",
                "--eval-every",
                "200",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["steps"] >= load_recipe(recipe).n_timesteps
    rows = np.genfromtxt(tmp_path / "run" / CURVE, delimiter=",", names=True)
    assert found["best_return"] == rows["mean_return"].max()
    assert load_policy(tmp_path / "run" / BEST).note["steps"] == found["best_steps"]
    assert len(list((tmp_path / "run" / "board").iterdir())) == 1
    assert main(["evaluate", str(tmp_path / "run" / BEST), "--episodes", "2", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["env"] == load_recipe(recipe).env
    assert main(["describe", str(tmp_path / "run"), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["run"]
    assert (run["kind"], run["unit"], run["of"]) == ("training of an agent", "steps", load_recipe(recipe).n_timesteps)
    assert run["done"] == np.atleast_1d(rows["steps"])[-1]
    assert f"{found['best_return']:,.1f}" in run["best"]


def test_wrong_arguments_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for words, sentence in (
        (("--device", "tpu"), "there is no device 'tpu': choose cpu, cuda or auto"),
        (("--threads", "0"), "threads must be at least 1, got 0"),
        (("--eval-every", "0"), "eval_every must be at least 1, got 0"),
        (("--eval-episodes", "0"), "eval_episodes must be at least 1, got 0"),
        (("--checkpoint-every", "0"), "checkpoint_every must be at least 1, got 0"),
        (("--watch", "0"), "every and steps must be at least 1"),
    ):
        assert main(["train", "pendulum-positions", "--out", str(out), *words]) == 2
        assert sentence in capsys.readouterr().err
        assert not out.exists()
    assert main(["train", "pendlum-positions"]) == 2
    assert "did you mean pendulum-positions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "eval_every", "checkpoint_every"), [(10, 1, 10_000), (1000, 50, 10_000), (10**6, 50_000, 100_000)]
)
def test_a_schedule_follows_from_the_length_of_the_training(steps: int, eval_every: int, checkpoint_every: int) -> None:
    recipe = Recipe("Pendulum-v1", "PPO", steps)
    assert Schedule.of(recipe, None, 8, None) == Schedule(eval_every, 8, checkpoint_every)
    assert Schedule.of(recipe, 3, 1, 5) == Schedule(3, 1, 5)


class Drawing(PendulumEnv):
    """A pendulum that draws from NumPy's global generator, as environments that know no seeds do."""

    def reset(self, **options: Any) -> Any:
        super().reset(**options)
        self.state = np.random.uniform(-1, 1, 2)
        return self._get_obs(), {}


def test_evaluations_do_not_change_what_a_training_draws(tmp_path: Path) -> None:
    gym.register("Drawing-v0", Drawing, max_episode_steps=20)
    recipe = Recipe("Drawing-v0", "PPO", 128, policy="MlpPolicy", settings={"n_steps": 32, "batch_size": 16})
    for name, eval_every in (("often", 32), ("once", 10**6)):
        train(recipe, tmp_path / name, **QUIET | {"eval_every": eval_every})
    often, once = (tensors(tmp_path / name / STATE) for name in ("often", "once"))
    assert often.keys() == once.keys()
    assert all(torch.equal(value, once[key]) for key, value in often.items())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env_kwargs.g", "abc"),
        ("gamma", "x"),
        ("n_envs", "1000000000"),
        ("policy_kwargs.cell", "x"),
        ("n_step", "1"),
        ("also_evaluate.noisy", "[Nonsense]"),
    ],
)
def test_a_recipe_that_is_refused_leaves_no_folder(key: str, value: str, tmp_path: Path) -> None:
    words = ["train", str(recipe_file(tmp_path)), "--out", str(tmp_path / "run"), "--steps", "64"]
    assert main([*words, "--set", f"{key}={value}"]) == 2
    assert not (tmp_path / "run").exists()


class Fails(BaseCallback):
    def _on_step(self) -> bool:
        raise Stopped


def test_a_run_without_a_result_does_not_refuse_the_corrected_recipe(tmp_path: Path) -> None:
    path = recipe_file(tmp_path)
    with pytest.raises(Stopped):
        train(load_recipe(path), tmp_path / "run", callbacks=[Fails()], **QUIET)
    assert (tmp_path / "run" / RECORD).exists()
    assert train(load_recipe(path, {"gamma": 0.5, "n_timesteps": 64}), tmp_path / "run", **QUIET).steps == 64
    assert json.loads((tmp_path / "run" / RECORD).read_text())["recipe"]["gamma"] == 0.5
    with pytest.raises(FileExistsError, match="holds a run already"):
        train(load_recipe(path), tmp_path / "run", **QUIET)


@pytest.mark.system
@pytest.mark.parametrize("name", RECIPES)
def test_a_training_whose_weights_become_nan_says_so(name: str, tmp_path: Path) -> None:
    """A policy is kept from before, and none with such weights is written."""
    recipe = load_recipe(
        recipe_file(tmp_path, RECIPES[name]), {"max_grad_norm": 1e30} if name in ("ppo", "mlp") else {}
    )

    class Ruin(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 100 and self.model.lr_schedule(1.0) < 1:
                self.model.lr_schedule = lambda left: 1e30
            return True

    quiet = {**QUIET, "eval_every": 64}
    with pytest.raises(ValueError, match=r"NaN or infinite after step [\d,]+: the learning rate .* best.safetensors"):
        train(recipe, tmp_path / "run", callbacks=[Ruin()], **quiet)
    for file in (BEST, LAST, STATE):
        assert all(torch.isfinite(value).all() for value in tensors(tmp_path / "run" / file).values())


def test_a_damaged_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path), {"n_timesteps": 128})
    train(recipe, tmp_path / "run", **QUIET)
    state = tmp_path / "run" / STATE
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        train(recipe, tmp_path / "run", resume=True, **QUIET)


@pytest.mark.system
def test_a_run_keeps_the_policy_of_each_evaluation_with_its_return(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["teacher"]))
    result = train(recipe, tmp_path / "run", **QUIET | {"eval_every": 80})
    assert [step for step, *_ in result.curve] == [80, 160, 240]
    for step, mean, _ in result.curve:
        policy = load_policy(tmp_path / "run" / POLICIES / f"{step:09d}.safetensors")
        assert (policy.note["steps"], policy.note["return"]) == (step, mean)
    last = tensors(tmp_path / "run" / LAST)
    for key, value in tensors(tmp_path / "run" / POLICIES / "000000240.safetensors").items():
        assert torch.equal(value, last[key])


@pytest.mark.system
def test_a_run_is_also_evaluated_in_the_other_environments_that_its_recipe_names(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, RECIPES["teacher"]))
    result = train(recipe, tmp_path / "run", **QUIET | {"eval_every": 80})
    rows = np.genfromtxt(tmp_path / "run" / CURVE, delimiter=",", names=True)
    assert rows.dtype.names == (
        "steps", "mean_return", "std_return", "undisturbed_mean_return", "undisturbed_std_return",
    )  # fmt: skip
    assert [tuple(row) for row in rows] == [
        (*point, *also) for point, also in zip(result.curve, result.also["undisturbed"], strict=True)
    ]
    assert np.all(rows["mean_return"] != rows["undisturbed_mean_return"])
    # The undisturbed evaluation is that of a recipe without the wrapper.
    alone = load_recipe(recipe_file(tmp_path, RECIPES["teacher"]), {"also_evaluate": {}})
    again = train(alone, tmp_path / "alone", **QUIET | {"eval_every": 80})
    assert again.curve == result.curve
    assert (tmp_path / "alone" / CURVE).read_text().startswith("steps,mean_return,std_return\n")


def test_the_last_evaluation_is_there_when_callbacks_end(tmp_path: Path) -> None:
    """Such as the one that draws the page of --watch."""
    written: list[str] = []

    class Reads(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            written.append((tmp_path / "run" / CURVE).read_text())

    recipe = load_recipe(recipe_file(tmp_path, RECIPES["ppo"]))
    # after 512 steps none is due
    train(recipe, tmp_path / "run", callbacks=[Reads()], **QUIET | {"eval_every": 300})
    assert written == [(tmp_path / "run" / CURVE).read_text()]
