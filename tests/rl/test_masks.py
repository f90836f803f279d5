"""Masks of actions: what an environment forbids is never chosen, learnt, or evaluated."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib.common.maskable.distributions import make_masked_proba_distribution
from sb3_contrib.common.maskable.utils import get_action_masks
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.masked_environments import SPACES, Drawn, Free, Ranks, Strict, allows
from helpers.on_policy_models import build
from helpers.small_agents import small_agent
from helpers.small_recipes import QUIET
from helpers.weights import assert_same, weights
from ncp_control.activity import record
from ncp_control.cli import main
from ncp_control.data import collect
from ncp_control.rl import RecurrentA2C, RecurrentPPO, evaluate, load_policy, save_policy, with_masks
from ncp_control.rl.policies.masks import masked, read_masks
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.rl.training import train
from ncp_control.runs.run import LAST

named = pytest.mark.parametrize("name", SPACES)
STRICT = "StrictMasks-v0"


@pytest.fixture(autouse=True, scope="module")
def registered() -> Any:
    gym.register(STRICT, entry_point="helpers.masked_environments:StrictFive")
    yield
    del gym.registry[STRICT]


def side_by_side(kind: Any, name: str, count: int = 2) -> Any:
    envs = DummyVecEnv([partial(kind, SPACES[name])] * count)
    envs.seed(0)
    return envs


@named
@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentA2C])
def test_masks_that_allow_everything_change_nothing(kind: Any, name: str) -> None:
    models = [build(side_by_side(env, name), kind).learn(48) for env in (Drawn, Free)]
    assert [model.masks_actions for model in models] == [False, True]
    assert_same(*(weights(model) for model in models))
    seen, free = np.zeros((7, 3), np.float32), np.ones((7, len(models[1].rollout_buffer.action_masks[0, 0])), bool)
    for deterministic in (False, True):
        torch.manual_seed(3)
        plain, state = models[0].predict(seen, deterministic=deterministic)
        torch.manual_seed(3)
        other, after = models[1].predict(seen, deterministic=deterministic, action_masks=free)
        np.testing.assert_array_equal(plain, other)
        np.testing.assert_array_equal(state[0], after[0])


@named
def test_what_is_forbidden_is_never_chosen(name: str) -> None:
    """Neither in the training, whose environment raises an error, nor afterwards."""
    model = build(side_by_side(Strict, name), n_steps=32, ent_coef=0.1).learn(320)
    for deterministic in (False, True):
        evaluate(model, lambda: Strict(SPACES[name]), episodes=18, deterministic=deterministic)
        envs = side_by_side(Strict, name)
        evaluate_policy(with_masks(model, envs), envs, 6, deterministic=deterministic, warn=False)
    if name != "one choice":
        return
    with pytest.raises(ValueError, match="a forbidden action was chosen"):
        build(side_by_side(Strict, name), n_steps=32).learn(320, use_masking=False)


@named
def test_forbidden_choices_have_the_probability_zero_in_the_training(name: str) -> None:
    space = SPACES[name]
    model = build(side_by_side(Strict, name))
    model.learn(16)
    data = next(model.rollout_buffer.get())
    sizes = model.env.envs[0].sizes
    every = np.stack([np.ravel(one) for one in np.ndindex(*sizes)])
    first = np.ravel(getattr(space, "start", 0))
    totals, states = 0.0, data.lstm_states
    allowed = np.stack([[allows(row, sizes, one) for one in every] for row in data.action_masks.numpy()])
    for action, fine in zip(every, allowed.T, strict=True):
        given = torch.as_tensor(action + first).float().expand(len(data.actions), -1)
        given = given[:, 0].long() if isinstance(space, gym.spaces.Discrete) else given
        _, log_probs, entropies = model.policy.evaluate_actions(
            data.observations, given, states, data.episode_starts, data.action_masks
        )
        chances = log_probs.exp().detach()
        assert (chances[~torch.as_tensor(fine)] == 0).all()
        totals += chances
    torch.testing.assert_close(totals, torch.ones(len(data.actions)))
    most = np.log(allowed.sum(axis=1))
    assert (entropies.detach().numpy() <= most + 1e-5).all()
    assert (entropies.detach().numpy() > 0.9 * most - 1e-5).all()  # an untrained policy prefers nothing much
    (entropies.sum() + log_probs.sum()).backward()
    assert all(torch.isfinite(own.grad).all() for own in model.policy.parameters() if own.grad is not None)


@named
def test_the_distribution_is_that_of_sb3_contrib(name: str) -> None:
    """For its switches, sb3-contrib has a logit for off, which is zero here."""
    space, envs = SPACES[name], side_by_side(Strict, name, 40)
    envs.reset()
    masks = get_action_masks(envs)
    plain = gym.spaces.MultiDiscrete(space.nvec) if name == "several" else gym.spaces.Discrete(5)
    theirs = make_masked_proba_distribution(plain if name != "switches" else space)
    logits = torch.randn(40, masks.shape[1] // (2 if name == "switches" else 1))
    wide = torch.stack([torch.zeros_like(logits), logits], dim=2).flatten(1) if name == "switches" else logits
    theirs.proba_distribution(wide)
    theirs.apply_masking(masks)
    policy = build(envs).policy
    ours = policy.action_dist.proba_distribution(masked(logits, torch.as_tensor(masks), space))
    actions = ours.sample()
    first = torch.as_tensor(getattr(space, "start", 0))
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions - first))
    torch.testing.assert_close(ours.entropy().reshape(40), theirs.entropy())
    torch.testing.assert_close(ours.mode() - first, theirs.mode().to(ours.mode().dtype))


@pytest.mark.slow
def test_a_task_is_learnt_that_takes_masks_and_a_memory() -> None:
    """A policy without masks earns little in it.

    Over ten seeds the returns are 1.00 with a spread of 0.00, and 0.33 with 0.03. Without a memory, half of the choices
    among what is allowed are right.
    """
    settings = {"n_steps": 64, "sequence": 64, "batch_size": 256, "n_epochs": 4, "gamma": 0.5, "learning_rate": 1e-2}
    model = build(make_vec_env(Ranks, 8, seed=0), cell="cfc", wiring=12, critic="mlp", **settings)
    model.learn(8192)
    assert np.mean(evaluate(model, Ranks, episodes=50).returns) >= 0.8
    blind = evaluate_policy(model, make_vec_env(Ranks, 8, seed=1), 50)[0]
    assert blind < 0.5


def test_a_callback_of_stable_baselines3_evaluates_with_masks() -> None:
    """In the way that the guide shows; without it, the callback's environment raises an error."""

    class Masked(EvalCallback):
        def _on_training_start(self) -> None:
            super()._on_training_start()
            self.model = with_masks(self.model, self.eval_env)

    given = {"eval_freq": 16, "n_eval_episodes": 5, "warn": False, "verbose": 0, "deterministic": False}
    callback = Masked(side_by_side(Strict, "one choice", 1), **given)
    model = build(side_by_side(Strict, "one choice")).learn(48, callback)
    assert np.isfinite(callback.last_mean_reward)
    assert callback.model.num_timesteps == model.num_timesteps
    with pytest.raises(ValueError, match="a forbidden action was chosen"):
        model.learn(48, EvalCallback(side_by_side(Strict, "one choice", 1), **given))


