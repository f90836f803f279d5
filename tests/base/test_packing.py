"""Nested values with arrays and tensors become JSON values and named tensors, and come back."""

import json

import numpy as np
import pytest
import torch

from ncp_control.base.tensors import check_optimizer, pack, unpack


def test_what_was_packed_comes_back() -> None:
    tensors: dict[str, torch.Tensor] = {}
    array = np.arange(6.0).reshape(2, 3).T
    value = {"a": [1, 2.5, None, True, "x"], 3: {"array": array, "tensor": torch.ones(2)}, "scalar": np.float32(0.5)}
    packed = json.loads(json.dumps(pack(value, tensors)))
    found = unpack(packed, tensors)
    assert found["a"] == value["a"]
    assert found["scalar"] == 0.5
    assert torch.equal(found[3]["array"], torch.from_numpy(array))
    assert torch.equal(found[3]["tensor"], torch.ones(2))


def test_a_packed_tensor_is_a_copy() -> None:
    tensors: dict[str, torch.Tensor] = {}
    weights = torch.zeros(3)
    pack({"one": weights, "same": weights}, tensors)
    weights += 1
    assert len(tensors) == 2
    assert not any(value.any() for value in tensors.values())


def stepped(kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    weights = torch.nn.Parameter(torch.ones(3))
    optimizer = kind([weights], lr=0.1)  # type: ignore[call-arg]
    weights.sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_an_optimizers_own_state_is_accepted_and_another_is_not(kind: type[torch.optim.Optimizer]) -> None:
    check_optimizer(stepped(kind))
    for name in ("step", "square_avg" if kind is torch.optim.RMSprop else "exp_avg"):
        for wrong in (None, 3, torch.ones(2)):
            optimizer = stepped(kind)
            (state,) = optimizer.state.values()
            state[name] = wrong
            with pytest.raises(ValueError, match=f"{name} in an optimizer's state does not fit its parameter"):
                check_optimizer(optimizer)
    for wrong in ("x", float("nan"), None, True):
        optimizer = stepped(kind)
        optimizer.param_groups[0]["lr"] = wrong
        with pytest.raises(ValueError, match="an optimizer cannot have lr"):
            check_optimizer(optimizer)
