"""Bounded cells: no weight, input or training takes its time constants out of the range that a user gave."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import ncp_control as nc
from helpers.cells import GAPS_7, NCP_7
from ncp_control.base.intervals import between
from ncp_control.neurons.parameters import positive
from ncp_control.neurons.ranges import Elapsed, known_of

SIGNED = {"activation": "tanh", "signed": True}
KINDS: dict[str, dict[str, Any]] = {
    "tanh": SIGNED,
    "hard_tanh": {"activation": "hard_tanh", "signed": True},
    "sigmoid": {"activation": "sigmoid"},
}


def bounded(limits: tuple[float, float] = (0.05, 20.0), **others: Any) -> nc.NeuralLTC:
    return nc.NeuralLTC(3, NCP_7, time_constants=limits, bounded=True, **(others or SIGNED))


def kernel_tau(cell: nc.NeuralLTC) -> Tensor:
    """What a kernel makes of the fourth of its parameters."""
    program = cell.program()
    assert program is not None
    assert program.parameters[3] is not None
    return positive(program.parameters[3])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    log_longest=st.floats(-3, 6),
    log_share=st.floats(-6, -0.001),
    log_size=st.floats(-2, 15),
    logit=st.sampled_from([1e3, 20.0, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@example(seed=0, log_longest=1.3, log_share=-2.6, log_size=0.0, logit=1e3, dtype=torch.float32)
@torch.no_grad()
def test_no_weight_or_input_takes_a_time_constant_out_of_its_range(
    kind: str, seed: int, log_longest: float, log_share: float, log_size: float, logit: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(seed)
    longest = 10**log_longest
    shortest = 10**log_share * longest / (1 + longest)
    cell = bounded((shortest, longest), **KINDS[kind]).to(dtype)
    for parameter in cell.parameters():
        parameter.mul_(10**log_size)
    cell.tau_logit.copy_(logit * torch.randn(7))
    found = cell.time_constants(10**log_size * torch.randn(50, 3, dtype=dtype), torch.randn(50, 7, dtype=dtype))
    low, high = cell.time_constant_bounds()
    certified = known_of(cell, Elapsed(1.0, 1.0)).time_constants(between(-9.0, 9.0, 7), between(-9.0, 9.0, 3))
    for times in (found, low, high, kernel_tau(cell), torch.from_numpy(np.stack(certified))):
        assert shortest <= times.min() <= times.max() <= longest


def test_the_bounds_are_reached_and_training_cannot_pass_them() -> None:
    for sign, slowest, fastest in ((1, 20.0, 20 / 21), (-1, 1 / 19, 0.05)):
        cell = bounded()
        optimizer = torch.optim.SGD(cell.parameters(), lr=1e4)
        for _ in range(5):
            optimizer.zero_grad()
            (-sign * cell.tau).sum().backward()
            optimizer.step()
        low, high = cell.time_constant_bounds()
        assert high.tolist() == pytest.approx([slowest] * 7, rel=3e-5)
        assert low.tolist() == pytest.approx([fastest] * 7, rel=3e-5)


@pytest.mark.parametrize("init", ["paper", "constant", "zero", "calibrated"])
def test_tau_starts_spread_over_the_range_that_is_left_but_not_at_its_ends(init: str) -> None:
    cell = nc.NeuralLTC(3, 101, time_constants=(0.5, 50.0), bounded=True, init=init, **SIGNED)
    tau, edge = cell.tau.sort().values.detach(), 50**0.05  # tau lies between 1 and 50
    assert tau[10:91].tolist() == pytest.approx(np.geomspace(1, 50, 101)[10:91].tolist(), rel=1e-4)
    assert [tau[0].item(), tau[-1].item()] == pytest.approx([edge, 50 / edge], rel=1e-4)
    if init == "calibrated":
        torch.testing.assert_close(cell.A.detach().abs(), 1 / cell.tau.detach())


def test_a_file_holds_the_free_parameter_alone(tmp_path: Path) -> None:
    cell = bounded()
    assert sorted(cell.state_dict()) == ["A", "gamma", "gamma_r", "mu", "tau_logit"]
    assert "tau_logit" not in nc.NeuralLTC(3, NCP_7, time_constants=(0.05, 20.0), **SIGNED).state_dict()
    path, inputs = tmp_path / "bounded.safetensors", torch.randn(2, 5, 3)
    nc.save(nc.RNN(cell), path)
    loaded = nc.load(path)
    assert loaded.cell.config() == cell.config()
    assert torch.equal(loaded(inputs)[0], nc.RNN(cell)(inputs)[0])


def test_other_cells_are_described_as_earlier_versions_did() -> None:
    settings = json.loads(json.dumps(nc.NeuralLTC(3, NCP_7, time_constants=(0.05, 20.0), **SIGNED).config()))
    assert "bounded" not in settings
    assert not nc.NeuralLTC(3, NCP_7, **settings).bounded


def test_an_exported_program_computes_what_the_circuit_does() -> None:
    rnn, inputs = nc.RNN(bounded()), torch.randn(2, 5, 3)
    program = torch.export.export(rnn, (inputs,)).module()
    torch.testing.assert_close(program(inputs)[0], rnn(inputs)[0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"time_constants": None}, r"needs the range .* give time_constants=\(shortest, longest\)"),
        ({"activation": "relu", "signed": False}, "relu has no upper end"),
        ({"activation": "tanh", "signed": False}, "tanh can be negative.*give signed=True"),
        ({"time_constants": (1.0, math.exp(50))}, "must be below 1, to which f alone"),
        ({"time_constants": (0.953, 20.0)}, r"must be below 0\.9524, .* got 0\.953"),
    ],
)
def test_a_range_that_cannot_be_kept_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        nc.NeuralLTC(3, 4, **{**SIGNED, "time_constants": (0.05, 20.0), "bounded": True, **changes})
    assert "\n" not in str(caught.value)


def bounded_ltc(limits: tuple[float, float] = (0.05, 20.0), plan: Any = NCP_7, **others: Any) -> nc.LTC:
    return nc.LTC(3, plan, time_constants=limits, bounded=True, **others)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    log_longest=st.floats(-3, 6),
    log_share=st.floats(-6, -0.001),
    log_size=st.floats(-2, 6),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@torch.no_grad()
def test_no_weight_or_input_takes_a_time_constant_of_an_ltc_out_of_its_range(
    seed: int, log_longest: float, log_share: float, log_size: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(seed)
    longest = 10**log_longest
    shortest = max(1e-4, 10**log_share * longest)
    cell = bounded_ltc((shortest, longest), GAPS_7).to(dtype)
    for parameter in cell.parameters():
        parameter.mul_(10**log_size).add_(torch.randn_like(parameter))
    found = cell.time_constants(10**log_size * torch.randn(50, 3, dtype=dtype), torch.randn(50, 7, dtype=dtype))
    program = cell.program()
    assert program is not None
    gleak, _, cm, gap, w, _, _, _, sensory_w, *_ = (positive(one) for one in program.parameters if one is not None)
    slow = gleak.clone()
    for ends in cell.gap_ends.unbind(1):
        slow.index_add_(0, ends, gap)
    all_open = slow.index_add(0, cell.target, w).index_add(0, cell.sensory_target, sensory_w)
    for times in (found, *cell.time_constant_bounds(), cm / all_open, cm / slow):
        assert shortest <= times.min() <= times.max() <= longest


def test_an_ltc_starts_spread_over_its_range_and_learns_to_leave_no_end_of_it() -> None:
    cell = bounded_ltc((0.5, 50.0), nc.AutoNCP(101, 20), init="centred")
    constants = cell.constants()
    with torch.no_grad():
        half_open = cell.cm / (constants.slow + 0.5 * cell._incoming_w())
        assert 0.5 < half_open.min() < 1.5 < 15 < half_open.max() < 50
        assert half_open.log().std() > 0.8
    for sign, end in ((1, 20.0), (-1, 0.05)):
        cell = bounded_ltc()
        optimizer = torch.optim.SGD(cell.parameters(), lr=1e4)
        for _ in range(5):
            optimizer.zero_grad()
            (-sign * cell.cm / cell.gleak).sum().backward()
            optimizer.step()
        least, most = cell.time_constant_bounds()
        assert (most if sign > 0 else least).tolist() == pytest.approx([end] * 7, rel=3e-5)


def test_a_file_of_a_bounded_ltc_holds_the_free_parameter_alone(tmp_path: Path) -> None:
    cell = bounded_ltc()
    assert {"gleak_raw", "cm_logit"} < set(cell.state_dict())
    assert "cm_raw" not in cell.state_dict()
    assert "bounded" not in nc.LTC(3, NCP_7, time_constants=(0.05, 20.0)).config()
    path, inputs = tmp_path / "bounded.safetensors", torch.randn(2, 5, 3)
    nc.save(nc.RNN(cell), path)
    loaded = nc.load(path)
    assert loaded.cell.config() == cell.config()
    assert torch.equal(loaded(inputs)[0], nc.RNN(cell)(inputs)[0])


def test_a_synapse_that_is_cut_changes_nothing_else_of_its_neuron() -> None:
    cell = bounded_ltc()
    less = copy.deepcopy(cell)
    with torch.no_grad():
        less.cut_synapses([0, 3], [1], [])
    torch.testing.assert_close(less.cm, cell.cm, rtol=1e-5, atol=0)
    torch.testing.assert_close(less.gleak, cell.gleak, rtol=1e-5, atol=0)
    assert less.w[[0, 3]].max() < 1e-7


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (None, r"needs the range .* give time_constants=\(shortest, longest\)"),
        (
            (1e-5, 1.0),
            r"must be at least 0.0001 and shorter than the longest, and that at most 1e\+12, got \(1e-05, 1.0\)",
        ),
        ((1.0, 1.0), "shorter than the longest"),
        ((1.0, 1e13), r"and that at most 1e\+12, got \(1.0, 10000000000000.0\)"),
        ((1.0, 1e37), r"must lie between 1e-30 and 1e\+30, got \(1.0, 1e\+37\)"),
    ],
)
def test_a_range_that_an_ltc_cannot_keep_is_refused_in_a_sentence(limits: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        nc.LTC(3, 4, time_constants=limits, bounded=True)
    assert "\n" not in str(caught.value)


WIDE: dict[str, Callable[..., nc.Cell]] = {
    "ltc": lambda plan: nc.LTC(3, plan, time_constants=(1e-4, 1e4), bounded=True),
    "neuralltc": lambda plan: nc.NeuralLTC(3, plan, time_constants=(1e-4, 1e4), bounded=True, **SIGNED),
}


@pytest.mark.parametrize("kind", WIDE)
@torch.no_grad()
def test_a_certificate_of_a_wide_range_holds_in_float64_too(kind: str) -> None:
    """As which it is exported: a power of eight decades makes the rounding of its exponent many times as large."""
    size, random = 10, torch.Generator().manual_seed(0)
    states, features = (between(-2.0, 2.0, count) for count in (size, 3))
    signs = [torch.rand(100, count, generator=random).round() * 4 - 2 for count in (3, size)]
    inner = [torch.rand(100, count, generator=random) * 4 - 2 for count in (3, size)]
    inputs, before = (torch.cat(both).double() for both in zip(signs, inner, strict=True))
    for seed in range(30):
        torch.manual_seed(seed)
        cell = WIDE[kind](nc.AutoNCP(size, 2, seed=seed))
        for parameter in cell.parameters():
            parameter.mul_(10 ** (2 * torch.rand(()) - 1)).add_(torch.randn_like(parameter))
        known = known_of(cell, Elapsed(1.0, 1.0)).time_constants(states, features)
        found = cell.double().time_constants(inputs, before).numpy()
        assert (known.low <= found).all()
        assert (found <= known.high).all()
