"""The compiled scan as one torch operator, for `torch.compile` and `torch.export`."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import ncp_control as nc
from helpers.cells import build
from helpers.scans import operator_arguments, sequences
from ncp_control.ops import operator
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

REPRESENTATIVE = ["ltc-wide", "neural-ltc-wide", "neural-ode-wide", "cfc-wide", "lstm-wide", "gru-wide", "ct-gru-wide"]


@pytest.mark.system
@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_compilers_see_one_operator(name):
    rnn = nc.RNN(build(name))
    inputs, reset = torch.randn(3, 7, 5, requires_grad=True), torch.rand(3, 7) < 0.3
    want = rnn(inputs, reset=reset)[0]
    (grad,) = torch.autograd.grad(want.square().sum(), inputs)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    got = compiled(inputs, reset=reset)[0]
    assert torch.equal(got, want)
    assert torch.equal(torch.autograd.grad(got.square().sum(), inputs)[0], grad)
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("time")},)
    exported = torch.export.export(rnn, (torch.randn(3, 7, 5),), dynamic_shapes=shapes)
    assert sum("ncp_control.scan" in str(node.target) for node in exported.graph.nodes) == 1
    longer = torch.randn(6, 4, 5)
    assert torch.equal(exported.module()(longer)[0], rnn(longer)[0])


@pytest.mark.system
def test_the_operators_fake_and_autograd_registrations_hold():
    cell = build("ltc-wide", torch.float64)
    *lists, parameters = operator_arguments(cell.program())
    parameters = [parameter.requires_grad_() for parameter in parameters]
    inputs, state, elapsed, reset, _ = sequences(cell, 3, 4, torch.float64)
    torch.library.opcheck(operator.scan, (*lists, parameters, inputs, state, elapsed, reset, None))


def test_its_name_and_its_arguments_are_those_of_exported_programs():
    assert str(operator.scan._opoverload._schema) == (
        "ncp_control::scan(str kind, SymInt[] settings, Tensor[] indexes, bool[] present, Tensor[] parameters, "
        "Tensor inputs, Tensor state, Tensor elapsed, Tensor? reset, Tensor? mask) -> Tensor"
    )


def test_a_program_with_other_counts_is_refused():
    cell = build("ltc-wide")
    kind, settings, indexes, present, parameters = operator_arguments(cell.program())
    inputs, state, elapsed = torch.randn(2, 3, 5), torch.zeros(2, cell.state_size), torch.ones(())
    with pytest.raises(ValueError, match="has 5 settings, 4 index tensors and 14 parameters, but the kernel takes 5"):
        operator.scan(kind, settings, indexes[:-1], present, parameters, inputs, state, elapsed, None, None)


def test_an_exported_program_with_indexes_out_of_range_is_refused():
    cell = build("ltc-wide")
    kind, settings, indexes, present, parameters = operator_arguments(cell.program())
    inputs, state, elapsed = torch.randn(2, 3, 5), torch.zeros(2, cell.state_size), torch.ones(())
    far = [indexes[0], indexes[1] + 10**9, *indexes[2:]]
    with pytest.raises(RuntimeError, match="ncp_control::scan cannot run: the cell's source has values that no wiring"):
        operator.scan(kind, settings, far, present, parameters, inputs, state, elapsed, None, None)


def test_a_compiled_program_holds_the_state_through_padding():
    torch.compiler.reset()  # what was compiled for other cells counts towards the limit
    rnn = nc.RNN(build("cfc-wide"))
    inputs, mask = torch.randn(3, 7, 5), torch.rand(3, 7) < 0.7
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        want = rnn(inputs, mask=mask)[1]
        assert not torch.equal(want, rnn(inputs)[1])
        assert torch.equal(compiled(inputs, mask=mask)[1], want)


STRIDED = {
    "transposed": lambda rows, time, width: torch.randn(time, rows, width).transpose(0, 1),
    "cut": lambda rows, time, width: torch.randn(rows, time + 1, width)[:, :-1],
    "of every second column": lambda rows, time, width: torch.randn(rows, time, 2 * width)[..., ::2],
}


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "aot_eager") for name in REPRESENTATIVE), ("ltc-wide", "inductor"), ("cfc-wide", "inductor")],
)
def test_a_compiled_program_has_the_gradients_of_inputs_that_lie_in_any_order_in_memory(name, backend):
    torch.compiler.reset()  # what was compiled for other cells counts towards the limit
    rnn = nc.RNN(build(name))
    compiled = torch.compile(rnn, backend=backend, fullgraph=True)

    def gradients(run, inputs, state):
        inputs, state = inputs.detach().requires_grad_(), state.detach().requires_grad_()
        loss = run(inputs, state)[0].square().sum()
        return torch.autograd.grad(loss, [inputs, state, *rnn.parameters()], allow_unused=True)

    for how, draw in STRIDED.items():
        inputs, state = draw(3, 7, 5), torch.rand(rnn.cell.state_size, 3).t()
        assert not inputs.is_contiguous()
        exact = gradients(rnn, inputs.contiguous(), state.contiguous())
        for run in (rnn, compiled):
            torch.testing.assert_close(gradients(run, inputs, state), exact, msg=lambda m, how=how: f"{how}: {m}")


def test_a_compiler_makes_few_programs_for_many_layouts():
    """Its guards compare strides, some of which may then vary; beyond eight programs torch would stop compiling."""
    torch.compiler.reset()
    rnn, counter = nc.RNN(build("cfc-wide")), CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(rnn, backend=counter, fullgraph=True)
    draw = torch.randn
    layouts = [
        draw(3, 7, 5),
        draw(7, 3, 5).transpose(0, 1),
        *(draw(3, 7, 5 + more)[..., :5] for more in (4, 6)),
        draw(3, 7, 9)[..., 2:7],
        *(draw(3, longer, 5)[:, :7] for longer in (20, 30)),
        draw(5, 3, 7).permute(1, 2, 0),
        draw(3, 1, 5).expand(3, 7, 5),
        draw(7, 3, 8).transpose(0, 1)[..., :5],
        draw(3, 14, 5)[:, ::2],
    ]
    for inputs in layouts:
        assert torch.equal(compiled(inputs)[0], rnn(inputs)[0])
    assert counter.frame_count < 8
