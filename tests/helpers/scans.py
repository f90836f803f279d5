"""Scans compared: random problems, outputs with every gradient, and how near two of them are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import ncp_control as nc
from ncp_control.ops.program import Program

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def sequences(cell: nc.Cell, batch: int, time: int, dtype: torch.dtype, time_dims: int = 2) -> tuple[Any, ...]:
    """Inputs, state, elapsed, reset and mask; gradients are wanted of the first three.

    :param time_dims: dimensions of elapsed: 0 for a scalar, 1 for (B,), 2 for (B, T)
    """
    elapsed = {0: torch.rand(()), 1: torch.rand(batch), 2: torch.rand(batch, time)}[time_dims].to(dtype) + 0.1
    tensors = (
        torch.randn(batch, time, cell.inputs, dtype=dtype),
        torch.randn(batch, cell.state_size, dtype=dtype),
        elapsed,
    )
    for tensor in tensors:
        tensor.requires_grad_()
    return (*tensors, torch.rand(batch, time) < 0.2, torch.rand(batch, time) < 0.8)


def outputs_and_gradients(backend: str, cell: nc.Cell, tensors: Sequence[Any], weights: Tensor) -> dict[str, Tensor]:
    """States, outputs and every gradient that is wanted, by name; zeros for a tensor that neither depends on."""
    wanted = dict(zip(("inputs", "state", "elapsed"), tensors[:3], strict=True)) | dict(cell.named_parameters())
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    outputs, _, states = nc.RNN(cell, backend)(*tensors, states=True)
    loss = (states * weights).sum() + (outputs * weights[..., -outputs.shape[-1] :]).sum()
    grads = torch.autograd.grad(loss, list(wanted.values()), materialize_grads=True)
    return {"states": states.detach(), "outputs": outputs.detach()} | dict(zip(wanted, grads, strict=True))


def only_wanted(cell: nc.Cell, tensors: Sequence[Any], wanted: str) -> None:
    """Wants the gradient of one tensor alone: "inputs", "state", "elapsed", or a parameter's name."""
    named = dict(zip(("inputs", "state", "elapsed"), tensors[:3], strict=True)) | dict(cell.named_parameters())
    assert wanted in named
    for name, tensor in named.items():
        tensor.requires_grad_(name == wanted)


def assert_close(
    ours: dict[str, Tensor], reference: dict[str, Tensor], tolerance: float, rounding: dict[str, Tensor] | None = None
) -> None:
    """Every value is within `tolerance` of the reference, relative to its largest value.

    :param rounding: the reference in float32: four times its own error is allowed, too
    """
    assert ours.keys() == reference.keys()
    for name, want in reference.items():
        got = ours[name]
        assert got.shape == want.shape, name
        if want.numel():
            allowed = tolerance * float(want.abs().max())
            if rounding is not None:
                allowed = max(allowed, 4 * float((rounding[name] - want).abs().max()))
            assert float((got - want).abs().max()) <= allowed, name


def compare(
    run: Callable[[nc.Cell, Sequence[Any], Tensor], dict[str, Tensor]],
    cell: nc.Cell,
    batch: int,
    time: int,
    dtype: torch.dtype,
    time_dims: int = 2,
    flags: bool = True,
) -> None:
    """Holds a backend to the reference in float64.

    Where a gradient's terms cancel, the float32 reference is itself further than 1e-5 from the float64 one; so float32
    may be as inexact as that.

    :param run: `outputs_and_gradients` of the backend: takes a cell, tensors and weights
    :param flags: with resets and a mask
    """
    cell = cell.to(dtype)
    tensors = sequences(cell, batch, time, dtype, time_dims)
    if not flags:
        tensors = (*tensors[:3], None, None)
    weights = torch.randn(batch, time, cell.state_size, dtype=dtype)
    ours = run(cell, tensors, weights)
    assert all(value.dtype == dtype for value in ours.values())
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors[:3]]
    truth = outputs_and_gradients("reference", copy.deepcopy(cell).double(), (*doubles, *tensors[3:]), weights.double())
    rounding = outputs_and_gradients("reference", cell, tensors, weights) if dtype == torch.float32 else None
    assert_close(ours, truth, TOLERANCE[dtype], rounding)


def operator_arguments(program: Program) -> tuple[Any, ...]:
    """A program as the first five arguments of the torch operator."""
    present = [parameter is not None for parameter in program.parameters]
    parameters = [parameter.detach() for parameter in program.parameters if parameter is not None]
    return program.kind, list(program.settings), list(program.indexes), present, parameters
