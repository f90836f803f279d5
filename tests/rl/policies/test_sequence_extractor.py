"""The features of sampled windows are those of the episodes, step by step; and what critics read without a memory."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from helpers.memory_tasks import Steps, joined
from helpers.off_policy_models import CELLS, CRITICS, Scaled, Truth, build, envs, of_kinds
from ncp_control.rl import RecurrentSAC
from ncp_control.rl.buffers.replay import (
    NextObservations,
    ReplayWindows,
)


@pytest.mark.parametrize(("own", "as_dict"), [(False, False), (True, True)])
@pytest.mark.parametrize(("cell", "wiring"), CELLS, ids=lambda value: value if isinstance(value, str) else "")
def test_features_are_those_of_the_episode_step_by_step(cell: str, wiring: Any, own: bool, as_dict: bool) -> None:
    settings = {"features_extractor_class": Scaled} if own else {}
    model = build(env=envs(as_dict), cell=cell, wiring=wiring, gradient_steps=0, **settings)
    model.learn(120)
    batch = model.replay_buffer.sample(48)
    windows = batch.observations
    rows = joined(windows.observations)
    starts, trained = windows.starts, range(windows.burn_in, windows.starts.shape[1])
    for network in (model.actor, model.critic):
        extractor = network.features_extractor
        truth = Truth(extractor, as_dict)
        with torch.no_grad():
            now = network.extract_features(windows, extractor).reshape(12, 4, -1)
            after = network.extract_features(batch.next_observations, extractor).reshape(12, 4, -1)
        whole = 0
        for b in range(12):
            for t in trained:
                environment, episode, step = (int(value) for value in rows[b, t])
                # the state is zero where the window begins, if the episode began before
                first = max(0, step - t) if not starts[b, : t + 1].any() else 0
                whole += first == 0
                expected = truth(environment, episode, step, first)[0]
                torch.testing.assert_close(now[b, t - windows.burn_in], expected, rtol=1e-4, atol=1e-5)
                expected = truth(environment, episode, step + 1, first)[0]
                torch.testing.assert_close(after[b, t - windows.burn_in], expected, rtol=1e-4, atol=1e-5)
        assert whole > 12


class Timed(Steps):
    """Shows when = (step,), and an elapsed time that follows from it."""

    def __init__(self) -> None:
        super().__init__(0, (7, -9))
        box = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_space = gym.spaces.Dict(when=box, elapsed=box)

    def _observe(self) -> Any:
        when = np.array([self._step], np.float32)
        return {"when": when, "elapsed": 0.3 + when % 3}


@pytest.mark.parametrize("critic", CRITICS)
def test_elapsed_time_reaches_the_cells(critic: str) -> None:
    model = build(env=DummyVecEnv([Timed]), critic=critic, sequence=8, burn_in=9)
    model.learn(60)
    batch = model.replay_buffer.sample(64)
    rows, starts = batch.observations.observations["when"][..., 0], batch.observations.starts
    extractor = model.actor.features_extractor
    cell = extractor.circuit.cell
    assert cell.inputs == 1
    states = [cell.initial_state(1)]
    with torch.no_grad():
        for step in range(10):
            states.append(cell.step(torch.tensor([[float(step)]]), states[-1], 0.3 + step % 3))
        expected = torch.cat([cell.motor(state) for state in states[1:]])
        now = model.actor.extract_features(batch.observations, extractor).reshape(8, 8, -1)
        after = model.actor.extract_features(batch.next_observations, extractor).reshape(8, 8, -1)
    known = starts.cumsum(dim=1)[:, 9:] > 0  # the episode's start is in the window
    steps = rows[:, 9:].long()
    assert known.sum() > 40
    torch.testing.assert_close(now[known], expected[steps][known], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after[known], expected[steps + 1][known], rtol=1e-4, atol=1e-5)
    acted, state = model.predict({"when": np.array([0.0]), "elapsed": np.array([0.3])}, deterministic=True)
    np.testing.assert_allclose(state[0][0], states[1], rtol=1e-4, atol=1e-5)
    assert acted.shape == (2,)


def test_gradients_stop_at_the_burn_in() -> None:
    model = build(gradient_steps=0)
    model.learn(90)
    batch = model.replay_buffer.sample(200)
    rows = batch.observations.observations.clone().requires_grad_()
    following = batch.next_observations.observations.clone().requires_grad_()
    windows = ReplayWindows(rows, batch.observations.actions, batch.observations.starts, 3)
    network = model.critic
    (network.extract_features(windows, network.features_extractor) ** 2).sum().backward()
    assert (rows.grad[:, :3] == 0).all()
    assert (rows.grad[:, 3:].abs().sum(dim=2) > 0).all()
    rows.grad = None
    outputs = network.extract_features(NextObservations(windows, following), network.features_extractor)
    (outputs.reshape(50, 4, -1)[:, 2] ** 2).sum().backward()
    assert (rows.grad[:, :3] == 0).all()
    assert (rows.grad[:, 6] == 0).all()  # the step after the one that was asked about
    assert (rows.grad[:, 5].abs().sum(dim=1) > 0).all()
    begins = windows.starts[:, 5]
    assert begins.any()
    assert (rows.grad[begins, 4] == 0).all()  # another episode
    assert (rows.grad[~begins, 4].abs().sum(dim=1) > 0).all()
    assert (following.grad[:, 2].abs().sum(dim=1) > 0).all()
    assert (following.grad[:, [0, 1, 3]] == 0).all()


@of_kinds
def test_the_order_of_the_windows_does_not_matter(kind: Any) -> None:
    model = build(kind, gradient_steps=0)
    model.learn(90)
    batch = model.replay_buffer.sample(80)
    order = torch.randperm(20)
    windows, actions = batch.observations, batch.actions.reshape(20, 4, 2)
    found = []
    for chosen in (torch.arange(20), order):
        part = ReplayWindows(windows.observations[chosen], windows.actions[chosen], windows.starts[chosen], 3)
        after = NextObservations(part, batch.next_observations.observations[chosen])
        acted = actions[chosen].flatten(0, 1)
        values = [*model.critic(part, acted), *model.critic(after, acted)]
        mean = model.actor.get_action_dist_params(part)[0] if kind is RecurrentSAC else model.actor(part)
        model.policy.zero_grad()
        (sum((value**2).mean() for value in values) + (mean**2).mean()).backward()
        found.append({name: parameter.grad for name, parameter in model.policy.named_parameters()})
    for name, gradient in found[0].items():
        assert (gradient is None) == ("target" in name or "log_std" in name), name
        if gradient is not None:
            torch.testing.assert_close(gradient, found[1][name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("as_dict", [False, True])
@of_kinds
def test_a_window_is_the_last_observations_and_the_actions_between_them(kind: Any, as_dict: bool, window: int) -> None:
    model = build(kind, env=envs(as_dict), critic="window", critic_window=window, gradient_steps=0)
    model.learn(240)
    buffer = model.replay_buffer
    seen = joined({key: torch.as_tensor(value) for key, value in buffer.observations.items()} if as_dict
                  else torch.as_tensor(buffer.observations))  # fmt: skip
    acted = {tuple(row): buffer.actions[step, env]
             for step in range(buffer.size()) for env, row in enumerate(seen[step].int().tolist())}  # fmt: skip

    def expected(environment: int, episode: int, step: int) -> Any:
        parts = [np.array([environment, episode, step], dtype=np.float32)]
        for past in range(step - 1, step - window, -1):
            known = past >= 0
            parts += [np.array([environment, episode, past], dtype=np.float32) * known]
            parts += [acted[environment, episode, past] if known else np.zeros(2, dtype=np.float32)]
        return np.concatenate(parts)

    batch = model.replay_buffer.sample(200)
    extractor = model.critic.features_extractor
    now, after = extractor(batch.observations), extractor(batch.next_observations)
    trained = joined(batch.observations.observations)[:, 3:].flatten(0, 1).int().tolist()
    for row, here, there in zip(trained, now.numpy(), after.numpy(), strict=True):
        np.testing.assert_array_equal(here, expected(*row))
        np.testing.assert_array_equal(there, expected(row[0], row[1], row[2] + 1))
    assert sum(step >= window for _, _, step in trained) > 20


def test_a_burn_in_that_is_shorter_than_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="critics that read 5 observations need a burn_in of at least 4, not 3"):
        build(critic="window", critic_window=5)


@pytest.mark.parametrize("window", [0, 2.5, "five"])
def test_a_window_that_is_no_number_of_observations_is_refused(window: Any) -> None:
    with pytest.raises(ValueError, match="critic_window is a number of observations, at least 1"):
        build(critic="window", critic_window=window)
