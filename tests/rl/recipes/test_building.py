"""Environments and models are made as the recipe says, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.vec_env import VecNormalize

from helpers.small_recipes import PPO_RECIPE, recipe_file
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import Linear, load_recipe, read_changes, shipped
from ncp_control.wiring import AutoNCP


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_trains(name: str) -> None:
    recipe = load_recipe(name, {"n_envs": 2} if load_recipe(name).n_envs > 1 else {})
    if recipe.is_off_policy:
        recipe.settings |= {"learning_starts": 40, "buffer_size": 1000, "gradient_steps": 1, "train_freq": 8}
        steps = 80
    else:
        recipe.settings |= {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
        steps = 2 * 64 * recipe.n_envs
    envs = make_envs(recipe, recipe.n_envs, training=True)
    model = make_model(recipe, envs, seed=0, device="cpu")
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(steps)
    after = model.policy.state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)
    assert all(torch.isfinite(value).all() for value in after.values())
    envs.close()


def test_environments_and_models_are_as_the_recipe_says(tmp_path: Path) -> None:
    words = ["policy_kwargs.cell=cfc", "gamma=0.5", "n_epochs=7", "policy_kwargs.optimizer_kwargs.eps=1e-7"]
    recipe = load_recipe(recipe_file(tmp_path), read_changes(words))
    envs = make_envs(recipe, recipe.n_envs, training=True)
    assert isinstance(envs, VecNormalize)
    assert (envs.gamma, envs.num_envs) == (0.5, 2)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    assert (model.gamma, model.n_epochs, model.n_steps) == (0.5, 7, 32)
    assert model.policy.optimizer.defaults["eps"] == 1e-7
    assert model.learning_rate == Linear(3e-3)
    assert model.learning_rate(0.5) == 1.5e-3
    assert type(model.policy.lstm_actor.cell).__name__ == "CfC"
    assert model.policy.circuit_kwargs["wiring"] == AutoNCP(9, 3)
    evaluation_envs = make_envs(recipe, 1, training=False)
    assert isinstance(evaluation_envs, VecNormalize)
    assert not evaluation_envs.norm_reward


def test_the_first_wrapper_of_a_recipe_is_the_innermost(tmp_path: Path) -> None:
    wrappers = "env_wrapper:\n- ObservationNoise: {std: 0.1}\n- History: {window: 3}\n"
    text = "env: Pendulum-v1\nalgo: PPO\nn_timesteps: 9\n" + wrappers
    envs = make_envs(load_recipe(recipe_file(tmp_path, text)), 1, training=True)
    assert envs.observation_space["observations"].shape == (3, 3)
    assert "History<ObservationNoise" in str(envs.envs[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env: CartPole-v1", "needs algo and n_timesteps"),
        (PPO_RECIPE.replace("RecurrentPPO", "PP0"), "unknown algo 'PP0' in a recipe: choose one of RecurrentPPO,"),
        (PPO_RECIPE.replace("512", "0.5"), "n_timesteps must be a whole number of at least 1, not 0.5"),
        (PPO_RECIPE.replace("AutoNCP(9, 3)", "Auto(9, 3)"), "is not a plan; the plans are AutoNCP"),
        (PPO_RECIPE.replace("ncp/PendulumNoVel-v0", "ncp/Pendulum-v9"), "'ncp/Pendulum-v9' cannot be made"),
        (PPO_RECIPE + "n_step: 3", "the recipe does not fit RecurrentPPO: .*'n_step'"),
        (PPO_RECIPE + "env_wrapper: [TimeLimit]", "there is no wrapper 'TimeLimit' in ncp_envs"),
        (PPO_RECIPE + "env_wrapper: History", "env_wrapper in the recipe .* must be a list, not 'History'"),
        ("- env", "is not a recipe: it should consist of keys and values"),
        ("env: [", "is not YAML"),
        ("env: !!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_before_anything_is_trained(
    text: str, message: str, tmp_path: Path
) -> None:
    def build() -> None:
        recipe = load_recipe(recipe_file(tmp_path, text))
        make_model(recipe, make_envs(recipe, 1, training=True), seed=0, device="cpu")

    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