def test_a_wrapper_of_sb3_contrib_brings_masks() -> None:
    masker = ActionMasker(Drawn(SPACES["one choice"]), lambda env: np.arange(5) == 2)
    model = build(DummyVecEnv([lambda: masker])).learn(16)
    assert (model.rollout_buffer.actions == 2).all()


def test_an_agent_keeps_to_masks_after_it_was_saved(tmp_path: Path) -> None:
    model = build(side_by_side(Strict, "one choice")).learn(16)
    model.save(tmp_path / "model.zip")
    loaded = RecurrentPPO.load(tmp_path / "model.zip", env=side_by_side(Strict, "one choice"), device="cpu")
    again = [one.learn(32, reset_num_timesteps=False) for one in (model, loaded)]
    assert [one.num_timesteps for one in again] == [48, 48]
    path = tmp_path / "policy.safetensors"
    save_policy(model, path, {"env": STRICT})
    policy, seen = load_policy(path), np.zeros((5, 3), np.float32)
    actions, state = policy.predict(seen, action_masks=np.eye(5))
    np.testing.assert_array_equal(actions, range(5))
    np.testing.assert_array_equal(policy.predict(seen[0], action_masks=np.eye(5)[3])[0], 3)
    _, after = model.predict(seen, deterministic=True, action_masks=np.eye(5))
    np.testing.assert_array_equal(state[0], after[0])


