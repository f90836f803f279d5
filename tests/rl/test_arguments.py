"""The arguments of the algorithms and of their policy: what `help` shows, and what a type checker knows."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import gymnasium as gym
import pytest
import sb3_contrib
import stable_baselines3
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy

from ncp_control.rl import (
    NCPExtractor,
    NCPPolicy,
    NCPPolicyKwargs,
    RecurrentA2C,
    RecurrentPPO,
    RecurrentSAC,
    RecurrentTD3,
    load_policy,
    save_policy,
)
from ncp_control.rl import arguments as named
from ncp_control.rl.policies.checks import LSTMS
from ncp_control.rl.policies.recurrent import CRITICS, HEADS
from ncp_control.wiring import AutoNCP
from ncp_envs import History

ROOT = Path(__file__).resolve().parents[2]
STOCK: dict[Any, Any] = {
    RecurrentPPO: sb3_contrib.RecurrentPPO,
    RecurrentA2C: sb3_contrib.RecurrentPPO,
    RecurrentSAC: stable_baselines3.SAC,
    RecurrentTD3: stable_baselines3.TD3,
}
OWN = {
    RecurrentPPO: {"sequence": 64, "critic_warmup": 0},
    RecurrentA2C: {"sequence": 64, "critic_warmup": 0},
    RecurrentSAC: {"sequence": 32, "burn_in": 16},
    RecurrentTD3: {"sequence": 32, "burn_in": 16},
}
# Recurrent A2C is recurrent PPO with these.
A2C = {
    "learning_rate": 7e-4,
    "n_steps": 16,
    "gae_lambda": 1.0,
    "normalize_advantage": False,
    "batch_size": None,
    "n_epochs": 1,
}
DICTIONARIES = {
    RecurrentPPO: named.PPOArguments,
    RecurrentA2C: named.A2CArguments,
    RecurrentSAC: named.SACArguments,
    RecurrentTD3: named.TD3Arguments,
}


def defaults(kind: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


@pytest.mark.parametrize("kind", STOCK)
def test_a_signature_names_the_stock_arguments_and_our_own(kind: Any) -> None:
    changed = A2C if kind is RecurrentA2C else {}
    assert defaults(kind) == defaults(STOCK[kind]) | OWN[kind] | changed


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentSAC, RecurrentTD3])
def test_the_order_of_the_stock_arguments_is_kept(kind: Any) -> None:
    parameters = inspect.signature(kind).parameters
    positions = [name for name, parameter in parameters.items() if parameter.kind != parameter.KEYWORD_ONLY]
    assert positions == list(inspect.signature(STOCK[kind]).parameters)


@pytest.mark.parametrize("kind", STOCK)
def test_a_type_checker_knows_the_same_arguments(kind: Any) -> None:
    constructor = inspect.unwrap(kind.__init__)
    written = set(constructor.__annotations__) - {"args", "kwargs", "return"}
    known = DICTIONARIES[kind].__annotations__
    assert written.isdisjoint(known)
    assert written | set(known) == set(inspect.signature(kind).parameters)


@pytest.mark.parametrize("kind", STOCK)
def test_the_defaults_shown_are_the_ones_taken(kind: Any) -> None:
    # an algorithm keeps most of its arguments as attributes
    model = kind("NCPPolicy", "Pendulum-v1", policy_kwargs={"wiring": 4}, device="cpu", _init_setup_model=False)
    compared = 0
    for name, default in defaults(kind).items():
        if name in vars(model) and type(default) in (int, float) and not callable(getattr(model, name)):
            assert getattr(model, name) == default, name
            compared += 1
    assert compared >= 8


def test_the_names_of_a_policys_arguments_are_those_that_it_takes() -> None:
    taken = {
        name
        for constructor in (NCPPolicy.__init__, RecurrentActorCriticPolicy.__init__)
        for name in inspect.signature(constructor).parameters
    }
    handed_over = {"self", "observation_space", "action_space", "lr_schedule", "kwargs", *LSTMS}
    assert set(NCPPolicyKwargs.__annotations__) == taken - handed_over
    kinds = get_type_hints(NCPPolicyKwargs)
    assert get_args(kinds["critic"]) == CRITICS
    assert get_args(kinds["head"]) == HEADS


@pytest.mark.parametrize("kind", [RecurrentPPO, RecurrentSAC])
def test_a_plan_may_be_text(kind: Any, tmp_path: Path) -> None:
    model = kind("NCPPolicy", "Pendulum-v1", policy_kwargs={"wiring": "AutoNCP(8, 3)"}, device="cpu")
    assert model.policy.circuit_kwargs["wiring"] == AutoNCP(8, 3)
    save_policy(model, tmp_path / "policy.safetensors")
    assert load_policy(tmp_path / "policy.safetensors").policy.circuit_kwargs["wiring"] == AutoNCP(8, 3).build(3)
    model.save(tmp_path / "model")
    assert kind.load(tmp_path / "model").policy.circuit_kwargs["wiring"] == AutoNCP(8, 3)
    with pytest.raises(ValueError, match="is not a plan; the plans are AutoNCP"):
        kind("NCPPolicy", "Pendulum-v1", policy_kwargs={"wiring": "Auto(8, 3)"}, device="cpu")


def test_a_plan_of_an_extractor_may_be_text() -> None:
    with History(gym.make("Pendulum-v1"), window=4) as env:
        assert NCPExtractor(env.observation_space, wiring="AutoNCP(8, 3)").features_dim == 3


PROGRAM = """
import ncp_control.rl as rl

own: rl.NCPPolicyKwargs = dict(wiring="AutoNCP(8, 3)", cell="ltc", critic="lstm")
rl.RecurrentPPO("NCPPolicy", "Pendulum-v1", policy_kwargs=own)
rl.NCPPolicyKwargs(cells="ltc")

rl.RecurrentPPO("NCPPolicy", "Pendulum-v1", n_steps=8, clip_range=0.1, sequence=4, device="cpu")
rl.RecurrentA2C("NCPPolicy", "Pendulum-v1", 1e-3, vf_coef=0.3, sequence=4)
rl.RecurrentSAC("NCPPolicy", "Pendulum-v1", buffer_size=100, burn_in=4)
rl.RecurrentTD3("NCPPolicy", "Pendulum-v1", policy_delay=3)
rl.RecurrentPPO("NCPPolicy", "Pendulum-v1", n_stepps=8)
rl.RecurrentA2C("NCPPolicy", "Pendulum-v1", rms_prop_eps=1e-5)
rl.RecurrentSAC("NCPPolicy", "Pendulum-v1", burn_out=4)
rl.RecurrentTD3("NCPPolicy", "Pendulum-v1", policy_delay="often")
"""


@pytest.mark.system
@pytest.mark.timeout(600)  # without a cache, mypy reads torch and all of this package
def test_a_type_checker_refuses_a_wrong_argument(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "mypy", str(program)], cwd=ROOT, capture_output=True, text=True)
    lines = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert lines == ["6", "12", "13", "14", "15"], done.stdout + done.stderr
