"""Environments and models are made as the recipe says, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.vec_env import VecNormalize

from helpers.small_recipes import PPO_RECIPE, SAC_RECIPE, TEACHER_RECIPE, recipe_file
from ncp_control.base.plain_yaml import read_changes
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import DEFAULTS, Linear, load_recipe, shipped
from ncp_control.wiring import AutoNCP


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_recipe_trains(name: str) -> None:
    named = {"env": "ncp/PendulumNoVel-v0"} if name in DEFAULTS.values() else {}
    recipe = load_recipe(name, named)
    recipe = replace(recipe, n_envs=min(recipe.n_envs, 2))
    if recipe.is_off_policy:
        recipe = replace(recipe, updates_per_step=None)
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
    # The last rollout may go beyond the steps of the training, and a negative rate would undo what was learnt.
    assert [Linear(3e-3)(left) for left in (1, 0.5, 0, -0.2)] == [3e-3, 1.5e-3, 0, 0]
    assert model.learning_rate(0.5) == 1.5e-3
    assert type(model.policy.lstm_actor.cell).__name__ == "CfC"
    assert model.policy.circuit_kwargs["wiring"] == AutoNCP(9, 3)
    evaluation_envs = make_envs(recipe, 1, training=False)
    assert isinstance(evaluation_envs, VecNormalize)
    assert not evaluation_envs.norm_reward


def test_updates_per_step_count_the_steps_of_all_environments(tmp_path: Path) -> None:
    recipe = load_recipe(recipe_file(tmp_path, TEACHER_RECIPE))
    envs = make_envs(recipe, recipe.n_envs, training=True)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    model.learn(240)
    assert (model.n_envs, model.gradient_steps, model._n_updates) == (4, 2, 100)  # 0.5 for each step after the 40th


def test_the_first_wrapper_of_a_recipe_is_the_innermost(tmp_path: Path) -> None:
    wrappers = "env_wrapper:\n- ObservationNoise: {std: 0.1}\n- History: {window: 3}\n"
    text = "env: Pendulum-v1\nalgo: PPO\nn_timesteps: 9\n" + wrappers
    envs = make_envs(load_recipe(recipe_file(tmp_path, text)), 1, training=True)
    assert envs.observation_space["observations"].shape == (3, 3)
    assert "History<ObservationNoise" in str(envs.envs[0])


def test_numbers_may_be_written_as_text_with_an_exponent(tmp_path: Path) -> None:
    """YAML reads 1e-1 as text, and a whole number may have a point."""
    words = ["gamma=9e-1", "n_epochs=1e3", "n_steps=64.0", "policy_kwargs.critic_units=1e1", "normalize.clip_obs=5e0"]
    words += ["env_kwargs.g=98e-1", "policy_kwargs.net_arch=[1e1]"]
    text = PPO_RECIPE.replace("normalize: true", "normalize: {}\nenv_wrapper: [{ObservationNoise: {std: 1e-1}}]")
    recipe = load_recipe(recipe_file(tmp_path, text), read_changes(words))
    envs: Any = make_envs(recipe, 1, training=True)
    assert (envs.gamma, envs.clip_obs, envs.envs[0].unwrapped.g) == (0.9, 5, 9.8)
    model: Any = make_model(recipe, envs, seed=0, device="cpu")
    assert (model.gamma, model.n_epochs, model.n_steps) == (0.9, 1000, 64)
    assert model.policy.circuit_kwargs["critic_units"] == 10


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
        (PPO_RECIPE + "env_wrapper: History", "a recipe's env_wrapper must be a list, not 'History'"),
        (PPO_RECIPE + "env_wrapper: [VectorHistory]", "VectorHistory is for vector environments, .*: name History"),
        (PPO_RECIPE + "env_wrapper: [{History: 5}]", "arguments of the wrapper History must be a dictionary, not 5"),
        (PPO_RECIPE + "env_wrapper: [{ObservationNoise: {std: abc}}]", "the wrapper ObservationNoise cannot be made"),
        (PPO_RECIPE + "env_kwargs: {bogus: 1}", "cannot be made with {'bogus': 1}: .*unexpected keyword"),
        (PPO_RECIPE + "gamma: 2", "the recipe's gamma must be a number from 0 to 1, not 2"),
        (PPO_RECIPE + "gae_lambda: [1]", r"the recipe's gae_lambda must be a number from 0 to 1, not \[1\]"),
        (PPO_RECIPE + "ent_coef: auto", "the recipe's ent_coef must be a number, not 'auto'"),
        (
            PPO_RECIPE + "clip_range: abc",
            "the recipe's clip_range must be a number of at least 0, or .*such as lin_3e-4",
        ),
        (PPO_RECIPE + "use_sde: 1", "the recipe's use_sde must be true or false, not 1"),
        (PPO_RECIPE.replace("lin_3e-3", "-1"), "the recipe's learning_rate must be a number of at least 0"),
        (PPO_RECIPE.replace("n_epochs: 2", "n_epochs: 1.5"), "n_epochs must be a whole number of at least 1, not 1.5"),
        (PPO_RECIPE.replace("true", "{gama: 0.9}"), "it has no 'gama': did you mean gamma"),
        (PPO_RECIPE.replace("true", "{clip_obs: abc}"), "normalize, clip_obs must be a number above 0, not 'abc'"),
        (
            PPO_RECIPE.replace("critic_units: 5", "critic_units: x"),
            "critic_units must be a whole number of at least 1",
        ),
        (PPO_RECIPE.replace("critic_units: 5", "optimizer_class: SGD"), "optimizer_class must be left out"),
        (PPO_RECIPE.replace("n_envs: 2", "n_envs: 1000000000"), "n_envs must be at most 10,000, not 1000000000"),
        (PPO_RECIPE.replace("512", "1" + "0" * 30), "n_timesteps must be at most 1,000,000,000,000,000"),
        (PPO_RECIPE.replace("n_steps: 32", "n_steps: 1000000000000"), "need more memory than"),
        (PPO_RECIPE.replace("critic_units: 5", "net_arch: [1000000000000]"), "need more memory than"),
        (
            SAC_RECIPE.replace("buffer_size: 100", "buffer_size: 1000000000000"),
            "need more memory than",
        ),
        (
            SAC_RECIPE + "train_freq: [1, day]",
            "recipe does not fit RecurrentSAC: The unit .* must be either 'step' or 'episode'",
        ),
        (
            PPO_RECIPE.replace("critic_units: 5", "ortho_init: lin_1"),
            "ortho_init cannot fall: 'lin_1' is for learning_",
        ),
        (SAC_RECIPE + "train_freq: 0", "the recipe's train_freq must be a whole number of at least 1, not 0"),
        (PPO_RECIPE + "target_kl: 0", "the recipe's target_kl must be a number above 0, not 0"),
        (PPO_RECIPE + "clip_range_vf: nan", "the recipe's clip_range_vf must be a number of at least 0, or"),
        (PPO_RECIPE + "ent_coef: 1e999", "the recipe's ent_coef must be a number, not inf"),
        (
            PPO_RECIPE.replace("critic_units: 5", "net_archs: [4]"),
            "NCPPolicy has no argument 'net_archs': did you mean net_arch",
        ),
        (TEACHER_RECIPE.replace("net_arch", "net_archs"), "there is no 'net_archs': did you mean net_arch"),
        (TEACHER_RECIPE.replace("0.5", "0.3"), "updates_per_step 0.3 with n_envs 4 would be 1.2 updates at a time"),
        (TEACHER_RECIPE + "gradient_steps: 2", "either updates_per_step or gradient_steps: leave out one of them"),
        (PPO_RECIPE + "updates_per_step: 1", "is for algorithms with a replay buffer, and RecurrentPPO has none"),
        (
            TEACHER_RECIPE.replace("undisturbed: []", "undisturbed: none"),
            "also_evaluate must be a dictionary from names",
        ),
        (TEACHER_RECIPE.replace("undisturbed", "Not, a name"), "also_evaluate must be a dictionary from names"),
        (SAC_RECIPE + "n_envs: 2\ntrain_freq: [1, episode]", "train_freq can count episodes only if n_envs is 1"),
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
