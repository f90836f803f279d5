"""What a scan and an RNN mean: the same as stepping by hand, whatever is reset, masked, split, batched or converted."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.cells import ZOO, build, names, runs, tolerance
from ncp_control.neurons import CTRNN, MixedMemory
from ncp_control.ops import available_backends, scan
from ncp_control.rnn import RNN

EXACT = names(exact=True)
RUNS = runs()
SIZES = [(1, 1), (1, 33), (3, 17), (17, 3), (33, 1)]
ADAPTIVE_SIZES = [(1, 1), (3, 2), (17, 1)]  # dopri5 is slow


def double(name: str, backend: str) -> RNN:
    return RNN(build(name, torch.float64, shaken=0.1), backend)


def sequence(rnn: RNN, batch: int = 5, time: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Random inputs (B, T, I), a first state (B, N) and elapsed times (B, T), in the cell's float type."""
    inputs = torch.randn(batch, time, rnn.cell.inputs, dtype=rnn.cell.dtype)
    state = torch.rand(batch, rnn.cell.state_size, dtype=rnn.cell.dtype) - 0.5
    return inputs, state, 0.1 + 0.6 * torch.rand(batch, time, dtype=rnn.cell.dtype)


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_scan_is_a_loop_over_steps(name: str, backend: str) -> None:
    rnn = double(name, backend)
    for batch, time in SIZES if name in EXACT else ADAPTIVE_SIZES:
        check_loop(rnn, batch, time)


