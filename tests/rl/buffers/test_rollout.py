"""The rollout buffer of equal sequences: every step once, and states that are the policy's own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from helpers.collecting_models import CRITICS, LENGTHS, ROLLOUT, SPACES, build
from ncp_control.rl import RecurrentPPO
from ncp_control.rl.buffers.rollout import sequence_length


def collect(model: RecurrentPPO, rollouts: int = 1) -> list[dict[str, Any]]:
    """Collects rollouts without training, and returns what the policy read and returned in each, step by step."""
    _, callback = model._setup_learn(10**6, None)
    told = []
    for _ in range(rollouts):
        steps: list[dict[str, Any]] = []

        def forward(
            obs: Any, states: Any, starts: Any, deterministic: bool = False, steps: list[dict[str, Any]] = steps
        ) -> Any:
            actions, values, log_probs, after = type(model.policy).forward(
                model.policy, obs, states, starts, deterministic
            )
            if isinstance(obs, dict):
                obs = torch.cat([obs["where"], obs["when"]], dim=1)
            given = {"seen": obs, "starts": starts, "actions": actions, "values": values[:, 0], "log_probs": log_probs}
            steps.append({**given, "pi": states.pi[0][0], "vf": states.vf[0][0]})
            return actions, values, log_probs, after

        model.policy.forward = forward  # type: ignore[method-assign]
        try:
            assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
        finally:
            del model.policy.forward
        told.append({name: torch.stack([step[name] for step in steps]).clone() for name in steps[0]})
    return told


def observations(samples: Any) -> Any:
    seen = samples.observations
    return torch.cat([seen["where"], seen["when"]], dim=1) if isinstance(seen, dict) else seen


@pytest.mark.parametrize(
    ("n_steps", "wanted", "length"), [(128, 64, 64), (12, 12, 12), (12, 5, 4), (100, 64, 50), (7, 64, 7), (9, 1, 1)]
)
def test_a_sequence_is_the_largest_part_of_a_rollout_that_fits(n_steps: int, wanted: int, length: int) -> None:
    assert sequence_length(n_steps, wanted) == length


def test_a_rollout_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(ValueError, match=r"127 steps cannot be cut .* of 1: make n_steps .* such as 128"):
        sequence_length(127, 64)
    with pytest.raises(ValueError, match="make n_steps a multiple of the sequence"):
        build(n_steps=11, sequence=4)


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize("batch_size", [None, 12, 16, 1])
def test_every_step_comes_once_an_epoch_with_what_is_its_own(as_dict: bool, batch_size: int | None) -> None:
    model = build(as_dict=as_dict)
    (told,) = collect(model)
    buffer = model.rollout_buffer
    # (environment, episode, step) of every step of the rollout, and where it was in it
    place = {tuple(row.tolist()): divmod(i, len(LENGTHS)) for i, row in enumerate(told["seen"].reshape(-1, 3))}
    assert len(place) == ROLLOUT * len(LENGTHS)
    orders = []
    for _ in range(2):
        came = []
        sizes = []
        for samples in buffer.get(batch_size):
            rows = observations(samples)
            sizes.append(len(rows))
            assert samples.mask.shape == (len(rows),)
            assert (samples.mask == 1).all()
            for i, row in enumerate(rows.tolist()):
                step, env = place[tuple(row)]
                came.append((step, env))
                assert samples.episode_starts[i] == told["starts"][step, env]
                assert torch.equal(samples.actions[i], told["actions"][step, env])
                assert samples.old_values[i] == told["values"][step, env]
                assert samples.old_log_prob[i] == told["log_probs"][step, env]
                assert samples.advantages[i] == torch.tensor(buffer.advantages[step, env])
                assert samples.returns[i] == torch.tensor(buffer.returns[step, env])
                if i % buffer.sequence == 0:
                    assert torch.equal(samples.lstm_states.pi[0][0, i // buffer.sequence], told["pi"][step, env])
                    assert torch.equal(samples.lstm_states.vf[0][0, i // buffer.sequence], told["vf"][step, env])
                else:
                    assert came[-2] == (step - 1, env)  # in their order
        assert sorted(came) == sorted(place.values())
        asked = len(came) if batch_size is None else max(buffer.sequence, batch_size)
        assert sizes[:-1] == [asked // buffer.sequence * buffer.sequence] * (len(sizes) - 1)
        orders.append(came)
    assert orders[0] != orders[1]


def test_advantages_end_where_episodes_end_and_look_ahead_at_time_limits() -> None:
    model = build()
    (told,) = collect(model)
    buffer, gamma, lam = model.rollout_buffer, model.gamma, model.gae_lambda
    dones = model._last_episode_starts
    with torch.no_grad():
        last = model.policy.predict_values(
            torch.as_tensor(model._last_obs), model._last_lstm_states.vf, torch.tensor(dones).float()
        )[:, 0].numpy()
    values = np.concatenate([told["values"].numpy(), last[None]])
    ends = np.concatenate([told["starts"].numpy()[1:], dones[None]]).astype(bool)
    for env, lengths in enumerate(LENGTHS):
        advantage, expected = 0.0, np.zeros(ROLLOUT)
        for step in reversed(range(ROLLOUT)):
            _, episode, number = told["seen"][step, env].tolist()
            reward, ahead = number + 1, values[step + 1, env]
            if ends[step, env]:
                timeout = lengths[int(episode) % len(lengths)] < 0
                ahead, advantage = (value_at_the_end(model, told, step, env) if timeout else 0.0), 0.0
            advantage = reward + gamma * ahead - values[step, env] + gamma * lam * advantage
            expected[step] = advantage
        np.testing.assert_allclose(buffer.advantages[:, env], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(buffer.returns[:, env], expected + values[:-1, env], rtol=1e-5, atol=1e-5)


def value_at_the_end(model: RecurrentPPO, told: dict[str, Any], step: int, env: int) -> float:
    """Returns the value of the observation after a time limit, given the whole episode before it."""
    cell = model.policy.lstm_critic.cell
    episode = told["seen"][: step + 1, env]
    episode = episode[episode[:, 1] == episode[-1, 1]]
    assert episode[0, 2] == 0  # all of it is in this rollout
    state = cell.initial_state(1)
    with torch.no_grad():
        for row in [*episode, episode[-1] + torch.tensor([0.0, 0.0, 1.0])]:
            state = cell.step(row[None], state)
        return float(model.policy.value_net(cell.motor(state)))


@pytest.mark.parametrize("critic", CRITICS)
def test_states_before_sequences_are_those_of_the_whole_history(critic: str) -> None:
    model = build(critic)
    actor = model.policy.lstm_actor.cell
    critic_cell = model.policy.lstm_critic.cell if critic in ("circuit", "lstm") else actor
    states = {"pi": actor.initial_state(len(LENGTHS)), "vf": critic_cell.initial_state(len(LENGTHS))}
    # The kernels' tanh is off by a few roundings of 1, and no step makes an error larger: four for each of 36 steps.
    rounding = 4 * 3 * ROLLOUT * torch.finfo(torch.float32).eps
    for told in (collect_more(model) for _ in range(3)):
        for step in range(ROLLOUT):
            seen = told["seen"][step]
            if step % model.rollout_buffer.sequence == 0:
                kept = {"pi": model.rollout_buffer.states_pi, "vf": model.rollout_buffer.states_vf}
                for name, state in states.items():
                    row = torch.from_numpy(kept[name][step // model.rollout_buffer.sequence])
                    torch.testing.assert_close(row[:, : state.shape[1]], state, rtol=0, atol=rounding)
                    assert (row[:, state.shape[1] :] == 0).all()
            for name, cell in (("pi", actor), ("vf", critic_cell)):
                begins = seen[:, 2] == 0  # as the observations say
                with torch.no_grad():
                    states[name] = cell.step(seen, torch.where(begins[:, None], 0.0, states[name]))
            assert torch.equal(begins, told["starts"][step] != 0)


def collect_more(model: RecurrentPPO) -> dict[str, Any]:
    """Collects the next rollout, which begins where the last one ended."""
    if model._last_obs is None:
        return collect(model)[0]
    setup = model._setup_learn
    model._setup_learn = lambda *args: setup(*args, reset_num_timesteps=False)  # type: ignore[method-assign]
    try:
        return collect(model)[0]
    finally:
        del model._setup_learn


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize(("critic", "as_dict"), [*((critic, False) for critic in CRITICS), ("lstm", True)])
def test_what_was_collected_is_what_training_sees(space: Any, critic: str, as_dict: bool) -> None:
    model = build(critic, as_dict, space)
    for _ in range(2):
        collect_more(model)
        batches = list(model.rollout_buffer.get(12))
        assert len(batches) == 5
        for samples in batches:
            actions = samples.actions.long().flatten() if isinstance(space, gym.spaces.Discrete) else samples.actions
            given = (samples.observations, actions, samples.lstm_states, samples.episode_starts)
            with torch.no_grad():
                values, log_probs, _ = model.policy.evaluate_actions(*given)
            torch.testing.assert_close(values.flatten(), samples.old_values, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(log_probs, samples.old_log_prob, rtol=1e-5, atol=1e-5)
    # Another state would have given other numbers.
    states = [tensor + 1 for tensor in samples.lstm_states.pi]
    wrong = model.policy.evaluate_actions(*given[:2], samples.lstm_states._replace(pi=states), given[3])[1]
    assert (wrong - samples.old_log_prob).abs().max() > 1e-3


def test_the_first_ratio_is_one() -> None:
    """With one minibatch and one epoch, PPO trains the very policy that collected the rollout."""
    model = build(batch_size=None, n_epochs=1)
    logged = {}

    class Read(BaseCallback):
        def _on_rollout_start(self) -> None:
            logged.update(self.logger.name_to_value)

        def _on_step(self) -> bool:
            return True

    model.learn(2 * ROLLOUT * len(LENGTHS), callback=Read())
    assert logged["train/clip_fraction"] == 0
    assert abs(logged["train/approx_kl"]) < 1e-6
    ratios = []
    evaluate = model.policy.evaluate_actions

    def watched(*args: Any) -> Any:
        found = evaluate(*args)
        ratios.append(found[1].detach())
        return found

    collect_more(model)
    model.policy.evaluate_actions = watched  # type: ignore[method-assign]
    order = []
    get = model.rollout_buffer.get
    model.rollout_buffer.get = lambda size: (order.append(samples) or samples for samples in get(size))
    model.train()
    torch.testing.assert_close(ratios[0], order[0].old_log_prob, rtol=1e-5, atol=1e-5)


def test_a_buffer_is_sampled_only_when_full() -> None:
    with pytest.raises(ValueError, match="must be full before"):
        next(build().rollout_buffer.get(12))
