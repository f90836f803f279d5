"""Tensors that compiled kernels cannot read as they lie in memory, and whatever follows torch's own operations.

Each odd case meets several cells. With backend="auto" it is equal to the reference on plain tensors, or a clear error;
a compiled backend that is asked for by name runs it right, or says why not. Every case runs in a fork of this process,
because what is tested once ended in a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import ncp_control as nc
from helpers.cells import build
from helpers.children import in_child
from ncp_control.ops import scan
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

CELLS = ["ltc-gaps", "neural-ltc-rk4", "cfc-pure", "lstm", "gru", "ct-gru-scales"]
Run = Callable[..., Tensor]


class Own(Tensor):
    """A subclass without anything of its own."""


class Wrapped(Tensor):
    """A subclass with no memory: another tensor holds its numbers."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        made = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def bare(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapped) else value

        plain = torch.utils._pytree.tree_map(bare, (args, kwargs or {}))
        return func(*plain[0], **plain[1])


class Watch(TorchDispatchMode):
    """A mode that only passes operations on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def default_device(name: str) -> Iterator[None]:
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


def on_meta_by_default(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
    with default_device("meta"):
        states = run(cell, inputs.requires_grad_(), state)
        states.sum().backward()
    return states


def of_made_up_tensors(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
    with FakeTensorMode(allow_non_fake_inputs=True):
        states = run(cell, inputs, state)
    assert states.shape == (*inputs.shape[:2], cell.state_size)
    return scan(cell, inputs, state, backend="reference")


def traced(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor, pre_dispatch: bool = False) -> Tensor:
    graph = make_fx(lambda x: run(cell, x, state), pre_dispatch=pre_dispatch)(torch.ones_like(inputs))
    return graph(inputs)


def pushed_forward(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
    """The tangent is the derivative that backward passes give; what comes out are the states."""
    direction = torch.randn_like(inputs)
    with forward_ad.dual_level(), torch.no_grad():
        states, tangent = forward_ad.unpack_dual(run(cell, forward_ad.make_dual(inputs, direction), state))
    given = inputs.detach().requires_grad_()
    want = torch.autograd.functional.jvp(lambda x: scan(cell, x, state, backend="reference"), given, direction)[1]
    assert tangent is not None
    torch.testing.assert_close(tangent, want)
    return states


def watched(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
    with Watch():
        return run(cell, inputs, state)


def with_parameter(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The cell with its first parameter made anew; after a scan with the old one, which may have been remembered."""

    def case(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
        run(cell, inputs, state)
        owner = cell if any(True for _ in cell.parameters(recurse=False)) else cell.retrieve
        name, value = next(iter(owner.named_parameters(recurse=False)))
        owner._parameters[name] = nn.Parameter(change(value.detach()), requires_grad=False)
        return run(cell, inputs, state)

    return case


def with_data(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The same for the data of the same parameter object."""

    def case(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
        run(cell, inputs, state)
        parameter = next(cell.parameters())
        parameter.data = change(parameter.data)
        return run(cell, inputs, state)

    return case


def negative_view(tensor: Tensor) -> Tensor:
    return torch._neg_view(-tensor)


def with_first(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda cell, run, inputs, state: run(cell, change(inputs), state)


def with_state(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda cell, run, inputs, state: run(cell, inputs, change(state))


def with_elapsed(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda cell, run, inputs, state: run(cell, inputs, state, elapsed=change(torch.ones(inputs.shape[:2])))


RIGHT: dict[str, Callable[..., Tensor]] = {
    "default device": on_meta_by_default,
    "fake tensors": of_made_up_tensors,
    "make_fx": traced,
    "make_fx before dispatch": lambda *given: traced(*given, pre_dispatch=True),
    "forward mode": pushed_forward,
    "dispatch mode": watched,
    "inputs of a subclass": with_first(lambda x: x.as_subclass(Own)),
    "inputs in a wrapper": with_first(Wrapped),
    "inputs with a negative bit": with_first(negative_view),
    "inputs of a conjugate": with_first(lambda x: torch.complex(x, -x).conj().imag),
    "inputs expanded": with_first(lambda x: x.expand(*x.shape)),
    "inputs transposed": with_first(lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)),
    "inputs with gaps": with_first(lambda x: torch.stack([x, x], -1)[..., 0]),
    "state with a negative bit": with_state(negative_view),
    "state of a subclass": with_state(lambda x: x.as_subclass(Own)),
    "elapsed with a negative bit": with_elapsed(negative_view),
    "elapsed of a subclass": with_elapsed(lambda x: x.as_subclass(Own)),
    "parameter of a subclass": with_parameter(lambda p: p.as_subclass(Own)),
    "parameter with a negative bit": with_parameter(negative_view),
    "data of a parameter with a negative bit": with_data(negative_view),
    "cell cast as a whole": lambda cell, run, x, h: run(cell.type(torch.float64), x, h).float(),
    "cell cast and back": lambda cell, run, x, h: run(cell.double().type(torch.float32), x, h),
    "cell on the meta device and back": lambda cell, run, x, h: run(emptied(cell), x, h),
    "cell in inference mode": lambda cell, run, x, h: in_inference_mode(cell, run, x, h),
}
REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "sparse inputs": (with_first(Tensor.to_sparse), r"inputs must be a dense tensor, .*sparse_coo: inputs\.to_dense"),
    "inputs of MKL-DNN": (with_first(lambda x: x.to_mkldnn()), r"inputs must be a dense tensor, got .*mkldnn"),
    "nested inputs": (
        with_first(lambda x: torch.nested.nested_tensor([x[0], x[1, :2]])),
        "inputs must be one dense tensor, got a nested one: pad the sequences",
    ),
    "quantised inputs": (
        with_first(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)),
        r"inputs must be floating point, got torch.qint8: convert them with inputs.dequantize\(\)",
    ),
    "sparse state": (with_state(Tensor.to_sparse), "state must be a dense tensor"),
    "sparse elapsed": (with_elapsed(Tensor.to_sparse), "elapsed must be a dense tensor"),
    "inputs elsewhere": (with_first(lambda x: x.to("meta")), "(on meta|on cpu)"),
    "longer parameter": (
        with_parameter(lambda p: torch.cat([p, p, p])),
        r"the cell's \S+ has the shape \(.*\), but this circuit needs \(",
    ),
    "shorter data": (
        with_data(lambda p: p[..., :2]),
        r"the cell's \S+ has (the shape \(.*2,?\), but|values that no wiring)",
    ),
}


def emptied(cell: nc.Cell) -> nc.Cell:
    """The cell after a way through the meta device, where uninitialised memory is filled with nonsense."""
    kept = cell.state_dict()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    cell.to("meta").to_empty(device="cpu")
    torch.use_deterministic_algorithms(False)
    cell.load_state_dict(kept)
    return cell


def in_inference_mode(cell: nc.Cell, run: Run, inputs: Tensor, state: Tensor) -> Tensor:
    with torch.inference_mode():
        made = type(cell).__new__(type(cell))
        made.__dict__.update({**cell.__dict__, "_buffers": {k: b.clone() for k, b in cell._buffers.items()}})
        first = run(made, inputs, state)
        assert torch.equal(run(made, inputs, state), first)
    return first.clone()


def problem(name: str) -> tuple[nc.Cell, Tensor, Tensor]:
    torch.manual_seed(0)
    cell = build(name)
    return cell, torch.randn(2, 3, cell.inputs), 0.1 * torch.randn(2, cell.state_size)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CELLS)
def test_what_is_odd_gives_the_states_of_plain_tensors_or_a_reason(name: str, tmp_path: Path) -> None:
    def work() -> list[str]:
        wrong = []
        for what, case in RIGHT.items():
            for backend in ("auto", "cpu"):
                cell, inputs, state = problem(name)
                want = scan(cell, inputs, state, backend="reference").detach()

                def run(cell: nc.Cell, inputs: Tensor, *rest: Any, backend: str = backend, **named: Any) -> Tensor:
                    return scan(cell, inputs, *rest, backend=backend, **named)

                try:
                    got = case(cell, run, inputs, state)
                    torch.testing.assert_close(got.detach().as_subclass(Tensor), want, rtol=1e-5, atol=1e-5)
                except RuntimeError as error:
                    if backend == "auto" or "backend 'cpu' cannot run this scan: " not in str(error):
                        wrong.append(f"{what}, {backend}: {error}")
                except Exception as error:
                    wrong.append(f"{what}, {backend}: {type(error).__name__}: {error}")
        return wrong

    assert in_child(work, tmp_path) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", REFUSED)
def test_what_no_backend_can_run_is_refused_with_its_name(what: str, tmp_path: Path) -> None:
    case, message = REFUSED[what]

    def work() -> None:
        for name in CELLS:
            for backend in ("auto", "cpu"):
                cell, inputs, state = problem(name)
                with pytest.raises((RuntimeError, TypeError, ValueError), match=message):
                    case(cell, lambda *given, b=backend, **named: scan(*given, backend=b, **named), inputs, state)

    in_child(work, tmp_path)
