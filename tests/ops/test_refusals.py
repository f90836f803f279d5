"""What a scan and an RNN refuse: shapes, types and values that do not fit, by name and with their sizes."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from helpers.cells import build
from ncp_control.neurons import LTC, NeuralLTC
from ncp_control.ops import scan
from ncp_control.rnn import RNN

INPUTS = torch.zeros(2, 5, 3)
WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a dimension short": ({"inputs": torch.zeros(3)}, ValueError, r"inputs must .*\(batch, time, features\).*\(3,\)"),
    "a dimension over": ({"inputs": torch.zeros(1, 2, 5, 3)}, ValueError, r"inputs must .*\(1, 2, 5, 3\)"),
    "features": ({"inputs": torch.zeros(2, 5, 4)}, ValueError, r"4 features, but the cell was built for 3"),
    "integers": ({"inputs": INPUTS.long()}, TypeError, r"floating point, got torch.int64"),
    "booleans": ({"inputs": INPUTS.bool()}, TypeError, r"floating point, got torch.bool"),
    "complex": ({"inputs": INPUTS + 1j}, TypeError, r"floating point, got torch.complex64"),
    "state size": ({"state": torch.zeros(2, 6)}, ValueError, r"state must have shape \(2, 7\), got \(2, 6\)"),
    "state rows": ({"state": torch.zeros(1, 7)}, ValueError, r"state must have shape \(2, 7\), got \(1, 7\)"),
    "state flat": ({"state": torch.zeros(7)}, ValueError, r"state must have shape \(2, 7\), got \(7,\)"),
    "state deep": ({"state": torch.zeros(1, 2, 7)}, ValueError, r"state must .*\(2, 7\), got \(1, 2, 7\)"),
    "state of whole numbers": ({"state": torch.zeros(2, 7).long()}, TypeError, r"state .*point, got torch.int64"),
    "state of one sequence": (
        {"inputs": torch.zeros(5, 3), "state": torch.zeros(1, 7)},
        ValueError,
        r"one sequence has shape \(N,\), got \(1, 7\)",
    ),
    "elapsed rows": ({"elapsed": torch.ones(5)}, ValueError, r"elapsed .*\(2,\) or \(2, 5\), got \(5,\)"),
    "elapsed column": ({"elapsed": torch.ones(2, 1)}, ValueError, r"elapsed .*\(2,\) or \(2, 5\), got \(2, 1\)"),
    "elapsed steps": ({"elapsed": torch.ones(2, 4)}, ValueError, r"elapsed .*\(2,\) or \(2, 5\), got \(2, 4\)"),
    "reset flat": ({"reset": torch.zeros(2).bool()}, ValueError, r"reset must have shape \(2, 5\), got \(2,\)"),
    "reset turned": ({"reset": torch.zeros(5, 2).bool()}, ValueError, r"reset must .*\(2, 5\), got \(5, 2\)"),
    "mask steps": ({"mask": torch.ones(2, 6).bool()}, ValueError, r"mask must have shape \(2, 5\), got \(2, 6\)"),
    "mask deep": ({"mask": torch.ones(2, 5, 1).bool()}, ValueError, r"mask must .*\(2, 5\), got \(2, 5, 1\)"),
}


@pytest.mark.parametrize("check_finite", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused_with_its_sizes(wrong: str, check_finite: bool) -> None:
    arguments, error, message = WRONG[wrong]
    rnn = RNN(build("ltc-sparse"), check_finite=check_finite)
    with pytest.raises(error, match=message):
        rnn(**{"inputs": INPUTS, **arguments})
    if arguments.get("inputs", INPUTS).dim() == 3:
        with pytest.raises(error, match=message):
            scan(rnn.cell, **{"inputs": INPUTS, **arguments})


def test_an_rnn_takes_a_cell_only() -> None:
    for other in (nn.LSTM(3, 4), LTC, 32, None):
        with pytest.raises(TypeError, match=rf"RNN needs a cell such as LTC\(8, 32\), got {type(other).__name__}"):
            RNN(other)  # type: ignore[arg-type]


def test_a_cell_and_a_wiring_must_agree_on_the_inputs() -> None:
    wiring = build("ltc-sparse").wiring
    with pytest.raises(ValueError, match="the wiring has 3 inputs, but the cell was asked for 4"):
        LTC(4, wiring)
    for other in ("32", 3.0, True, None):
        with pytest.raises(TypeError, match=r"expected a plan such as AutoNCP\(40, 16\), a Wiring or a number"):
            NeuralLTC(4, other)  # type: ignore[arg-type]


BAD: dict[str, tuple[str, tuple[int, ...], float, str]] = {
    "nan in inputs": ("inputs", (1, 2, 0), math.nan, r"^inputs\[1, 2, 0\] is nan:"),
    "inf in inputs": ("inputs", (0, 4, 2), math.inf, r"^inputs\[0, 4, 2\] is inf:"),
    "-inf in inputs": ("inputs", (0, 0, 1), -math.inf, r"^inputs\[0, 0, 1\] is -inf:"),
    "nan in state": ("state", (1, 6), math.nan, r"^state\[1, 6\] is nan:"),
    "inf in state": ("state", (0, 3), math.inf, r"^state\[0, 3\] is inf:"),
    "nan in elapsed": ("elapsed", (1, 4), math.nan, r"^elapsed\[1, 4\] is nan:"),
    "inf in elapsed": ("elapsed", (0, 0), math.inf, r"^elapsed\[0, 0\] is inf:"),
    "negative elapsed": ("elapsed", (1, 3), -0.25, r"^elapsed\[1, 3\] is -0\.25:"),
}


@pytest.mark.parametrize("bad", BAD)
def test_check_finite_names_the_position(bad: str) -> None:
    what, position, value, message = BAD[bad]
    arguments = {"inputs": torch.zeros(2, 5, 3), "state": torch.zeros(2, 7), "elapsed": torch.ones(2, 5)}
    rnn = RNN(build("ltc-sparse"), check_finite=True)
    assert torch.isfinite(rnn(**arguments)[0]).all()
    arguments[what][position] = value
    with pytest.raises(ValueError, match=message) as refusal:
        rnn(**arguments)
    assert "more" not in str(refusal.value)
    arguments[what][1, -1] = math.nan
    arguments[what][0, 1] = math.nan
    with pytest.raises(ValueError, match="more like it"):
        rnn(**arguments)
    # Without the check nothing is looked at.
    RNN(rnn.cell)(**arguments)


def test_check_finite_of_numbers_single_sequences_and_padding() -> None:
    rnn = RNN(build("ltc-sparse"), check_finite=True)
    for elapsed in (math.nan, -1.0, torch.tensor(-1.0)):
        with pytest.raises(ValueError, match=rf"^elapsed is {float(elapsed)}:"):
            rnn(torch.zeros(2, 5, 3), elapsed=elapsed)
    inputs = torch.zeros(2, 5, 3)
    inputs[1, 4] = math.nan
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, 4] = False
    assert torch.isfinite(rnn(inputs, mask=mask)[0]).all()
    with pytest.raises(ValueError, match=r"^inputs\[1, 4, 0\] is nan \(2 more like it\)"):
        rnn(inputs)
    with pytest.raises(ValueError, match=r"^inputs\[4, 0\] is nan"):
        rnn(inputs[1])


def test_check_finite_sees_what_the_network_sees() -> None:
    """A number too large for the parameters' type is an infinity to the network."""
    rnn = RNN(build("ltc-sparse"), check_finite=True)
    inputs = torch.zeros(2, 5, 3, dtype=torch.float64)
    inputs[1, 2, 0] = 1e300
    with pytest.raises(ValueError, match=r"^inputs\[1, 2, 0\] is "):
        rnn(inputs)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"inputs": np.zeros((2, 5, 3))}, TypeError, r"inputs must be a tensor, got numpy.ndarray: torch.as_tensor"),
        ({"inputs": [[0.0]]}, TypeError, "inputs must be a tensor, got list"),
        ({"inputs": None}, TypeError, "inputs must be a tensor, got NoneType"),
        ({"state": (torch.zeros(2, 7),) * 2}, TypeError, "state must be a tensor, got tuple"),
        ({"reset": np.zeros((2, 5), bool)}, TypeError, "reset must be a tensor, got numpy.ndarray"),
        ({"mask": np.ones((2, 5), bool)}, TypeError, "mask must be a tensor, got numpy.ndarray"),
        ({"elapsed": np.ones((2, 5))}, TypeError, "elapsed must be a number or a tensor, got an array"),
        ({"elapsed": "1"}, TypeError, "elapsed must be a number or a tensor, got str"),
        ({"elapsed": True}, TypeError, "elapsed must be a number or a tensor, got bool"),
        ({"elapsed": torch.zeros(2, 5).bool()}, TypeError, "a tensor of bool: is it meant for reset or mask"),
        ({"elapsed": -0.5}, ValueError, "elapsed must not be negative, got -0.5"),
    ],
)
def test_what_is_no_tensor_and_no_time_is_refused_by_name(arguments: Any, error: type[Exception], message: str) -> None:
    rnn = RNN(build("ltc-sparse"))
    for call in (rnn, partial(scan, rnn.cell)):
        with pytest.raises(error, match=message):
            call(**{"inputs": INPUTS, **arguments})
    assert rnn(INPUTS, elapsed=np.float32(0.5))[0].shape == (2, 5, 2)
