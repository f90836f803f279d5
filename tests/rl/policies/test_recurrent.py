"""The policy of recurrent PPO and A2C: its head, its rates, its extractors, and how it acts."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.on_policy_models import CRITICS, SPACES, build, envs
from helpers.weights import assert_same, moved, weights
from ncp_control.rl import NCPPolicy, RecurrentPPO
from ncp_control.wiring import AutoNCP


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("use_sde", [False, True])
def test_a_policy_is_saved_by_itself(critic: str, use_sde: bool, tmp_path: Any) -> None:
    model = build(critic=critic, head="motor", wiring=AutoNCP(9, 2), use_sde=use_sde, critic_lr_scale=0.5)
    model.learn(16)
    model.policy.save(tmp_path / "policy")
    loaded = NCPPolicy.load(tmp_path / "policy", device="cpu")
    assert_same(model.policy.state_dict(), loaded.state_dict())
    assert loaded.circuit_kwargs == model.policy.circuit_kwargs
    seen = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    state = None
    for _ in range(3):
        action, after = model.policy.predict(seen, state, deterministic=True)
        again, state = loaded.predict(seen, state, deterministic=True)
        np.testing.assert_array_equal(action, again)
        np.testing.assert_array_equal(after[0], state[0])


def test_extractors_may_be_separate() -> None:
    class Linear(NatureCNN.__mro__[1]):  # type: ignore[misc]
        def __init__(self, space: Any) -> None:
            super().__init__(space, 4)
            self.layer = torch.nn.Linear(3, 4)

        def forward(self, seen: Any) -> Any:
            return self.layer(seen)

    model = build(features_extractor_class=Linear, share_features_extractor=False)
    before = weights(model)
    model.learn(32)
    changed = moved(before, weights(model))
    assert {"pi_features_extractor.layer.weight", "vf_features_extractor.layer.weight"} <= changed
    grouped = [parameter for group in model.policy.optimizer.param_groups for parameter in group["params"]]
    assert len(grouped) == len({id(parameter) for parameter in grouped}) == len(list(model.policy.parameters()))


def test_motor_neurons_are_the_mean_action() -> None:
    model = build(head="motor", wiring=AutoNCP(9, 2))
    assert not any(name.startswith("action_net") for name, _ in model.policy.named_parameters())
    seen, state = torch.randn(5, 3), torch.randn(1, 5, 9)
    with torch.no_grad():
        distribution, (after, _) = model.policy.get_distribution(seen, (state, state), torch.zeros(5))
        circuit = model.policy.lstm_actor
        motors, last = circuit(seen[:, None], state[0], torch.zeros(5, 1, dtype=torch.bool))
    assert torch.equal(distribution.mode(), motors[:, 0])
    assert torch.equal(after[0], last)
    model.learn(32)


@pytest.mark.parametrize("space", [gym.spaces.Box(-1.0, 1.0, (3,)), *SPACES[1:]], ids=lambda space: str(space)[:8])
def test_a_motor_head_that_does_not_fit_is_refused(space: Any) -> None:
    with pytest.raises(ValueError, match=r'head="motor" needs one motor neuron .* there are 2 and the actions are'):
        build(envs(space), head="motor", wiring=AutoNCP(9, 2))


@pytest.mark.parametrize("critic", CRITICS)
def test_the_critic_has_its_own_rate(critic: str, tmp_path: Any) -> None:
    rates = []

    def schedule(left: float) -> float:
        return 1e-2 * left

    model = build(critic=critic, critic_lr_scale=0.1, learning_rate=schedule)
    step = model.policy.optimizer.step

    def watched(*args: Any) -> Any:
        rates.append([group["lr"] for group in model.policy.optimizer.param_groups])
        return step(*args)

    model.policy.optimizer.step = watched
    model.learn(64)
    assert rates[0][0] == schedule(0.75)
    assert rates[-1][0] == pytest.approx(schedule(0), abs=1e-12)
    assert len({tuple(rate) for rate in rates}) == 4
    np.testing.assert_allclose([rate[1] for rate in rates], [0.1 * rate[0] for rate in rates])
    names = {id(parameter): name for name, parameter in model.policy.named_parameters()}
    actor_names, critic_names = (
        {names[id(parameter)] for parameter in group["params"]} for group in optimizer_groups(model)
    )
    assert {name.split(".")[0] for name in critic_names} == {
        "circuit": {"lstm_critic", "value_net"}, "lstm": {"lstm_critic", "value_net"},
        "mlp": {"critic", "value_net"}, "linear": {"critic", "value_net"}, "shared": {"value_net"},
    }[critic]  # fmt: skip
    assert {name.split(".")[0] for name in actor_names} == {"lstm_actor", "action_net", "log_std"}
    del model.policy.optimizer.step
    model.save(tmp_path / "model")
    loaded = RecurrentPPO.load(tmp_path / "model", env=envs(), device="cpu")
    loaded.learn(16)
    slow = optimizer_groups(loaded)
    assert slow[1]["lr"] == 0.1 * slow[0]["lr"]


def optimizer_groups(model: Any) -> Any:
    return model.policy.optimizer.param_groups


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", [*(type(space).__name__ for space in SPACES), "sde", "squashed"])
def test_predict_returns_what_the_parent_class_returns(
    kind: str, several: bool, as_dict: bool, deterministic: bool
) -> None:
    named = {type(space).__name__: space for space in SPACES}
    sde = {"use_sde": True, "squash_output": kind == "squashed"} if kind in ("sde", "squashed") else {}
    model = build(envs(named.get(kind, SPACES[0]), as_dict), critic="lstm", **sde)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(100)
    policy, rows = model.policy, 3 if several else 1
    generator = np.random.default_rng(0)
    state = other = None
    acted = []
    for step in range(6):
        seen: Any = generator.normal(size=(rows, 3) if several else 3).astype(np.float32)
        if as_dict:
            seen = {"where": seen[..., :2], "when": seen[..., 2:]}
        starts = None if step in (0, 3) else generator.random(rows) < 0.4
        torch.manual_seed(step)
        action, state = model.predict(seen, state, starts, deterministic)
        ours = torch.random.get_rng_state()
        torch.manual_seed(step)
        expected, other = parent_predict(policy, seen, other, starts, deterministic)
        assert torch.equal(ours, torch.random.get_rng_state())
        assert action.dtype == expected.dtype
        # the same circuit, and a Gaussian's few operations, in which torch may round the last place otherwise
        np.testing.assert_allclose(action, expected, rtol=1e-6, atol=1e-6)
        for mine, theirs in zip(state, other, strict=True):
            assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)
        acted.append(action)
    if kind in ("Box", "sde", "squashed"):  # choices of an untrained circuit may all be the same
        assert np.std(np.array(acted, dtype=float)) > 0


def parent_predict(policy: Any, *args: Any) -> Any:
    """Returns what sb3-contrib's own `predict` and `_predict` return."""
    policy._predict = partial(RecurrentActorCriticPolicy._predict, policy)
    try:
        return RecurrentActorCriticPolicy.predict(policy, *args)
    finally:
        del policy._predict


