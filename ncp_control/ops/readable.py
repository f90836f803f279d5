"""Whether compiled kernels can read a problem: they follow the addresses of tensors, and nothing checks what they read.

The question comes before every scan, even before a single step of a controller. So a quick check of all tensors comes
first, and only if it finds something is there a search for the sentence that says what is wrong.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ncp_control.ops.kinds import Index, shapes_of
from ncp_control.ops.problem import Elapsed, ScanProblem
from ncp_control.ops.program import Program

COMPILED_TYPES = (torch.float32, torch.float64)
PLAIN = frozenset((Tensor, Parameter))
_version, _bytes = attrgetter("_version"), attrgetter("nbytes")


def not_compiled(problem: ScanProblem, kinds: Sequence[str]) -> str | None:
    """Why compiled kernels of these kinds cannot run `problem`; None if they can, and its program is settled."""
    program, inputs = problem.program, problem.inputs
    if inputs.dtype not in COMPILED_TYPES:
        return f"compiled for float32 and float64, not for {inputs.dtype}"
    if program is None or program.kind not in kinds:
        return f"{type(problem.cell).__name__} with these settings has no compiled form"
    if torch.compiler.is_compiling():  # these tensors are stand-ins; the operator looks at the real ones when it runs
        return _mixed(program, inputs)
    obstacle = watched()
    if obstacle is not None:
        return obstacle
    tensors = (inputs, problem.state, problem.elapsed, problem.reset, problem.mask)
    readable = None if _any_odd(tensors) else settled(program, inputs, problem.state)
    if readable is None:
        return unreadable(program, *tensors)
    problem.program = readable
    return None


def watched() -> str | None:
    """What follows torch's own operations here, and so would miss a compiled scan; None if nothing does."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return "torch.jit.trace records torch's own operations, and a compiled scan has none"
    if torch._C._are_functorch_transforms_active():
        return "torch.func transforms torch's own operations, and a compiled scan has none"
    if forward_ad._current_level >= 0:
        return "forward-mode derivatives follow torch's own operations, and a compiled scan has none"
    if is_in_torch_dispatch_mode():
        return "a mode such as FakeTensorMode or make_fx follows torch's own operations, and a compiled scan has none"
    return None


def unreadable(
    program: Program, inputs: Tensor, state: Tensor, elapsed: Elapsed, reset: Tensor | None, mask: Tensor | None
) -> str | None:
    """Why kernels cannot read these tensors; None if they can.

    The devices and the float types of the last five are taken as equal, and their shapes as checked.
    """
    if not _any_odd((inputs, state, elapsed, reset, mask)) and settled(program, inputs, state) is not None:
        return None
    named = {"inputs": inputs, "state": state, "elapsed": elapsed, "reset": reset, "mask": mask}
    given = {name: tensor for name, tensor in named.items() if isinstance(tensor, Tensor)}
    return next(_obstacles(program, inputs, state, given), None)


def unlike(problem: ScanProblem) -> str | None:
    """What is wrong with the tensors of a problem for any backend; None if nothing is, or if nothing is known."""
    if problem.program is None:
        return None
    return next(_obstacles(problem.program, problem.inputs, problem.state, {}), None)


def odd_gradient(gradient: Tensor | None) -> str | None:
    """Why the backward kernels cannot read a gradient; None if they can, and for None."""
    if gradient is None:
        return None
    if type(gradient) not in PLAIN or gradient.layout is not torch.strided:
        kind = f"{type(gradient).__name__} of layout {gradient.layout}"
        return f"the gradient of the states is a {kind}, not a plain tensor"
    try:
        stored = gradient.data_ptr() or not gradient.numel()
    except RuntimeError:  # a batch of gradients, as in a vectorised jacobian
        stored = False
    return None if stored else "the gradient of the states is not in memory"


def _any_odd(tensors: tuple[Elapsed | None, ...]) -> bool:
    """Whether a tensor among these is odd."""
    return any([isinstance(tensor, Tensor) and odd(tensor) for tensor in tensors])


def odd(tensor: Tensor) -> bool:
    """Whether a tensor is not what it is in memory: of another class, with the other sign, or without an address."""
    return type(tensor) not in PLAIN or tensor.is_neg() or (not tensor.data_ptr() and tensor.numel() > 0)


class Settled(NamedTuple):
    """What was found of a program's tensors when they were looked at.

    :param mark: where they lie in memory and how, the problem's sizes, and the program's settings
    :param kept: what backends keep for as long as the mark is the same
    :param tensors: the tensors, held weakly
    """

    mark: list[Any]
    kept: dict[str, Any]
    tensors: list[weakref.ref[Tensor]]


# The programs that were found readable, by the identities of their tensors; an entry goes with the first that does.
_READABLE: dict[tuple[int, ...], Settled] = {}