def test_the_commands_keep_to_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.safetensors"
    model = build(make_vec_env(lambda: gym.make(STRICT), 2, seed=0)).learn(16)
    save_policy(model, path, {"env": STRICT})
    assert main(["evaluate", str(path), "--episodes", "3", "--sample"]) == 0
    out = tmp_path / "recording.npz"
    assert main(["record", str(path), "--out", str(out), "--steps", "30"]) == 0
    rollouts = collect(model, STRICT, 4, random_action_fraction=0.0, deterministic=False, progress=False)
    assert len(np.unique(np.concatenate([rollout.actions for rollout in rollouts]))) > 1
    activity = record(model, gym.make(STRICT), out, steps=30, deterministic=False, progress=False)
    assert len(np.unique(activity.get("actions"))) > 1


@pytest.mark.system
def test_a_recipe_trains_with_masks_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    """An environment of the training or of an evaluation raises an error at a forbidden action."""
    settings = {"n_steps": 16, "batch_size": 32, "sequence": 16, "n_epochs": 2}
    recipe = Recipe(STRICT, "RecurrentPPO", 192, 2, normalize=True, settings=settings, env_wrapper=["PreviousAction"])
    train(recipe, tmp_path / "whole", **QUIET)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps > 100:
                raise KeyError
            return True

    with pytest.raises(KeyError):
        train(recipe, tmp_path / "parts", callbacks=[Stop()], **QUIET)
    train(recipe, tmp_path / "parts", resume=True, **QUIET)
    kept = [load_policy(tmp_path / run / LAST).sha256 for run in ("whole", "parts")]
    assert kept[0] == kept[1]


def test_masks_where_none_fit_are_refused_with_a_sentence(tmp_path: Path) -> None:
    plain = build(side_by_side(Drawn, "one choice"))
    with pytest.raises(ValueError, match=r"use_masking=True needs environments with a method action_masks\(\)"):
        plain.learn(16, use_masking=True)
    with pytest.raises(ValueError, match="masks are for actions that are choices"):
        build(gym.make("Pendulum-v1")).learn(16, use_masking=True)
    seen = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"action_masks have shape \(2, 4\), .* need \(2, 5\)"):
        plain.predict(seen, action_masks=np.ones((2, 4)))
    with pytest.raises(ValueError, match="action_masks leave nothing for the action of environment 1"):
        plain.predict(seen, action_masks=np.array([[1, 0, 0, 0, 0], [0] * 5]))
    with pytest.raises(ValueError, match="action_masks leave nothing for choice 1 of environment 0"):
        read_masks([1, 0, 0, 0, 0], SPACES["several"], 1)
    agent = small_agent("squashed", tmp_path)
    with pytest.raises(ValueError, match="a SACSequencePolicy reads no action_masks: leave them out, or train with"):
        agent.predict(np.zeros((1, 3)), action_masks=np.ones((1, 2)))


def test_a_model_whose_own_predict_reads_no_masks_is_asked_without_them() -> None:
    class Around:
        def __init__(self, policy: Any) -> None:
            self.policy = policy

        def predict(self, seen: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True) -> Any:
            return self.policy.predict(seen, state, episode_start, deterministic)

    model = build(side_by_side(Free, "one choice"))
    own, asked = (evaluate(one, partial(Free, SPACES["one choice"]), 3) for one in (Around(model.policy), model))
    np.testing.assert_array_equal(own.returns, asked.returns)


def test_an_environment_without_choices_is_not_asked_for_masks() -> None:
    class Odd(gym.Wrapper[Any, Any, Any, Any]):
        def action_masks(self) -> Any:
            raise AssertionError

    model = build(Odd(gym.make("Pendulum-v1"))).learn(8)
    evaluate(model, lambda: Odd(gym.make("Pendulum-v1", max_episode_steps=3)), episodes=2)
