"""A circuit runs over whole sequences in one scan, which equals its steps one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates

from helpers.collecting_models import CRITICS, build, by_hand
from ncp_control.rl.policies.circuit import Circuit, unroll
from ncp_control.wiring import AutoNCP


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
    assert size == {"circuit": 9, "lstm": 10, "mlp": 9, "linear": 9, "shared": 9}[critic]
    seen, starts = torch.randn(3, 6, 3), torch.rand(3, 6) < 0.3
    states = torch.randn(3, size)
    both = (states[None], states[None])
    with torch.no_grad():
        values = policy.predict_values(seen.flatten(0, 1), both, starts.float().flatten()).reshape(3, 6)
        if critic in ("mlp", "linear"):
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


@pytest.mark.parametrize("cell", ["ltc", "cfc", "neuralltc", "dualltc", "lstm", "gru"])
def test_a_single_step_is_the_first_of_a_run_and_its_rnn_can_be_listened_to_and_check(cell: str) -> None:
    torch.manual_seed(0)
    circuit = Circuit(3, AutoNCP(9, 3) if cell not in ("lstm", "gru") else 6, cell)
    inputs, state = torch.randn(5, 1, 3), torch.randn(5, circuit.hidden_size)
    starts, heard = torch.tensor([0, 1, 0, 0, 1]).bool()[:, None], []
    circuit.rnn.register_forward_hook(lambda *_: heard.append(1))
    with torch.no_grad():
        outputs, last = circuit(inputs, state, starts)
        assert heard == [1]
        expected, states = circuit.run(inputs, state, starts)
        assert torch.equal(outputs, expected)
        assert torch.equal(last, states[:, -1])
        circuit.rnn.check_finite = True
        with pytest.raises(ValueError, match="clean the data before the network sees it"):
            circuit(inputs / 0, state, starts)
