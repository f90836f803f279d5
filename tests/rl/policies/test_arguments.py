"""Unknown arguments of policies are refused with the name that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from ncp_control.rl import RecurrentPPO, RecurrentSAC
from ncp_control.rl.policies.arguments import LSTMS

KINDS = [RecurrentPPO, RecurrentSAC]


def model(kind: Any, env: Any = "Pendulum-v1", **kwargs: Any) -> Any:
    return kind("NCPPolicy", env, policy_kwargs={"wiring": 6, "critic": "mlp", **kwargs}, device="cpu", seed=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LSTMS)
def test_the_sizes_of_lstms_are_refused_with_what_to_use(kind: Any, name: str) -> None:
    value: Any = {"lstm_kwargs": {"dropout": 0.5}}.get(name, 2)
    with pytest.raises(TypeError, match=f"NCPPolicy takes no {name}, .* wiring=.* critic=.* critic_units="):
        model(kind, **{name: value})


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelt_argument_names_the_right_one(kind: Any) -> None:
    for wrong, right in {"cel": "cell", "critic_unit": "critic_units", "activation_function": "activation_fn"}.items():
        with pytest.raises(TypeError, match=f"^NCPPolicy has no argument '{wrong}': did you mean {right}\\?$"):
            model(kind, **{wrong: "cfc"})
    with pytest.raises(TypeError, match=r"NCPPolicy has no argument 'zzz': choose from .*cell, cell_kwargs"):
        model(kind, zzz=1)


def test_arguments_of_stable_baselines3_still_pass() -> None:
    given = {"log_std_init": -1.0, "ortho_init": False, "optimizer_kwargs": {"eps": 1e-6}, "normalize_images": False}
    assert float(model(RecurrentPPO, **given).policy.log_std.detach()[0]) == -1.0
    assert model(RecurrentSAC, log_std_init=-1.0, n_critics=3).policy.critic.n_critics == 3