def settled(program: Program, inputs: Tensor, state: Tensor) -> Program | None:
    """Returns the program with what backends keep for its tensors; None if kernels cannot read these.

    The tensors are looked at again, and what was kept is forgotten, once one of them is not where or as it was.
    """
    kind, settings, indexes, parameters, motor, _ = program
    given = parameters if motor is None else parameters + motor[2:]
    floats = [tensor for tensor in given if tensor is not None]
    tensors = [*indexes, *floats]
    key = tuple(map(id, indexes + given))  # cheaper than to hash a program; a tensor that goes takes its entry with it
    try:
        mark: list[Any] = [*map(Tensor.data_ptr, tensors), *map(_bytes, floats), *map(Tensor.is_contiguous, floats)]
    except RuntimeError:  # a sparse tensor has no one address
        return None
    mark += (kind, settings, motor and motor[:2], inputs.shape[2], state.shape[1], inputs.dtype, inputs.get_device())
    if indexes and not indexes[0].is_inference():  # tensors made in inference mode do not count their versions
        mark += map(_version, indexes)
    known = _READABLE.get(key)
    if known is None or known.mark != mark:
        if any(_obstacles(program, inputs, state, {})):
            return None

        def forget(_: object) -> None:
            _READABLE.pop(key, None)

        known = _READABLE[key] = Settled(mark, {}, [weakref.ref(tensor, forget) for tensor in tensors])
    return Program(kind, settings, indexes, parameters, motor, known.kept)


def _mixed(program: Program, inputs: Tensor) -> str | None:
    """Why a program does not fit the inputs, judged by devices and types alone; None if it does."""
    motor = () if program.motor is None else program.motor[2:]
    parameters = [parameter for parameter in (*program.parameters, *motor) if parameter is not None]
    for tensor in (*parameters, *program.indexes):
        if tensor.device != inputs.device:
            return f"the cell is on {tensor.device} and the inputs are on {inputs.device}: move one with .to(device)"
    for parameter in parameters:
        if parameter.dtype != inputs.dtype:
            return (
                f"the cell has parameters in {inputs.dtype} and in {parameter.dtype}: convert them with cell.to(dtype)"
            )
    return None


def _obstacles(program: Program, inputs: Tensor, state: Tensor, given: dict[str, Tensor]) -> Iterator[str]:
    """All that keeps kernels from reading these tensors, each in one sentence."""
    shapes = shapes_of(program.kind, program.settings, inputs.shape[2], state.shape[1])
    if (len(program.parameters), len(program.indexes)) != (len(shapes.parameters), len(shapes.indexes)):
        return  # an exported program of another version, which the launch refuses by its counts
    names = [f"the cell's {name}" for name in shapes.parameters]
    floats = given | {name: p for name, p in zip(names, program.parameters, strict=True) if p is not None}
    motor = program.motor
    of_map = {} if motor is None else {"the cell's output_scale": motor.scale, "the cell's output_shift": motor.shift}
    floats |= {name: p for name, p in of_map.items() if p is not None}
    held = {f"the cell's {name}": index for name, index in zip(shapes.indexes, program.indexes, strict=True)}
    for name, tensor in (floats | held).items():
        if type(tensor) not in PLAIN:
            yield f"{name}: a {type(tensor).__name__} is no plain tensor, and kernels read nothing else"
    mixed = _mixed(program, inputs)
    if mixed is not None:
        yield mixed
    for name, tensor in floats.items():
        if tensor.layout is not torch.strided:
            yield f"{name}: the layout is {tensor.layout}, and kernels read torch.strided alone: .to_dense() makes it"
        elif tensor.is_neg():
            yield f"{name}: the numbers in memory have the other sign: .resolve_neg() makes a tensor with this one"
        elif odd(tensor):
            yield f"{name}: the numbers are not in memory: .clone() puts them there"
    had = [None if parameter is None else tuple(parameter.shape) for parameter in program.parameters]
    if had not in shapes.forms():
        for name, shape, wanted in zip(names, had, shapes.parameters.values(), strict=True):
            if shape != wanted:
                yield f"{name} has the shape {shape}, but this circuit needs {wanted}"
    if motor is not None:
        if not 0 <= motor.start <= motor.start + motor.size <= state.shape[1]:
            yield f"the outputs are {motor.size} numbers from number {motor.start} of a state of {state.shape[1]}"
        for name, given_map in of_map.items():
            if given_map is not None and given_map.shape != (motor.size,):
                yield f"{name} has the shape {tuple(given_map.shape)}, but this circuit needs {(motor.size,)}"
    for (name, index), rule in zip(held.items(), shapes.indexes.values(), strict=True):
        fault = wrong_index(name, index, rule)
        if fault is not None:
            yield fault


def wrong_index(name: str, index: Tensor, wanted: Index) -> str | None:
    """What is wrong with an index tensor, in one sentence; None if nothing is."""
    again = "build the cell again, and load its parameters with load_state_dict"
    if index.dtype is not torch.int64:
        return f"{name} is in {index.dtype}, but indexes are in torch.int64: {again}"
    if tuple(index.shape) != wanted.shape:
        return f"{name} has the shape {tuple(index.shape)}, but this circuit needs {wanted.shape}: {again}"
    values = index.detach().cpu().numpy()
    if not values.size:
        return None
    if wanted.starts:
        fine = values[0] == 0 and values[-1] == wanted.top and (values[1:] >= values[:-1]).all()
    else:
        fine = values.min() >= 0 and values.max() < wanted.top
    return None if fine else f"{name} has values that no wiring of this size has: {again}"
