"""The policies of recurrent SAC and TD3: how they act, what they train, what they refuse."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.memory_tasks import Steps, shown
from helpers.off_policy_models import CRITICS, Scaled, build, envs, of_kinds
from helpers.weights import assert_same
from ncp_control.rl import RecurrentSAC, RecurrentTD3
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.rl.policies.sequence_extractor import flat


@pytest.mark.parametrize("critic", CRITICS)
def test_gradients_that_critics_leave_out_change_no_loss(critic: str) -> None:
    """The losses of actor and critic have the same gradients with Stable-Baselines3's own critic."""
    model = build(critic=critic, gradient_steps=0)
    model.learn(90)
    windows = model.replay_buffer.sample(80).observations
    network = model.critic
    for needs in (True, False):
        actions = torch.rand(80, 2, requires_grad=needs)
        found = []
        for forward in (type(network).forward, ContinuousCritic.forward):
            network.zero_grad()
            actions.grad = None
            sum((value**2).mean() for value in forward(network, windows, actions)).backward()
            found.append(actions.grad if needs else [parameter.grad for parameter in network.parameters()])
        torch.testing.assert_close(found[0], found[1])
    with torch.no_grad():
        assert not network.extract_features(windows, network.features_extractor).requires_grad


@of_kinds
@pytest.mark.parametrize("critic", CRITICS)
def test_circuits_have_their_own_rate(critic: str, kind: Any, tmp_path: Any) -> None:
    model = build(kind, critic=critic, circuit_lr_scale=5.0, learning_rate=lambda left: 1e-3 * left)
    model.learn(60)

    def rates(trained: Any) -> list[list[tuple[float, set[str]]]]:
        found = []
        for network in (trained.actor, trained.critic):
            names = {id(parameter): name.rsplit(".", 2)[0] for name, parameter in network.named_parameters()}
            groups = network.optimizer.param_groups
            found.append([(group["lr"], {names[id(p)].split(".")[-1] for p in group["params"]}) for group in groups])
        return found

    left = model._current_progress_remaining
    ours = rates(model)
    (layers, own), critic_groups = ours[0], ours[1]
    assert layers[0] == pytest.approx(1e-3 * left)
    assert own[0] == pytest.approx(5e-3 * left)
    assert own[1] == {"rnn"}
    assert "rnn" not in layers[1]
    assert len(critic_groups) == (2 if critic == "circuit" else 1)
    assert critic_groups[0][0] == pytest.approx(1e-3 * left)
    if critic == "circuit":
        assert critic_groups[1] == own
    model.save(tmp_path / "model")
    assert rates(kind.load(tmp_path / "model", device="cpu")) == ours


@pytest.mark.parametrize(("kind", "policy"), [(RecurrentSAC, SACSequencePolicy), (RecurrentTD3, TD3SequencePolicy)])
@pytest.mark.parametrize("critic", CRITICS)
def test_a_policy_is_saved_by_itself(kind: Any, policy: Any, critic: str, tmp_path: Any) -> None:
    model = build(kind, critic=critic, cell="cfc", circuit_lr_scale=0.5, features_extractor_class=Scaled)
    model.learn(40)
    model.policy.save(tmp_path / "policy")
    loaded = policy.load(tmp_path / "policy", device="cpu")
    assert_same(model.policy.state_dict(), loaded.state_dict())
    assert loaded.circuit_kwargs == model.policy.circuit_kwargs
    state = again = None
    for seen in np.random.default_rng(0).normal(size=(3, 2, 3)).astype(np.float32):
        action, state = model.policy.predict(seen, state, deterministic=True)
        other, again = loaded.predict(seen, again, deterministic=True)
        np.testing.assert_array_equal(action, other)
        np.testing.assert_array_equal(state[0], again[0])


@of_kinds
@pytest.mark.parametrize("as_dict", [False, True])
def test_predict_returns_the_same_for_one_observation_and_for_many(kind: Any, as_dict: bool) -> None:
    model = build(kind, envs(as_dict), critic="mlp")
    with torch.no_grad():
        for parameter in model.actor.mu.parameters():
            parameter.mul_(5)
    space = model.action_space
    seen = np.random.default_rng(0).normal(size=(7, 3, 3)).astype(np.float32)
    together, alone = None, [None] * 3
    starts = np.array([False, True, False])
    actions = []
    for step, rows in enumerate(seen):
        begins = starts if step == 4 else np.zeros(3, dtype=bool)
        action, together = model.predict(shown(rows, as_dict), together, begins, deterministic=True)
        assert action.shape == (3, 2)
        assert together[0].shape == (1, 3, 9)
        for i in range(3):
            own, alone[i] = model.predict(shown(rows[i], as_dict), alone[i], begins[i : i + 1], deterministic=True)
            assert own.shape == (2,)
            assert own in space
            np.testing.assert_allclose(own, action[i], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(alone[i][0][:, 0], together[0][:, i], rtol=1e-4, atol=1e-5)
        actions.append(action)
    cell = model.actor.features_extractor.circuit.cell
    with torch.no_grad():
        state = cell.initial_state(3)
        for step, rows in enumerate(seen):
            if step == 4:
                state[1] = 0
            state = cell.step(torch.from_numpy(rows), state)
    np.testing.assert_allclose(together[0][0], state, rtol=1e-4, atol=1e-5)
    first, _ = model.predict(shown(seen[0], as_dict), deterministic=True)
    np.testing.assert_array_equal(first, actions[0])
    forgotten, _ = model.predict(shown(seen[0], as_dict), together, np.ones(3, dtype=bool), deterministic=True)
    np.testing.assert_allclose(forgotten, actions[0], atol=1e-6)
    remembered, _ = model.predict(shown(seen[0], as_dict), together, deterministic=True)
    assert np.abs(remembered - actions[0]).max() > 1e-4


def test_predict_explores_unless_it_is_told_not_to() -> None:
    model, seen = build(), np.zeros(3, np.float32)
    assert not np.array_equal(model.predict(seen)[0], model.predict(seen)[0])
    assert np.array_equal(model.predict(seen, deterministic=True)[0], model.predict(seen, deterministic=True)[0])


@of_kinds
def test_networks_take_plain_observations(kind: Any) -> None:
    """They are read as the first step of an episode."""
    model = build(kind)
    seen = torch.randn(4, 3)
    expected, _ = model.predict(seen.numpy(), deterministic=True)
    with torch.no_grad():
        acted = model.policy(seen, deterministic=True)
        np.testing.assert_allclose(model.policy.unscale_action(acted.numpy()), expected, atol=1e-6)
        assert model.critic(seen, acted)[0].shape == (4, 1)


def test_images_need_an_extractor() -> None:
    class Picture(Steps):
        def __init__(self) -> None:
            super().__init__(0, (3,))
            self.observation_space = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)

        def _observe(self) -> Any:
            return np.full((36, 36, 1), self._step, np.uint8)

    class Mean(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, 1)

        def forward(self, seen: Any) -> Any:
            return seen.flatten(1).mean(dim=1, keepdim=True)

    env = DummyVecEnv([Picture])
    with pytest.raises(ValueError, match=r"a circuit reads features, not images: .*features_extractor_class=NatureCNN"):
        build(env=env)
    model = build(env=env, features_extractor_class=Mean)
    model.learn(40)
    rows = flat(model.replay_buffer.sample(8).observations.observations, slice(None))
    features = model.actor.features_extractor.read(rows[None], slice(None))
    torch.testing.assert_close(features[:, 0], rows[:, 0, 0, 0] / 255)
