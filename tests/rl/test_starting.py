"""A training that begins with the circuit of a trained policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from stable_baselines3.common.callbacks import BaseCallback

from helpers.small_recipes import QUIET, RECIPES, recipe_file
from ncp_control.cli import main
from ncp_control.rl import RecurrentPPO, load_policy, save_policy
from ncp_control.rl.recipes.building import make_envs, make_model
from ncp_control.rl.recipes.recipe import Recipe, load_recipe
from ncp_control.rl.training import train
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, STATE

OTHER_WIRING = {"policy_kwargs.wiring": "AutoNCP(12, 4)", "policy_kwargs.cell": "ltc"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy of a short training with another circuit than the recipes'."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = load_recipe(recipe_file(folder), {**OTHER_WIRING, "n_timesteps": 128})
    train(recipe, folder / "run", seed=5, **QUIET)
    return folder / "run" / BEST


def recipe_with(folder: Path, name: str = "ppo", **changes: Any) -> Recipe:
    return load_recipe(recipe_file(folder, RECIPES[name]), changes)


def made(recipe: Recipe, start: Any) -> Any:
    """Makes a model that begins with a policy."""
    return make_model(recipe, make_envs(recipe, 2, training=True), 0, "cpu", start)


def test_the_model_acts_as_the_policy_does_before_it_is_trained(trained: Path, tmp_path: Path) -> None:
    start = load_policy(trained)
    model = made(recipe_with(tmp_path), start)
    assert str(model.policy.circuit_kwargs["wiring"]) == str(start.policy.circuit_kwargs["wiring"])
    wrapper, mine, theirs = model.get_vec_normalize_env(), None, None
    for observation in np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32):
        ours, mine = model.predict(wrapper.normalize_obs(observation), mine, deterministic=True)
        given, theirs = start.predict(observation, theirs, deterministic=True)
        np.testing.assert_array_equal(ours, given)


def test_a_critic_of_the_same_shape_comes_along_and_another_one_is_new(trained: Path, tmp_path: Path) -> None:
    start = load_policy(trained)
    given = start.policy.state_dict()
    for units, comes_along in ((5, True), (6, False)):
        own = made(recipe_with(tmp_path, **{"policy_kwargs.critic_units": units}), start).policy.state_dict()
        assert torch.equal(own["value_net.bias"], given["value_net.bias"]) == comes_along
        for name in own:
            assert start.policy.is_critics(name) or torch.equal(own[name], given[name]), name


@pytest.mark.system
def test_a_stopped_training_goes_on_exactly(trained: Path, tmp_path: Path) -> None:
    recipe, start = recipe_with(tmp_path), load_policy(trained)
    train(recipe, tmp_path / "whole", seed=3, start=start, **QUIET)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps >= 300:
                raise InterruptedError
            return True

    with pytest.raises(InterruptedError):
        train(recipe, tmp_path / "parts", seed=3, start=start, callbacks=[Stop()], **QUIET)
    train(recipe, tmp_path / "parts", seed=3, start=start, resume=True, **QUIET)
    assert (tmp_path / "whole" / CURVE).read_text() == (tmp_path / "parts" / CURVE).read_text()
    whole, parts = (load_file(tmp_path / name / STATE) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.system
def test_a_run_is_resumed_with_the_policy_that_it_began_with(trained: Path, tmp_path: Path) -> None:
    recipe = recipe_with(tmp_path)
    train(recipe, tmp_path / "run", seed=3, start=load_policy(trained), **QUIET)
    record = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(ValueError, match="began with a policy's circuit: name the policy's file again, --start"):
        train(recipe, tmp_path / "run", seed=3, resume=True, **QUIET)
    assert (tmp_path / "run" / "run.json").read_bytes() == record
    with pytest.raises(ValueError, match="holds a run with another start"):
        train(recipe, tmp_path / "run", seed=3, start=load_policy(tmp_path / "run" / BEST), resume=True, **QUIET)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("ppo", {"env": "ncp/CartPoleNoVel-v0"}, "choose the environment that it was trained in"),
        ("ppo", {"normalize": False}, "set the recipe's normalize to true"),
        ("ppo", {"normalize": {"clip_obs": 5.0}}, "set the recipe's normalize to the same"),
        ("ppo", {"use_sde": True}, "another actor than .* has: they differ in log_std"),
        ("sac", {}, "--start takes a circuit of RecurrentPPO or RecurrentA2C"),
    ],
)
def test_a_recipe_that_does_not_fit_the_policy_is_refused(
    trained: Path, tmp_path: Path, name: str, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        train(recipe_with(tmp_path, name, **changes), tmp_path / "run", start=load_policy(trained), **QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.system
def test_a_policy_without_a_circuit_is_refused(trained: Path, tmp_path: Path) -> None:
    train(recipe_with(tmp_path, "mlp"), tmp_path / "mlp", **QUIET)
    with pytest.raises(ValueError, match="mlp holds the policy ActorCriticPolicy"):
        train(recipe_with(tmp_path), tmp_path / "run", start=load_policy(tmp_path / "mlp" / BEST), **QUIET)


def test_the_command_begins_with_a_policy(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(recipe_file(tmp_path)), "--start", str(trained), "--steps", "64", "--eval-episodes", "1"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "see it act" in capsys.readouterr().out
    assert load_policy(tmp_path / "run" / BEST).policy.lstm_actor.hidden_size == 12


def test_only_the_critic_learns_while_it_warms_up(trained: Path, tmp_path: Path) -> None:
    start = load_policy(trained)
    given = start.policy.state_dict()
    for steps, actor_learns in ((64, False), (128, True)):
        model = made(recipe_with(tmp_path, critic_warmup=64, learning_rate=1e-3), start)
        before = {name: value.clone() for name, value in model.policy.state_dict().items()}
        model.learn(steps)
        after = model.policy.state_dict()
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        assert any(start.policy.is_critics(name) for name in moved)
        assert any(not start.policy.is_critics(name) for name in moved) == actor_learns
        assert all(torch.equal(before[name], given[name]) for name in given)


def test_a_warm_up_that_is_no_number_of_steps_is_refused() -> None:
    for wrong in (-1, 0.5):
        with pytest.raises(ValueError, match="critic_warmup is a whole number of steps, at least 0"):
            RecurrentPPO("NCPPolicy", "ncp_envs:ncp/PendulumNoVel-v0", critic_warmup=wrong, device="cpu")


def test_an_actor_of_sac_goes_on_in_an_environment_that_shows_more(tmp_path: Path) -> None:
    wrappers: list[Any] = ["PreviousAction", {"ObservationNoise": {"std": 0, "clean": True}}]
    changes = {"env": "Pendulum-v1", "algo": "SAC", "env_wrapper": [], "normalize": False, "n_timesteps": 64}
    plain = Recipe(**changes, policy="MlpPolicy", policy_kwargs={"net_arch": [16]}, settings={"learning_starts": 20})
    train(plain, tmp_path / "plain", **QUIET)
    start = load_policy(tmp_path / "plain" / BEST)
    more = replace(plain, env_wrapper=wrappers, settings={"learning_starts": 20, "actor_sees": 4, "critic_warmup": 30})
    model = made(more, start)
    for seen in np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32):
        np.testing.assert_allclose(
            model.predict(seen, deterministic=True)[0], start.predict(seen[:3], deterministic=True)[0], atol=1e-6
        )
    train(more, tmp_path / "more", start=start, **QUIET)
    again = load_policy(tmp_path / "more" / BEST)
    assert again.observation_space.shape == (8,)
    onward, weights = made(more, again), torch.nn.utils.parameters_to_vector
    for critic in (onward.critic, onward.critic_target):
        assert torch.equal(weights(critic.parameters()), weights(again.policy.critic.parameters()))
    save_policy(onward, tmp_path / "actor.safetensors", critics=False)
    made(more, load_policy(tmp_path / "actor.safetensors"))
    with pytest.raises(ValueError, match=r"the recipe makes another actor than plain has: .*latent_pi"):
        made(replace(more, policy_kwargs={"net_arch": [12]}), start)
    with pytest.raises(ValueError, match="SAC goes on with an actor of SAC"):
        made(recipe_with(tmp_path), start)
