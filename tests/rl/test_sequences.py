"""The rollout buffer of equal sequences: every step once, and states that are the policy's own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")
pytest.importorskip("sb3_contrib")

from sb3_contrib.common.recurrent.type_aliases import RNNStates  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

from helpers.memory_tasks import Steps  # noqa: E402
from ncp_control.rl import RecurrentPPO  # noqa: E402
from ncp_control.rl.buffers.rollout import sequence_length  # noqa: E402
from ncp_control.rl.policies.circuit import Circuit, unroll  # noqa: E402
from ncp_control.wiring import AutoNCP  # noqa: E402

# Environments with episodes of one step, of a sequence's length, longer than a rollout; ends and time limits in turn.
LENGTHS = [(3, -5, 1, -4, 4), (-7, 7), (100,), (1,), (-4, 4, -12)]
CRITICS = ["circuit", "lstm", "mlp", "shared"]
ROLLOUT = 12


def envs(as_dict: bool = False, space: Any = None) -> DummyVecEnv:
    return DummyVecEnv([partial(Steps, i, lengths, space, as_dict) for i, lengths in enumerate(LENGTHS)])


def build(critic: str = "circuit", as_dict: bool = False, space: Any = None, **settings: Any) -> RecurrentPPO:
    """A model that is not at rest: its weights are shaken, so that values and actions depend on the memory."""
    policy_kwargs = {"cell": "ltc", "wiring": AutoNCP(9, 3), "critic": critic, "critic_units": 5}
    given = {"n_steps": ROLLOUT, "sequence": 4, "batch_size": 12, "gamma": 0.9, "gae_lambda": 0.8, **settings}
    model = RecurrentPPO("NCPPolicy", envs(as_dict, space), policy_kwargs=policy_kwargs, seed=0, device="cpu", **given)
    with torch.no_grad():
        for name, parameter in model.policy.named_parameters():
            if name.startswith(("action_net", "value_net")):
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def collect(model: RecurrentPPO, rollouts: int = 1) -> list[dict[str, Any]]:
    """Collects rollouts without training; what the policy itself saw and said in each, step by step."""
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
    """The value of the observation that a time limit cut off, seen after the whole of its episode."""
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
    judge = model.policy.lstm_critic.cell if critic in ("circuit", "lstm") else actor
    states = {"pi": actor.initial_state(len(LENGTHS)), "vf": judge.initial_state(len(LENGTHS))}
    for told in (collect_more(model) for _ in range(3)):
        for step in range(ROLLOUT):
            seen = told["seen"][step]
            if step % model.rollout_buffer.sequence == 0:
                kept = {"pi": model.rollout_buffer.states_pi, "vf": model.rollout_buffer.states_vf}
                for name, state in states.items():
                    row = torch.from_numpy(kept[name][step // model.rollout_buffer.sequence])
                    torch.testing.assert_close(row[:, : state.shape[1]], state, rtol=0, atol=1e-6)
                    assert (row[:, state.shape[1] :] == 0).all()
            for name, cell in (("pi", actor), ("vf", judge)):
                begins = seen[:, 2] == 0  # as the observations say
                with torch.no_grad():
                    states[name] = cell.step(seen, torch.where(begins[:, None], 0.0, states[name]))
            assert torch.equal(begins, told["starts"][step] != 0)


def collect_more(model: RecurrentPPO) -> dict[str, Any]:
    """The next rollout, where the last one ended."""
    if model._last_obs is None:
        return collect(model)[0]
    setup = model._setup_learn
    model._setup_learn = lambda *args: setup(*args, reset_num_timesteps=False)  # type: ignore[method-assign]
    try:
        return collect(model)[0]
    finally:
        del model._setup_learn


SPACES = [
    gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    gym.spaces.Discrete(3),
    gym.spaces.MultiDiscrete([2, 3]),
    gym.spaces.MultiBinary(3),
]


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
    # a memory that is wrong would have been seen
    states = [tensor + 1 for tensor in samples.lstm_states.pi]
    wrong = model.policy.evaluate_actions(*given[:2], samples.lstm_states._replace(pi=states), given[3])[1]
    assert (wrong - samples.old_log_prob).abs().max() > 1e-3


def test_the_first_ratio_is_one() -> None:
    """With one minibatch an epoch and one epoch, PPO sees no difference from the policy that collected."""
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


# One scan is the steps one after the other.


def by_hand(circuit: Circuit, features: Any, state: Any, starts: Any) -> tuple[Any, Any]:
    """Outputs (S, T, O) and last state (S, N), by the cell's own step."""
    outputs = []
    for t in range(features.shape[1]):
        state = torch.where(starts[:, t, None], circuit.cell.initial_state(len(state)), state)
        state = circuit.cell.step(features[:, t], state)
        outputs.append(circuit.cell.motor(state))
    return torch.stack(outputs, dim=1), state