@torch.no_grad()
def check_loop(rnn: RNN, batch: int, time: int) -> None:
    inputs, first, elapsed = sequence(rnn, batch, time)
    outputs, last, states = rnn(inputs, first, elapsed, states=True)
    assert outputs.shape == (batch, time, rnn.cell.outputs)
    assert last.shape == (batch, rnn.cell.state_size)
    assert states.shape == (batch, time, rnn.cell.state_size)
    state = first
    for t in range(time):
        state = rnn.cell.step(inputs[:, t], state, elapsed[:, t])
        torch.testing.assert_close(states[:, t], state, **tolerance(rnn.cell))
        torch.testing.assert_close(outputs[:, t], rnn.cell.motor(state), **tolerance(rnn.cell))
    assert torch.equal(last, states[:, -1])
    assert torch.equal(states, scan(rnn.cell, inputs, first, elapsed, backend=rnn.backend))
    assert (states[:, 0] != first).any()


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_rnn_step_is_one_step_of_the_sequence(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn, time=1)
    outputs, last = rnn(inputs, first, elapsed)
    one, state = rnn.step(inputs[:, 0], first, elapsed[:, 0])
    torch.testing.assert_close(one, outputs[:, 0], **tolerance(rnn.cell))
    torch.testing.assert_close(state, last, **tolerance(rnn.cell))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_without_a_state_it_starts_from_the_initial_state(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, _, elapsed = sequence(rnn)
    initial = rnn.initial_state(5)
    assert initial.shape == (5, rnn.cell.state_size)
    assert initial.dtype == torch.float64
    assert not initial.any()
    assert torch.equal(rnn(inputs, elapsed=elapsed)[0], rnn(inputs, initial, elapsed)[0])


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_reset_starts_a_separate_run(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn, batch=3)
    # Row 0 is never reset, row 1 before its first step, row 2 before steps 2 and 5.
    reset = torch.zeros(3, 9, dtype=torch.bool)
    reset[1, 0] = reset[2, 2] = reset[2, 5] = True
    runs = {0: [(0, 9)], 1: [(0, 9)], 2: [(0, 2), (2, 5), (5, 9)]}
    with torch.no_grad():
        outputs, last, states = rnn(inputs, first, elapsed, reset, states=True)
        for row, parts in runs.items():
            for start, stop in parts:
                state = None if reset[row, start] else first[row, None]
                part = slice(start, stop)
                alone = rnn(inputs[row, None, part], state, elapsed[row, None, part], states=True)
                torch.testing.assert_close(outputs[row, part], alone[0][0], **tolerance(rnn.cell))
                torch.testing.assert_close(states[row, part], alone[2][0], **tolerance(rnn.cell))
            torch.testing.assert_close(last[row], alone[1][0], **tolerance(rnn.cell))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_reset_leaves_other_rows_alone(name: str, backend: str) -> None:
    rnn = RNN(build(name), backend)
    inputs, first, elapsed = sequence(rnn)
    reset = torch.zeros(5, 9, dtype=torch.bool)
    reset[0, 3] = True
    with torch.no_grad():
        before = rnn(inputs, first, elapsed, torch.zeros_like(reset), states=True)[2]
        after = rnn(inputs, first, elapsed, reset, states=True)[2]
    assert torch.equal(before, rnn(inputs, first, elapsed, states=True)[2])
    assert torch.equal(before[0, :3], after[0, :3])
    assert not torch.equal(before[0, 3:], after[0, 3:])
    if name in EXACT:
        assert torch.equal(before[1:], after[1:])
    else:
        torch.testing.assert_close(before[1:], after[1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_row_is_the_same_alone_and_in_a_batch(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn)
    reset, mask = torch.rand(5, 9) < 0.2, torch.rand(5, 9) < 0.8
    with torch.no_grad():
        together = rnn(inputs, first, elapsed, reset, mask, states=True)
        for row in range(5):
            one = slice(row, row + 1)
            alone = rnn(inputs[one], first[one], elapsed[one], reset[one], mask[one], states=True)
            for whole, part in zip(together, alone, strict=True):
                torch.testing.assert_close(whole[one], part, **tolerance(rnn.cell))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_split_sequence_carries_on_where_it_stopped(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn)
    reset, mask = torch.rand(5, 9) < 0.2, torch.rand(5, 9) < 0.8
    with torch.no_grad():
        outputs, last = rnn(inputs, first, elapsed, reset, mask)
        state, parts = first, []
        for part in (slice(0, 1), slice(1, 6), slice(6, 9)):
            part_outputs, state = rnn(inputs[:, part], state, elapsed[:, part], reset[:, part], mask[:, part])
            parts.append(part_outputs)
    torch.testing.assert_close(outputs, torch.cat(parts, dim=1), **tolerance(rnn.cell))
    torch.testing.assert_close(last, state, **tolerance(rnn.cell))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_padding_behind_the_end_changes_nothing(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn, batch=4)
    lengths = [9, 1, 4, 0]
    mask = torch.arange(9) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        outputs, last, states = rnn(inputs, first, elapsed, mask=mask, states=True)
        for row, length in enumerate(lengths):
            one = slice(row, row + 1)
            short = rnn(inputs[one, :length], first[one], elapsed[one, :length], states=True)
            for whole, part in zip((outputs[one, :length], last[one], states[one, :length]), short, strict=True):
                torch.testing.assert_close(whole, part, **tolerance(rnn.cell))
            # Through the padding, state and outputs hold still.
            assert torch.equal(states[row, length:], last[row].expand(9 - length, -1))
            torch.testing.assert_close(outputs[row, length:], rnn.cell.motor(states[row, length:]))


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_a_gap_in_the_middle_is_skipped(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn)
    keep = [0, 1, 4, 5, 8]
    mask = torch.zeros(5, 9, dtype=torch.bool)
    mask[:, keep] = True
    with torch.no_grad():
        whole = rnn(inputs, first, elapsed, mask=mask, states=True)
        kept = rnn(inputs[:, keep], first, elapsed[:, keep], states=True)
    torch.testing.assert_close(whole[0][:, keep], kept[0], **tolerance(rnn.cell))
    torch.testing.assert_close(whole[1], kept[1], **tolerance(rnn.cell))


@pytest.mark.parametrize(("what", "poison"), [("inputs", math.nan), ("inputs", math.inf), ("elapsed", math.nan)])
@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_what_fills_the_padding_reaches_nothing(name: str, backend: str, what: str, poison: float) -> None:
    mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    results = []
    for fill in (0.5, poison):
        rnn = double(name, backend)
        torch.manual_seed(5)
        inputs, first, elapsed = sequence(rnn, batch=3, time=3)
        padded = inputs if what == "inputs" else elapsed
        padded[~mask] = fill
        inputs.requires_grad_(), first.requires_grad_(), elapsed.requires_grad_()
        outputs, last, states = rnn(inputs, first, elapsed, mask=mask, states=True)
        (outputs.sum() + last.sum() + states.pow(2).sum()).backward()
        gradients = [value.grad for value in (*rnn.parameters(), inputs, first, elapsed)]
        results.append([outputs, last, states, *[gradient for gradient in gradients if gradient is not None]])
    for clean, poisoned in zip(*results, strict=True):
        torch.testing.assert_close(poisoned, clean, **tolerance(rnn.cell))


@pytest.mark.parametrize("backend", [name for name, (able, _) in available_backends().items() if able])
def test_a_scan_called_by_itself_keeps_padding_out_of_the_gradients(backend: str) -> None:
    cell = build("ltc-sparse")
    inputs = torch.randn(1, 3, 3)
    inputs[0, 2] = math.nan
    scan(cell, inputs, mask=torch.tensor([[True, True, False]]), backend=backend).sum().backward()
    gradients = [parameter.grad for parameter in cell.parameters() if parameter.grad is not None]
    assert len(gradients) > 8
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_reset_within_padding_still_resets() -> None:
    cell = build("ltc-sparse")
    flags = torch.tensor([[False, True, False]])
    states = scan(cell, torch.randn(1, 3, 3), reset=flags, mask=~flags)
    assert states[0, 0].any()
    assert not states[0, 1].any()


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_elapsed_of_every_shape_means_the_same(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, _ = sequence(rnn, time=3)
    rows = torch.tensor([0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64)
    with torch.no_grad():
        number = rnn(inputs, first, 0.3)[0]
        for shape in ((), (5,), (5, 3)):
            same = torch.full(shape, 0.3, dtype=torch.float64)
            torch.testing.assert_close(rnn(inputs, first, same)[0], number, **tolerance(rnn.cell))
        per_row = rnn(inputs, first, rows)[0]
        torch.testing.assert_close(per_row, rnn(inputs, first, rows[:, None].expand(5, 3))[0], **tolerance(rnn.cell))
        torch.testing.assert_close(per_row[1], number[1], **tolerance(rnn.cell))
    inner = rnn.cell.cell if isinstance(rnn.cell, MixedMemory) else rnn.cell
    if inner.uses_elapsed:
        assert (per_row[4] - number[4]).abs().max() > 1e-4


def test_as_many_rows_as_steps_makes_elapsed_one_a_row() -> None:
    rnn = double("ltc-sparse", "reference")
    inputs, first, _ = sequence(rnn, batch=3, time=3)
    rows = torch.tensor([0.1, 0.5, 2.0]).double()
    torch.testing.assert_close(rnn(inputs, first, rows)[0], rnn(inputs, first, rows[:, None].expand(3, 3))[0])


@pytest.mark.parametrize(("name", "backend"), runs(ode=True))
def test_no_elapsed_time_holds_an_ode_still(name: str, backend: str) -> None:
    rnn = RNN(build(name, shaken=0.1), backend)
    inputs, first, elapsed = sequence(rnn, time=4)
    # The reference holds bit for bit; other backends may round.
    allowed = 0.0 if backend == "reference" and name in EXACT else 1e-6
    with torch.no_grad():
        for nothing in (0.0, 0, torch.tensor(0.0), torch.zeros(5), torch.zeros(5, 4)):
            states = rnn(inputs, first, nothing, states=True)[2]
            torch.testing.assert_close(states, first[:, None].expand_as(states), rtol=allowed, atol=allowed)
        elapsed[2, 3] = 0
        states = rnn(inputs, first, elapsed, states=True)[2]
    torch.testing.assert_close(states[2, 3], states[2, 2], rtol=allowed, atol=allowed)
    assert (states[1, 3] - states[1, 2]).abs().max() > 1e-4


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_no_steps_and_no_rows(name: str, backend: str) -> None:
    rnn = RNN(build(name), backend)
    cell = rnn.cell
    _, first, _ = sequence(rnn)
    outputs, last, states = rnn(torch.zeros(5, 0, cell.inputs), first, states=True)
    assert (outputs.shape, states.shape) == ((5, 0, cell.outputs), (5, 0, cell.state_size))
    assert torch.equal(last, first)
    _, last = rnn(torch.zeros(5, 0, cell.inputs), elapsed=torch.zeros(5, 0))
    assert torch.equal(last, rnn.initial_state(5))
    for time in (0, 3):
        empty = torch.zeros(0, time, dtype=torch.bool)
        outputs, last, states = rnn(
            torch.zeros(0, time, cell.inputs), elapsed=torch.ones(0, time), reset=empty, mask=empty, states=True
        )
        assert outputs.shape == (0, time, cell.outputs)
        assert last.shape == (0, cell.state_size)
        assert states.shape == (0, time, cell.state_size)


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_one_sequence_without_a_batch(name: str, backend: str) -> None:
    rnn = double(name, backend)
    inputs, first, elapsed = sequence(rnn, batch=1)
    reset, mask = torch.rand(1, 9) < 0.3, torch.rand(1, 9) < 0.8
    with torch.no_grad():
        batched = rnn(inputs, first, elapsed, reset, mask, states=True)
        single = rnn(inputs[0], first[0], elapsed[0], reset[0], mask[0], states=True)
        assert [part.dim() for part in single] == [2, 1, 2]
        for one, many in zip(single, batched, strict=True):
            assert torch.equal(one, many[0])
        assert torch.equal(rnn(inputs[0], elapsed=0.3)[0], rnn(inputs, elapsed=0.3)[0][0])


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_floats_are_computed_in_the_type_of_the_parameters(name: str, backend: str) -> None:
    for own in (torch.float32, torch.float64):
        rnn = RNN(build(name, own), backend)
        inputs, first, elapsed = sequence(rnn, batch=2, time=2)
        with torch.no_grad():
            for given in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                converted = [value.to(given) for value in (inputs, first, elapsed)]
                results = rnn(*converted, states=True)
                assert {result.dtype for result in results} == {own}
                for result, expected in zip(results, rnn(*[x.to(own) for x in converted], states=True), strict=True):
                    assert torch.equal(result, expected)
                assert rnn(inputs[:, :0].to(given), first.to(given))[1].dtype == own


def test_whole_numbers_serve_as_elapsed_reset_and_mask() -> None:
    rnn = double("ltc-sparse", "reference")
    inputs, first, _ = sequence(rnn)
    flags = torch.rand(5, 9) < 0.5
    expected = rnn(inputs, first, 1.0, flags, flags)[0]
    assert torch.equal(rnn(inputs, first, 1, flags.int(), flags.to(torch.uint8))[0], expected)
    torch.testing.assert_close(rnn(inputs, first, torch.ones(5, 9).long(), flags, flags)[0], expected)


def test_the_scan_loops_over_a_sequence_of_inputs_computed_at_once() -> None:
    """What depends on parameters alone is computed once a scan, what depends on inputs alone once for the sequence."""

    class Counting(CTRNN):
        def __init__(self) -> None:
            super().__init__(2, 3)
            self.calls = {"constants": 0, "sense": 0, "advance": 0}

        def constants(self) -> Any:
            self.calls["constants"] += 1
            return super().constants()

        def sense(self, constants: Any, inputs: Tensor) -> Tensor:
            self.calls["sense"] += 1
            return super().sense(constants, inputs)

        def advance(self, constants: Any, sensed: Tensor, state: Tensor, elapsed: Any) -> Tensor:
            self.calls["advance"] += 1
            return super().advance(constants, sensed, state, elapsed)

    cell = Counting()
    scan(cell, torch.zeros(4, 7, 2), backend="reference")
    assert cell.calls == {"constants": 1, "sense": 1, "advance": 7}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # sizes are constants of a trace
@pytest.mark.parametrize("name", ["ltc-sparse", "cfc-sparse", "lstm"])
def test_a_trace_computes_what_it_traced(name: str) -> None:
    name = next(one for one in ZOO if one.startswith(name.split("-")[0]))
    rnn = RNN(build(name))
    inputs = torch.randn(2, 4, rnn.cell.inputs)
    with torch.no_grad():
        traced = torch.jit.trace(rnn, (inputs,))
        other = torch.randn(2, 4, rnn.cell.inputs)
        for found, expected in zip(traced(other), rnn(other), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
