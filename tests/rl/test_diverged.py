"""A training whose numbers are no longer finite says whose fault it is, where, and what to change."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import ncp_control as nc
from helpers.cells import ZOO
from ncp_control.rl import RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3
from ncp_control.rl.diverged import Diverged
from ncp_control.rl.named_weights import places_of

FEW: dict[Any, dict[str, Any]] = {
    RecurrentPPO: {"n_steps": 64, "batch_size": 32, "n_epochs": 2},
    RecurrentA2C: {},
    RecurrentSAC: {"sequence": 8, "burn_in": 2, "batch_size": 32, "learning_starts": 20},
    RecurrentTD3: {"sequence": 8, "burn_in": 2, "batch_size": 32, "learning_starts": 20},
}


class Faulty(gym.Wrapper[Any, Any, Any, Any]):
    """An environment with one number that is not finite, at one step."""

    def __init__(self, env: gym.Env[Any, Any], what: str, at: int) -> None:
        super().__init__(env)
        self.what, self.left = what, at

    def step(self, action: Any) -> Any:
        observation, reward, *rest = self.env.step(action)
        self.left -= 1
        if self.left == 0 and self.what == "reward":
            reward = float("nan")
        elif self.left == 0:
            observation = np.full_like(observation, np.inf)
        return observation, reward, *rest


def build(kind: Any, env: Any, **settings: Any) -> Any:
    given = {"cell": "ltc", "cell_kwargs": {"unfolds": 1}, "wiring": nc.AutoNCP(9, 3, seed=1)}
    return kind("NCPPolicy", env, seed=0, device="cpu", policy_kwargs=given, **{**FEW[kind], **settings})


@pytest.mark.parametrize("kind", FEW)
def test_a_learning_rate_that_is_too_large_is_named_with_better_ones(kind: Any) -> None:
    model = build(kind, gym.make("Pendulum-v1"), learning_rate=1e30)
    with pytest.raises(Diverged) as caught:
        model.learn(400)
    sentence = str(caught.value)
    assert "has become NaN or infinite after step" in sentence
    assert "learning_rate was 1e+30, try 3.3e+29 or 1e+29" in sentence
    assert ("max_grad_norm was 0.5, try 0.17" in sentence) == (kind in (RecurrentPPO, RecurrentA2C))
    assert "environment" not in sentence


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("what", ["reward", "observation"])
def test_an_environment_with_such_a_number_is_to_blame(kind: Any, what: str) -> None:
    model = build(kind, Faulty(gym.make("Pendulum-v1"), what, 40))
    value = {"reward": "nan", "observation": "inf"}[what]
    with pytest.raises(ValueError, match=rf"^the environment gave the {what} {value} before step .*: correct the env"):
        model.learn(400)


def test_the_faulty_one_of_several_environments_is_named() -> None:
    envs = make_vec_env(lambda: gym.make("Pendulum-v1"), 3, seed=0)
    envs.envs[1] = Faulty(envs.envs[1], "reward", 70)
    with pytest.raises(ValueError, match=r"^environment 1 gave the reward nan before step 384,"):
        build(RecurrentPPO, envs).learn(400)


def test_a_reward_that_spoils_a_normalisation_is_the_environments() -> None:
    envs = VecNormalize(make_vec_env(lambda: Faulty(gym.make("Pendulum-v1"), "reward", 40), 1, seed=0))
    with pytest.raises(ValueError, match=r"^the environment gave the reward nan before step 64,"):
        build(RecurrentPPO, envs).learn(400)


class Ruin(BaseCallback):
    """Makes some weights NaN at the end of the first rollout."""

    def __init__(self, names: list[tuple[str, int]]) -> None:
        super().__init__()
        self.names = names

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        with torch.no_grad():
            for name, place in self.names:
                self.model.policy.get_parameter(name).reshape(-1)[place] = torch.nan
        self.model.policy.optimizer.param_groups.clear()  # so that the others stay as they are


def test_weights_are_named_by_their_neurons_and_synapses() -> None:
    model = build(RecurrentPPO, gym.make("Pendulum-v1"))
    cell = model.policy.lstm_actor.cell
    inner = "lstm_actor.rnn.cell."
    ruined = [(f"{inner}cm_raw", 2), (f"{inner}w_raw", 4), (f"{inner}sensory_mu", 1), ("value_net.weight", 0)]
    model._update_learning_rate = lambda optimizers: None
    with pytest.raises(Diverged) as caught:
        model.learn(64, Ruin(ruined))
    wiring = cell.wiring
    source, target, _ = list(wiring.synapses)[4]
    touched, felt, _ = list(wiring.sensory)[1]
    names = wiring.neuron_names
    sentence = str(caught.value)
    assert f"the actor's cm of {names[2]}, " in sentence
    assert f"the actor's w of {names[source]} -> {names[target]}, " in sentence
    assert f"the actor's sensory_mu of {wiring.input_names[touched]} -> {names[felt]} and 1 more param" in sentence


@pytest.mark.parametrize("name", ZOO)
def test_every_cells_parameters_of_neurons_and_synapses_have_names(name: str) -> None:
    """Each place along such a parameter is named; matrices and what reads no wiring are named as a whole."""
    cell = ZOO[name]()
    ends = getattr(cell, "index_arrays", {})
    for own, value in cell.named_parameters():
        if own.removesuffix("_raw") in ("w", "sensory_w", "weight", "gamma", "gamma_r", "tau", "gleak"):
            assert len(places_of(cell, own)) == value.shape[-1], own
        if own in ("w_raw", "gamma_r", "weight") and ends:
            names = [place.split(" -> ") for place in places_of(cell, own)]
            found = [[cell.wiring.neuron(one) for one in pair] for pair in names]
            assert found == np.stack([ends["source"], ends["target"]], axis=1).tolist()


def test_another_error_of_a_healthy_training_stays_as_it_is() -> None:
    class Fails(BaseCallback):
        def _on_step(self) -> bool:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        build(RecurrentPPO, gym.make("Pendulum-v1")).learn(64, Fails())
