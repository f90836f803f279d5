"""What a memory is for: agents that have one recall what they saw, and agents without one do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise

from helpers.memory_tasks import Recall, Repeat
from helpers.off_policy_models import KINDS
from helpers.off_policy_models import build as build_off_policy
from helpers.on_policy_models import build as build_on_policy
from ncp_control.rl import RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3
from ncp_control.wiring import AutoNCP

# The share of the cues, over ten seeds: 1.00 with a spread of 0.00, for each of the four below. An agent that always
# gives one answer gets 0.46 or 0.54.
RECALLED = 0.8


def recall(wiring: Any, steps: int, kind: Any = RecurrentPPO, **settings: Any) -> float:
    """Trains a model, and returns the share of 100 episodes in which its deterministic actions recall the cue."""
    fixed: dict[str, Any] = {"n_steps": 60, "sequence": 60, "gamma": 0.95, "learning_rate": 1e-2}
    if kind is RecurrentPPO:
        fixed.update(batch_size=240, n_epochs=8)
    env = make_vec_env(Recall, 8, seed=0)
    model = build_on_policy(env, kind, wiring=wiring, **{**fixed, "critic": "mlp", "critic_units": 16, **settings})
    model.learn(steps)
    return float(evaluate_policy(model, make_vec_env(Recall, 8, seed=100), 100, deterministic=True)[0])


@pytest.mark.parametrize(("cell", "wiring"), [("cfc", AutoNCP(12, 4)), ("lstm", 12)])
def test_a_circuit_recalls(cell: str, wiring: Any) -> None:
    assert recall(wiring, 3840, cell=cell) >= RECALLED


@pytest.mark.slow
def test_a_liquid_circuit_recalls() -> None:
    """Its neurons are slow at the start of the training, as the cue is five steps old when it is needed."""
    slow = {"time_constants": (1.0, 20.0)}
    assert recall(8, 7680, cell="ltc", cell_kwargs=slow, learning_rate=2e-2) >= RECALLED


@pytest.mark.slow
def test_a2c_recalls() -> None:
    found = recall(AutoNCP(12, 4), 19200, RecurrentA2C, cell="cfc", n_steps=24, sequence=24, ent_coef=0.01)
    assert found >= RECALLED


def returns(kind: Any, steps: int, seed: int = 0, **settings: Any) -> float:
    """Trains a model, and returns the mean return of its deterministic actions: 1 at best, 0 without a memory."""
    given: dict[str, Any] = {"learning_rate": 1e-2, "gamma": 0.9, "tau": 0.05, "batch_size": 192, "buffer_size": 10_000}
    given.update(learning_starts=200, net_arch={"pi": [], "qf": [32]}, policy="NCPPolicy")
    given |= (
        {"ent_coef": 0.01}
        if issubclass(kind, SAC)
        else {"action_noise": NormalActionNoise(np.zeros(1), np.full(1, 0.3))}
    )
    if kind in KINDS:
        given.update(sequence=12, burn_in=0, wiring=AutoNCP(12, 4), cell="cfc")
    model = build_any(kind, make_vec_env(Repeat, 8, seed=1000 * seed), seed=seed, **{**given, **settings})
    model.learn(steps)
    return float(evaluate_policy(model, make_vec_env(Repeat, 8, seed=100), 100)[0])


def build_any(kind: Any, env: Any, policy: str, **settings: Any) -> Any:
    if kind in KINDS:
        return build_off_policy(kind, env, policy, **settings)
    return kind(policy, env, policy_kwargs={"net_arch": settings.pop("net_arch")}, device="cpu", **settings)


# The returns of ten seeds stand behind each bound: their mean and their spread. The cues of the episodes that are
# evaluated are the same each time, so that one answer to both of them gets at most 0.08.


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "wiring"), [("lstm", 12), ("cfc", AutoNCP(12, 4))])
def test_sac_with_a_circuit_recalls(cell: str, wiring: Any) -> None:
    assert returns(RecurrentSAC, 2400, cell=cell, wiring=wiring) >= 0.8  # 0.99, 0.005; 0.98, 0.01


@pytest.mark.slow
def test_td3_with_a_circuit_recalls() -> None:
    """One seed of ten ends with the same answer to both cues: 0.88, 0.34, so for the mean of five 0.88, 0.15."""
    assert np.mean([returns(RecurrentTD3, 2400, seed) for seed in range(5)]) >= 0.25


@pytest.mark.slow
def test_a_liquid_circuit_recalls_off_policy() -> None:
    """Its neurons are slow at the start of the training, as the cue is five steps old when it is needed."""
    assert returns(RecurrentSAC, 5600, cell="ltc", wiring=8, cell_kwargs={"time_constants": (1.0, 20.0)}) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RecurrentTD3, RecurrentSAC])
def test_a_critic_without_memory_cannot_teach_recall(kind: Any) -> None:
    assert abs(returns(kind, 2400, critic="mlp")) < 0.4  # -0.04, 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", [TD3, SAC])
def test_without_a_memory_nobody_recalls(kind: Any) -> None:
    assert abs(returns(kind, 2400, policy="MlpPolicy")) < 0.4