def test_predict_leaves_training_mode_and_clips() -> None:
    model = build()
    model.policy.set_training_mode(True)
    assert all(module.training for module in model.policy.modules())
    with torch.no_grad():
        model.policy.action_net.bias.fill_(9.0)
    action, _ = model.predict(np.zeros(3, np.float32), deterministic=True)
    assert not any(module.training for module in model.policy.modules())
    np.testing.assert_array_equal(action, [1.0, 1.0])


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("cell", ["ltc", "cfc"])
def test_predict_refuses_what_is_not_a_number(cell: str, deterministic: bool) -> None:
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(
        False
    )  # as some parts of torch do when they are imported
    try:
        with pytest.raises(ValueError, match="the circuit's state is NaN: an observation was not a number"):
            build(cell=cell).predict(np.full(3, np.nan, np.float32), deterministic=deterministic)
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


class Picture(gym.Env[Any, Any]):
    """Black squares."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros((36, 36, 1), np.uint8), {}

    def step(self, action: Any) -> Any:
        return np.zeros((36, 36, 1), np.uint8), 0.0, False, False, {}


def test_images_need_an_extractor() -> None:
    env = DummyVecEnv([Picture])
    with pytest.raises(ValueError, match=r"a circuit reads features, not images: .*features_extractor_class=NatureCNN"):
        build(env)
    build(env, features_extractor_class=NatureCNN).learn(8)
