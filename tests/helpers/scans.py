"""Scans compared: random problems, outputs with every gradient, and how near two of them are."""

from __future__ import annotations

import torch

import ncp_control as nc

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def sequences(cell, batch, time, dtype, time_dims=2):
    """Inputs, state, elapsed, reset and mask, with gradients wanted of the first three."""
    elapsed = {0: torch.rand(()), 1: torch.rand(batch), 2: torch.rand(batch, time)}[time_dims].to(dtype) + 0.1
    tensors = (
        torch.randn(batch, time, cell.inputs, dtype=dtype),
        torch.randn(batch, cell.state_size, dtype=dtype),
        elapsed,
    )
    for tensor in tensors:
        tensor.requires_grad_()
    return (*tensors, torch.rand(batch, time) < 0.2, torch.rand(batch, time) < 0.8)


def outputs_and_gradients(backend, cell, tensors, weights):
    """States and every gradient that is wanted, by name; zeros for what plays no part."""
    wanted = dict(zip(("inputs", "state", "elapsed"), tensors[:3], strict=True)) | dict(cell.named_parameters())
    wanted = {name: tensor for name, tensor in wanted.items() if tensor.requires_grad}
    states = nc.scan(cell, *tensors, backend=backend)
    grads = torch.autograd.grad((states * weights).sum(), list(wanted.values()), materialize_grads=True)
    return {"states": states.detach()} | dict(zip(wanted, grads, strict=True))


def assert_close(ours, reference, tolerance, rounding=None):
    """Every value within `tolerance` of the largest of the reference, or within four times its own rounding."""
    assert ours.keys() == reference.keys()
    for name, want in reference.items():
        got = ours[name]
        assert got.shape == want.shape, name
        if want.numel():
            allowed = tolerance * float(want.abs().max())
            if rounding is not None:
                allowed = max(allowed, 4 * float((rounding[name] - want).abs().max()))
            assert float((got - want).abs().max()) <= allowed, name
