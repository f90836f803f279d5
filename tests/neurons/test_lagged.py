"""The MLP on lags: its equation, all steps at once or one after another, and what it says of itself."""

import pytest
import torch

import ncp_control as nc
from ncp_control.neurons import Held, LaggedMLP, cell_config, cell_from_config, named_cell, without_synapses


def test_lags_are_the_last_inputs() -> None:
    torch.manual_seed(1)
    rnn = nc.RNN(LaggedMLP(3, 4, lags=3))
    hidden = rnn.cell.hidden
    inputs = torch.randn(2, 6, 3)
    outputs, last = rnn(inputs)
    seen = torch.cat([inputs[:, 3], inputs[:, 4], inputs[:, 5]], -1)
    torch.testing.assert_close(outputs[:, 5], torch.tanh(hidden(seen)))
    first = torch.cat([torch.zeros(2, 6), inputs[:, 0]], -1)
    torch.testing.assert_close(outputs[:, 0], torch.tanh(hidden(first)))
    torch.testing.assert_close(last, inputs[:, 3:].flatten(1))
    one, _ = nc.RNN(LaggedMLP(3, 4, lags=1))(inputs)
    assert one.shape == (2, 6, 4)


@pytest.mark.parametrize("steps", [0, 1, 3, 7])
@pytest.mark.parametrize("lags", [1, 2, 5])
def test_all_steps_at_once_are_one_step_after_another(lags: int, steps: int) -> None:
    torch.manual_seed(2)
    rnn = nc.RNN(LaggedMLP(3, 4, lags=lags)).double()
    inputs = torch.randn(2, steps, 3, dtype=torch.float64, requires_grad=True)
    state = torch.randn(2, 3 * lags, dtype=torch.float64, requires_grad=True)
    wanted = [state]
    for t in range(steps):
        wanted.append(rnn.cell.step(inputs[:, t], wanted[-1]))
    outputs, last, states = rnn(inputs, state, states=True)
    torch.testing.assert_close(states, torch.stack([state, *wanted[1:]], 1)[:, 1:])
    torch.testing.assert_close(last, wanted[-1])
    torch.testing.assert_close(outputs, torch.tanh(rnn.cell.hidden(states)))
    if steps:
        assert torch.autograd.gradcheck(lambda *values: rnn(*values)[0], (inputs, state))


def test_a_reset_forgets_the_inputs_before_it() -> None:
    rnn = nc.RNN(LaggedMLP(2, 3))
    inputs = torch.randn(1, 6, 2)
    reset = torch.tensor([[False, False, False, True, False, False]])
    torch.testing.assert_close(rnn(inputs, reset=reset)[0][:, 3:], rnn(inputs[:, 3:])[0])


def test_currents_are_the_shares_in_the_argument_of_the_tanh() -> None:
    rnn = nc.RNN(LaggedMLP(2, 3, lags=4))
    inputs = torch.randn(1, 6, 2)
    outputs, _, states = rnn(inputs, states=True)
    before = torch.cat([rnn.initial_state(1), states[0, :-1]])
    found = rnn.cell.currents(inputs[0], before, states[0])
    target = torch.tensor(rnn.wiring.sensory.target.tolist())
    total = torch.zeros(6, 3).index_add(1, target, found.sensory) + rnn.cell.hidden.bias
    torch.testing.assert_close(torch.tanh(total), outputs[0])
    assert found.recurrent.shape == found.gap.shape == (6, 0)
    cut = nc.RNN(without_synapses(rnn.cell, [], sensory=range(6)))
    torch.testing.assert_close(cut(inputs)[0], torch.tanh(rnn.cell.hidden.bias).expand(1, 6, 3))
    one = without_synapses(rnn.cell, [], sensory=[3]).currents(inputs[0], before, states[0]).sensory
    torch.testing.assert_close(one, found.sensory * (torch.arange(6) != 3))


def test_it_says_what_it_does_not_know() -> None:
    cell = LaggedMLP(2, 3)
    assert cell.time_constants(torch.zeros(4, 2), cell.initial_state(4)).isnan().all()
    assert cell.time_constant_bounds()[1].isinf().all()
    assert all(bound.isinf().all() for bound in cell.state_bounds())
    assert not cell.guarantee.holds
    with pytest.raises(ValueError, match="none can be held"):
        Held(cell, {0: 1.0})


def test_it_is_found_by_name_and_made_again() -> None:
    assert named_cell("mlp") is named_cell("LaggedMLP") is LaggedMLP

    class MLP(nc.CfC):
        """A class of one's own goes before the short name."""

    assert named_cell("mlp", [MLP]) is MLP
    cell = LaggedMLP(2, 3, lags=4)
    again = cell_from_config(cell_config(cell), cell.wiring)
    assert isinstance(again, LaggedMLP)
    assert again.lags == 4
    with pytest.raises(ValueError, match="give it a number of neurons"):
        LaggedMLP(2, nc.FullyConnected(3))
    with pytest.raises(ValueError, match="lags must be at least 1"):
        LaggedMLP(2, 3, lags=0)
