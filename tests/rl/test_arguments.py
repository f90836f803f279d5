"""The arguments of the algorithms: what `help` shows of them, and what a type checker knows."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sb3_contrib
import stable_baselines3

from ncp_control.rl import RecurrentA2C, RecurrentPPO, RecurrentSAC, RecurrentTD3
from ncp_control.rl import arguments as named

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


PROGRAM = """
import ncp_control.rl as rl

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
    assert lines == ["8", "9", "10", "11"], done.stdout + done.stderr