def gradients(circuit: Circuit, loss: Any, *inputs: Any) -> list[Any]:
    return list(torch.autograd.grad(loss, [*inputs, *circuit.parameters()]))


@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize(("sequences", "steps"), [(1, 1), (3, 1), (1, 7), (5, 9)])
@pytest.mark.parametrize(("cell", "wiring"), [("ltc", AutoNCP(9, 3)), ("cfc", AutoNCP(9, 3)), ("lstm", 4), ("gru", 4)])
def test_one_scan_equals_stepping(cell: str, wiring: Any, sequences: int, steps: int, room: int) -> None:
    circuit = Circuit(3, wiring, cell).double()
    features = torch.randn(sequences, steps, 3, dtype=torch.float64, requires_grad=True)
    packed = torch.randn(1, sequences, circuit.hidden_size + room, dtype=torch.float64, requires_grad=True)
    starts = torch.rand(sequences, steps) < 0.3
    unused = torch.zeros_like(packed)
    outputs, (last, second) = unroll(circuit, features.reshape(-1, 3), (packed, unused), starts.double().flatten())
    expected, state = by_hand(circuit, features, packed[0, :, : circuit.hidden_size], starts)
    assert last.shape == packed.shape
    assert second is unused
    torch.testing.assert_close(outputs, expected.flatten(0, 1), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(last[0, :, : circuit.hidden_size], state, rtol=1e-10, atol=1e-10)
    assert (last[0, :, circuit.hidden_size :] == 0).all()
    weights = torch.randn_like(outputs)
    ours = gradients(circuit, (weights * outputs).sum() + last.sum(), features, packed)
    theirs = gradients(circuit, (weights * expected.flatten(0, 1)).sum() + state.sum(), features, packed)
    for got, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("critic", CRITICS)
def test_the_order_of_sequences_does_not_matter_to_gradients(critic: str) -> None:
    model = build(critic)
    size = model.policy.lstm_hidden_state_shape[2]
    seen, actions, weights = torch.randn(6, 4, 3), torch.randn(6, 4, 2), torch.randn(6, 4)
    pi, vf, starts = torch.randn(6, size), torch.randn(6, size), (torch.rand(6, 4) < 0.3).float()
    found = []
    for order in (torch.arange(6), torch.tensor([3, 0, 5, 1, 4, 2])):
        rows = [values[order].flatten(0, 1) for values in (seen, actions, starts, weights)]
        states = RNNStates((pi[None, order],) * 2, (vf[None, order],) * 2)
        model.policy.zero_grad()
        values, log_probs, entropy = model.policy.evaluate_actions(rows[0], rows[1], states, rows[2])
        (rows[3] * (values[:, 0] + log_probs) + entropy).sum().backward()
        found.append({name: parameter.grad.clone() for name, parameter in model.policy.named_parameters()})
    assert all(gradient.abs().sum() > 0 for gradient in found[0].values() if gradient.numel())
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_the_policy_runs_its_critic_over_the_same_sequences(critic: str) -> None:
    """Values from one call equal those of the critic stepped by hand, whatever its size."""
    model = build(critic)
    policy = model.policy
    size = policy.lstm_hidden_state_shape[2]
    assert size == {"circuit": 9, "lstm": 10, "mlp": 9, "shared": 9}[critic]
    seen, starts = torch.randn(3, 6, 3), torch.rand(3, 6) < 0.3
    states = torch.randn(3, size)
    both = (states[None], states[None])
    with torch.no_grad():
        values = policy.predict_values(seen.flatten(0, 1), both, starts.float().flatten()).reshape(3, 6)
        if critic == "mlp":
            latent = policy.critic(seen)
        else:
            circuit = policy.lstm_actor if critic == "shared" else policy.lstm_critic
            latent, _ = by_hand(circuit, seen, states[:, : circuit.hidden_size], starts)
        torch.testing.assert_close(values, policy.value_net(latent)[..., 0], rtol=1e-5, atol=1e-6)


def test_a_shared_circuit_is_not_trained_by_the_critic() -> None:
    model = build("shared")
    size = model.policy.lstm_hidden_state_shape[2]
    states = (torch.zeros(1, 2, size),) * 2
    model.policy.predict_values(torch.randn(6, 3), states, torch.zeros(6)).sum().backward()
    reached = {name.split(".")[0] for name, parameter in model.policy.named_parameters() if parameter.grad is not None}
    assert reached == {"value_net"}
