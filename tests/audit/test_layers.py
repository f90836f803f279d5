"""The layers behind a circuit: what they return and their derivatives lie inside of what is certified."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sb3_contrib.common.torch_layers import BatchRenorm1d
from torch import nn

from ncp_control.audit.layers import slopes_through, through
from ncp_control.base.intervals import Interval, point

ACTIVATIONS = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
    "hardtanh": nn.Hardtanh,
    "batch-renorm": lambda: BatchRenorm1d(9),
}
CASES = pytest.mark.parametrize("name", ACTIVATIONS)


def layers(name: str, scale: float = 1.0) -> list[nn.Module]:
    """Two hidden layers with this activation, partly nested, as policies have them."""
    torch.manual_seed(3)
    inner = nn.Sequential(nn.Linear(4, 9), ACTIVATIONS[name](), nn.Linear(9, 9), ACTIVATIONS[name]())
    found: list[nn.Module] = [nn.Flatten(), inner, nn.Identity(), nn.Linear(9, 3), nn.Tanh()]
    for module in nn.ModuleList(found).modules():
        if isinstance(module, BatchRenorm1d):
            for values in (module.ra_mean, module.scale.data, module.bias.data):
                values.normal_()
            module.ra_var.uniform_(0.1, 3)
        elif isinstance(module, nn.Linear):
            module.weight.data.mul_(scale)
    nn.ModuleList(found).eval().requires_grad_(False)
    return found


def boxes() -> list[Interval]:
    """Boxes of four numbers, from a point to wide ones, with float32 ends."""
    middle = np.array([0.3, -1.0, 2.0, 0.0])
    ends = [
        (middle + np.array([[-width], [width]])).astype(np.float32).astype(np.float64) for width in (0, 0.01, 0.3, 3)
    ]
    return [Interval(*end) for end in ends]


def numbers_in(box: Interval, count: int) -> torch.Tensor:
    """Random numbers in a box, half of them at corners."""
    share = torch.rand(count, len(box.low), dtype=torch.float64)
    share[::2] = share[::2].round()
    low, high = torch.as_tensor(box.low), torch.as_tensor(box.high)
    return low + share * (high - low)


@CASES
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_what_layers_return_lies_inside(name: str, scale: float) -> None:
    modules = layers(name, scale)
    for box in boxes():
        found, given = through(modules, box), numbers_in(box, 2000)
        assert found.contains(nn.Sequential(*modules)(given.float())).all()
        assert found.contains(nn.Sequential(*modules).double()(given)).all()
        nn.Sequential(*modules).float()


@CASES
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_derivatives_lie_inside_and_are_exact_at_a_point(name: str, scale: float) -> None:
    modules = layers(name, scale)
    whole = nn.Sequential(*modules).double()
    for box in boxes():
        found, given = slopes_through(modules, box), numbers_in(box, 200).requires_grad_()
        rows = [torch.autograd.grad(number.sum(), given, retain_graph=True)[0] for number in whole(given).unbind(1)]
        values = torch.stack(rows, dim=1).numpy()
        size = 1e-9 * (1 + found.size)
        assert Interval(found.low - size, found.high + size).contains(values).all()
        if not box.width.any():
            np.testing.assert_allclose(found.middle, values[0], rtol=1e-4, atol=1e-5)


def test_derivatives_are_tighter_than_the_product_of_the_weights() -> None:
    modules = layers("tanh")
    narrow = Interval(np.full(4, -0.01), np.full(4, 0.01))
    weights = [
        module.weight.abs().double() for module in nn.Sequential(*modules).modules() if isinstance(module, nn.Linear)
    ]
    product = (weights[2] @ weights[1] @ weights[0]).numpy()
    assert (slopes_through(modules, narrow).size < 0.8 * product).all()


def test_one_layer_reaches_its_range_at_corners() -> None:
    modules = [nn.Linear(4, 3), nn.SiLU()]
    box = Interval(np.full(4, -3.0), np.full(4, 3.0))
    found = through(modules, box)
    weight = modules[0].weight.detach().double()
    corners = torch.cat([3 * weight.sign(), -3 * weight.sign()]).float()
    reached = nn.Sequential(*modules)(corners).detach()
    np.testing.assert_allclose(reached.max(dim=0).values.numpy(), found.high, rtol=1e-5)
    assert (found.low >= -0.279).all()  # the least value of x sigmoid(x)


@pytest.mark.parametrize("module", [nn.Softmax(dim=-1), nn.LayerNorm(4), nn.ELU(alpha=-1.0)], ids=str)
@pytest.mark.parametrize("read", [through, slopes_through])
def test_other_layers_are_refused_in_one_sentence(module: nn.Module, read) -> None:
    with pytest.raises(ValueError, match=r"^an audit knows the layers Linear, .* and this agent has \S+") as refused:
        read([nn.Linear(4, 4), module], point(np.zeros(4)))
    assert type(module).__name__ in str(refused.value)


def test_a_class_of_ones_own_is_refused_although_it_is_derived_from_a_known_one() -> None:
    class Doubled(nn.Tanh):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(values)

    given: Sequence[nn.Module] = [Doubled()]
    with pytest.raises(ValueError, match="Doubled"):
        through(given, point(np.zeros(4)))
