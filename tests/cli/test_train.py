"""`ncp-control train`: environments without a recipe, recipes to copy, and what the next commands make of the agent."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

from helpers.command_line import printed, refused
from ncp_control.cli import main
from ncp_control.data import Rollouts
from ncp_control.dynamics import DynamicsModel, save_model
from ncp_control.rl import load_policy
from ncp_control.rl.recipes.recipe import DEFAULTS, load_recipe, shipped

CART = '''
import gymnasium as gym
import numpy as np


class Cart(gym.Env):
    """A cart on a spring, of which the position is seen."""

    observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    observation_names, action_names = ("place",), ("push",)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed, self.steps = self.np_random.uniform(-1, 1), 0.0, 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.speed += 0.05 * (3 * float(action[0]) - 2 * self.place)
        self.place += 0.05 * self.speed
        self.steps += 1
        return np.array([self.place], np.float32), -self.place**2, False, self.steps >= 20, {}
'''
SHORT = ["--steps", "128", "--set", "n_envs=2", "n_steps=32", "batch_size=64", "n_epochs=1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with a user's own file in it."""
    (tmp_path / "springcart.py").write_text(CART)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    gym.registry.pop("springcart/Cart", None)
    sys.modules.pop("springcart", None)


def test_an_agent_learns_in_a_class_of_ones_own_and_every_command_goes_on_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--env", "springcart:Cart"]
    assert main(["train", *words, *SHORT, "--cell", "cfc", "--wiring", "AutoNCP(9, 3)", "--seed", "2"]) == 0
    agent = "runs/cart-s2/best.safetensors"
    assert f"see it act:  ncp-control evaluate {agent} --env springcart:Cart" in capsys.readouterr().out
    policy = load_policy(agent)
    cell = policy.policy.lstm_actor.cell
    assert (policy.note["env"], type(cell).__name__, cell.wiring.units) == ("springcart:Cart", "CfC", 9)
    line = refused(capsys, "evaluate", agent)
    assert "if importing springcart is safe, add --env springcart:Cart" in line
    assert main(["evaluate", agent, *words, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_length"] == 20
    assert "if importing springcart is safe" in refused(capsys, "collect", "--policy", agent, "--out", "./cart-v0")
    assert main(["collect", "--policy", agent, *words, "--episodes", "2", "--out", "./cart-v0"]) == 0
    assert Rollouts.load(folder / "cart-v0").steps == 40
    capsys.readouterr()
    assert "1 number a step" in printed(capsys, "describe", "cart-v0")
    capsys.readouterr()
    assert "push" not in printed(capsys, "audit", agent, "--attack", "0")
    certificate = printed(capsys, "audit", agent, *words, "--attack", "0")
    assert certificate.startswith("agent         cart-s2 (SHA-256 ")
    assert "\npush " in certificate
    assert "\nplace " in certificate
    assert "there is no environment" in refused(capsys, "audit", agent, "--env", "springcart:Cat")
    assert main(["export", agent, *words, "--to", "pt2", "--out", "robot", "--steps", "10"]) == 0
    assert "The action: 1 number\n   0  push    -1 to 1\n" in (folder / "robot" / "README.txt").read_text()
    distilling = ["--steps", "1000", "--eval-episodes", "2", "--batches", "2", "--out", "student"]
    assert main(["distil", agent, *words, *distilling]) == 0


def test_a_model_is_evaluated_beside_the_environment_that_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "springcart.py").write_text(CART.replace("self.steps >= 20", "self.steps >= 60"))
    words = ["--env", "springcart:Cart"]
    assert main(["collect", *words, "--episodes", "2", "--out", "./cart-v0"]) == 0
    gym.registry.pop("springcart/Cart")
    model = DynamicsModel.of(Rollouts.load("cart-v0"), "gru", 4, reads="observations+actions")
    save_model(model, "model.safetensors")
    evaluating = ["evaluate", "model.safetensors", "--data", "cart-v0"]
    capsys.readouterr()
    assert main(evaluating) == 0
    assert "not known: springcart/Cart is not registered here" in capsys.readouterr().out
    assert main([*evaluating, *words]) == 0
    assert "not known: springcart/Cart is not simulated by MuJoCo" in capsys.readouterr().out


def test_classes_of_the_same_name_in_two_modules_are_two_environments(folder: Path) -> None:
    from ncp_control.rl.recipes.env_making import make_env

    (folder / "other.py").write_text(CART.replace("self.steps >= 20", "self.steps >= 5"))
    for name, steps in (("springcart:Cart", 20), ("other:Cart", 5), ("springcart:Cart", 20)):
        env = make_env(name)
        env.reset(seed=0)
        assert sum(not env.step(env.action_space.sample())[3] for _ in range(steps)) == steps - 1
    gym.registry.pop("other/Cart")


@pytest.mark.parametrize("name", shipped())
def test_a_recipe_that_is_shown_can_be_trained(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "train", "show", name, "--set", "gamma=0.9")
    assert text.startswith("# ")
    (tmp_path / "own.yml").write_text(text)
    named = {"env": "CartPole-v1"} if name in DEFAULTS.values() else {}
    assert load_recipe(tmp_path / "own.yml", named) == load_recipe(name, {"gamma": 0.9, **named})


def test_the_words_of_the_command_are_changes_of_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--env",
        "Hopper-v5",
        "--cell",
        "lstm",
        "--wiring",
        "7",
        "--steps",
        "99",
        "--set",
        "policy_kwargs.cell=gru",
    )
    (tmp_path / "own.yml").write_text(printed(capsys, "train", "show", *words))
    recipe = load_recipe(tmp_path / "own.yml")
    assert (recipe.env, recipe.n_timesteps, recipe.algo) == ("Hopper-v5", 99, "RecurrentPPO")
    assert recipe.policy_kwargs["wiring"] == 7
    assert recipe.policy_kwargs["cell"] == "gru"  # --set comes after the options
    for algo, name in DEFAULTS.items():
        (tmp_path / "own.yml").write_text(printed(capsys, "train", "show", "--env", "Hopper-v5", "--algo", algo))
        assert load_recipe(tmp_path / "own.yml") == load_recipe(name, {"env": "Hopper-v5"})


def test_trainings_that_cannot_begin_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there are no settings of TQC for any environment: choose RecurrentPPO, " in refused(
        capsys, "train", "--env", "Hopper-v5", "--algo", "TQC"
    )
    assert "train takes one recipe, and got 2: recall, tmaze" in refused(capsys, "train", "recall", "tmaze")
    assert "there is no module 'nowhere'" in refused(capsys, "train", "--env", "nowhere:Cart")
    line = refused(capsys, "train", "--env", "springcart:Crat")
    assert "importing springcart registers no Crat, and it has no class Crat that is a gymnasium.Env" in line
    assert "name one, such as --env" in refused(capsys, "train", "default-sac")
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["springcart.py"]


def test_a_former_spelling_of_an_option_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "pole-v0")
    assert main(["collect", "--env", "CartPole-v1", "--rollouts=2", "--out", out]) == 0
    assert "--rollouts is now --episodes; the old name will go with 0.3\n" in capsys.readouterr().err
    assert len(Rollouts.load(out)) == 2
