"""The scan on a CUDA GPU: one kernel launch for the whole sequence, one and a sum for its backward pass."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import math
import os
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ncp_control.ops.problem import ScanProblem, mismatch
from ncp_control.ops.program import Program

KINDS = ("ltc", "affine", "cfc")
TYPES = (torch.float32, torch.float64)
# A program keeps all synapses in the registers of one multiprocessor; near these limits most of them spill.
MOST_NEURONS = 256
MOST_SYNAPSES = 8192


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def available() -> tuple[bool, str]:
    """Whether Triton and a CUDA device are there (or Triton's interpreter, for tests without one)."""
    if importlib.util.find_spec("triton") is None:
        return False, "Triton is not installed: on Linux it comes with torch's CUDA builds"
    if interpreting():
        return True, "Triton's interpreter: right, but slow"
    if not torch.cuda.is_available():
        return False, "torch finds no CUDA device"
    return True, "Triton kernels"


def interpreting() -> bool:
    """Whether kernels run in Triton's interpreter, which takes CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def supports(problem: ScanProblem) -> tuple[bool, str]:
    """CUDA tensors in float32 or float64, and a cell with a compiled form that fits a multiprocessor."""
    able, reason = available()
    if not able:
        return False, reason
    device, dtype, program = problem.inputs.device, problem.inputs.dtype, problem.program
    if device.type != "cuda" and not (device.type == "cpu" and interpreting()):
        return False, f"the inputs are on {device}, not on a CUDA device"
    if dtype not in TYPES:
        return False, f"compiled for float32 and float64, not for {dtype}"
    if program is None or program.kind not in KINDS:
        return False, f"{type(problem.cell).__name__} with these settings has no compiled form"
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return False, "a trace records torch's own operations, which a compiled scan has none of"
    wrong = mismatch(problem)
    if wrong is not None:
        return False, wrong
    neurons, synapses = problem.state.shape[1], len(program.indexes[1]) + len(program.indexes[3])
    if neurons > MOST_NEURONS:
        return False, f"{neurons} neurons are too many: at most {MOST_NEURONS} fit"
    if synapses > MOST_SYNAPSES:
        return False, f"{synapses} synapses are too many: at most {MOST_SYNAPSES} fit"
    return True, reason


def run(problem: ScanProblem) -> Tensor:
    """The states after every step, (B, T, N)."""
    program = problem.program
    assert program is not None
    if torch.compiler.is_compiling():
        return _operator(program, problem)
    inputs, state, elapsed = problem.inputs, problem.state, problem.elapsed
    if not isinstance(elapsed, Tensor):
        elapsed = _number(elapsed, inputs.dtype, inputs.device)
    tensors = (inputs, state, elapsed, *program.parameters)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        states: Tensor = _Scan.apply(  # type: ignore[no-untyped-call]
            program, problem.reset, problem.mask, *tensors
        )
        return states
    return forward(program, inputs, state, elapsed, problem.reset, problem.mask)


@functools.lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A scalar tensor, made once; nothing writes to it."""
    with torch.inference_mode(False):
        return torch.full((), value, dtype=dtype, device=device)


class _Scan(torch.autograd.Function):
    """The kernels' forward and hand-written backward, joined for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        program: Program,
        reset: Tensor | None,
        mask: Tensor | None,
        inputs: Tensor,
        state: Tensor,
        elapsed: Tensor,
        *parameters: Tensor | None,
    ) -> Tensor:
        inputs, state = inputs.contiguous(), state.contiguous()
        states = forward(program, inputs, state, elapsed, reset, mask)
        ctx.kernel = program._replace(parameters=())
        ctx.save_for_backward(inputs, state, elapsed, reset, mask, states, *parameters)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        inputs, state, elapsed, reset, mask, states, *parameters = ctx.saved_tensors
        program = ctx.kernel._replace(parameters=tuple(parameters))
        wanted = (ctx.needs_input_grad[3], ctx.needs_input_grad[5])
        grads = backward(program, inputs, state, elapsed, reset, mask, states, grad_states, wanted)
        return None, None, None, *grads


def _operator(program: Program, problem: ScanProblem) -> Tensor:
    """The same scan as a torch operator, for compilers: the CPU's operator, given kernels for CUDA tensors."""
    _register()
    from ncp_control.ops.operator import scan

    present = [parameter is not None for parameter in program.parameters]
    parameters = [parameter for parameter in program.parameters if parameter is not None]
    lists = (list(program.settings), list(program.indexes), present, parameters)
    inputs = problem.inputs
    elapsed = torch.as_tensor(problem.elapsed, dtype=inputs.dtype, device=inputs.device)
    states: Tensor = scan(program.kind, *lists, inputs, problem.state, elapsed, problem.reset, problem.mask)
    return states


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _register() -> None:
    """Gives the operator its kernels, when it is first traced."""
    _register_once()


@functools.cache
def _register_once() -> None:
    from ncp_control.ops import operator as cpu_op

    cpu_op.scan.register_kernel("cuda", _scan)
    cpu_op.scan_backward.register_kernel("cuda", _scan_backward)


def _scan(kind: str, settings: Any, indexes: Any, present: Any, parameters: Any, *tensors: Any) -> Tensor:
    """The operator's forward, with its arguments."""
    return forward(_program(kind, settings, indexes, present, parameters), *tensors)


def _scan_backward(
    kind: str, settings: Any, indexes: Any, present: Any, parameters: Any, *tensors: Any
) -> list[Tensor]:
    """The operator's backward; an operator's results may not share memory."""
    arguments: list[Any] = [_program(kind, settings, indexes, present, parameters), *tensors, (True, True)]
    return [grad.clone() for grad in backward(*arguments) if grad is not None]


def _program(kind: str, settings: Any, indexes: Any, present: Any, parameters: Any) -> Program:
    given = iter(parameters)
    return Program(kind, tuple(settings), tuple(indexes), tuple(next(given) if there else None for there in present))


def forward(
    program: Program, inputs: Tensor, state: Tensor, elapsed: Tensor, reset: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Launches the forward kernel."""
    inputs, state = inputs.contiguous(), state.contiguous()
    states = inputs.new_empty(inputs.shape[0], inputs.shape[1], state.shape[1])
    if states.numel():
        kernels = _kernels(program.kind)
        arguments, options = _arguments(kernels, program, inputs, state, elapsed, reset, mask, states)
        with _on(inputs.device):
            kernels.forward[(inputs.shape[0],)](*arguments, **options)
    return states


def backward(
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    grad_states: Tensor,
    wanted: tuple[bool, bool],
) -> list[Tensor | None]:
    """Launches the backward kernel, and sums what its programs found for the parameters.

    :param wanted: whether the gradients of inputs and of elapsed are wanted
    :return: gradients of inputs, state, elapsed, then of every parameter
    """
    batch = inputs.shape[0]
    sizes = [0 if parameter is None else parameter.numel() for parameter in program.parameters]
    grad_inputs = torch.empty_like(inputs) if wanted[0] else None
    grad_elapsed = inputs.new_empty(inputs.shape[:2]) if wanted[1] else None
    grad_state = torch.zeros_like(state)
    flat = inputs.new_zeros(sum(sizes))
    if states.numel():
        kernels = _kernels(program.kind)
        arguments, options = _arguments(kernels, program, inputs, state, elapsed, reset, mask, states, 1)
        programs = min(batch, _programs(inputs.device, options["num_warps"]))
        shares = inputs.new_empty(programs, len(flat))
        scratch = inputs.new_empty(programs * kernels.scratch_vectors(program.settings) * options["NEURONS"])
        grads = (grad_states.contiguous(), grad_inputs, grad_state, grad_elapsed, shares, scratch)
        with _on(inputs.device):
            kernels.backward[(programs,)](*arguments, *grads, batch, len(flat), **options)
        flat = shares.sum(0)
    if grad_elapsed is not None and elapsed.dim() == 0:
        grad_elapsed = grad_elapsed.sum()
    parts = zip(flat.split(sizes), program.parameters, strict=True)
    return [grad_inputs, grad_state, grad_elapsed, *(None if p is None else part.view(p.shape) for part, p in parts)]


def _kernels(kind: str) -> Any:
    """The module of a kind; each has `Parameters`, `forward`, `backward` and `scratch_vectors`. Imports Triton."""
    return importlib.import_module(f"ncp_control.ops.gpu_{kind}")


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _programs(device: torch.device, warps: int) -> int:
    """How many programs of the backward pass run at once: twelve warps of 168 registers fit into a multiprocessor."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
    return processors * max(1, 12 // warps)


def _arguments(
    kernels: Any,
    program: Program,
    inputs: Tensor,
    state: Tensor,
    elapsed: Tensor,
    reset: Tensor | None,
    mask: Tensor | None,
    states: Tensor,
    direction: int = 0,
) -> tuple[list[Any], dict[str, Any]]:
    """What both kernels take first, and their compile-time settings."""
    _, time, features = inputs.shape
    units = state.shape[1]
    plan = plan_of(program, features, units)
    parameters = [parameter if parameter is None else parameter.contiguous() for parameter in program.parameters]
    strides = elapsed.stride() if elapsed.dim() == 2 else (0, 0)
    flags = [None if flag is None else flag.contiguous().view(torch.uint8) for flag in (reset, mask)]
    arguments = [kernels.Parameters(*parameters), plan.tables, inputs, state, elapsed, *strides, *flags, states]
    options = {
        "SETTINGS": (*program.settings, *plan.settings),
        "TABLES": plan.shapes,
        "NEURONS": power_of_two(units),
        "FEATURES": power_of_two(features),
        "num_warps": plan.warps[direction],
        "enable_fp_fusion": True,
        "maxnreg": min(168, 2048 // plan.warps[direction]),
    }
    return [*arguments, time, units, features], options


class Plan(NamedTuple):
    """A cell's synapses as the kernels read them.

    A table holds edges in slots, K deep and C columns wide, each column owned by one neuron (or input). An owner
    with more than K edges has several columns, side by side.

    :param tables: all tables, int32: for each the edges (K, C), -1 in an empty slot; their other ends (K, C); the
        owner of each column (C,); the first column of each owner, and how many it has, each padded to a power of two
    :param shapes: of each table: where it starts, K, C, and the most columns of an owner, 0 if column j is owner j's
    :param settings: whole numbers that follow the program's settings
    :param warps: for each program of the forward and of the backward pass
    """

    tables: Tensor
    shapes: tuple[tuple[int, int, int, int], ...]
    settings: tuple[int, ...]
    warps: tuple[int, int]


_PLANS: Any = WeakTensorKeyDictionary()


def plan_of(program: Program, features: int, units: int) -> Plan:
    """The plan of a program, made once for its index tensors."""
    key = (program.kind, *map(id, program.indexes))
    found = _PLANS.get(program.indexes[0])
    if found is None or found[0] != key:
        found = key, _make_plan(program, features, units)
        _PLANS[program.indexes[0]] = found
    plan: Plan = found[1]
    return plan


def _make_plan(program: Program, features: int, units: int) -> Plan:
    start, source, sensory_start, sensory_source, *rest = (index.cpu().numpy() for index in program.indexes)
    target = np.repeat(np.arange(units), np.diff(start))
    sensory_target = np.repeat(np.arange(units), np.diff(sensory_start))
    edge, sensory_edge = np.arange(len(source)), np.arange(len(sensory_source))
    settings: tuple[int, ...] = ()
    new = source >= units
    old = ~new
    tables = [
        _table(sensory_edge, sensory_target, sensory_source, units, features),
        _table(edge[old], target[old], source[old], units, units),
        _table(edge[old], source[old], target[old], units, units),
        _table(sensory_edge, sensory_source, sensory_target, features, units),
    ]
    if program.kind == "ltc":
        one, other = rest[0][:, 0], rest[0][:, 1]
        both = np.concatenate([one, other]), np.concatenate([other, one])
        tables.append(_table(np.arange(2 * len(one)), *both, units, units))
    if program.kind == "cfc":
        sender = source[new] - units
        tables += [
            _table(edge[new], target[new], sender, units, units),
            _table(edge[new], sender, target[new], units, units),
        ]
        settings = (_depth(sender, target[new], units),)
    starts = np.cumsum([0, *(len(table.numbers) for table in tables)])
    shapes = tuple((int(at), *table.shape) for at, table in zip(starts, tables, strict=False))
    numbers = torch.from_numpy(np.concatenate([table.numbers for table in tables]).astype(np.int32))
    moving = sum(table.slots for table in (*tables[:2], *tables[4:5]))
    flowing = sum(table.slots for table in tables)
    warps = (_warps(moving / 512), _warps(flowing / 1024))
    return Plan(numbers.to(program.indexes[0].device), shapes, settings, warps)


def _warps(wanted: float) -> int:
    """A number of warps that a program can have. Few need few waits for each other, but many registers each.

    The tables' sizes over the divisors above keep what the inner loops need in 168 registers a thread, on sm_90.
    """
    return min(power_of_two(math.ceil(wanted)), 16)


class _Table(NamedTuple):
    """One table of a plan: its numbers, one after the other; K, C and the most columns of an owner; its slots."""

    numbers: np.ndarray
    shape: tuple[int, int, int]
    slots: int


def _table(edge: np.ndarray, owner: np.ndarray, other: np.ndarray, owners: int, others: int) -> _Table:
    """A table of edges; an empty slot repeats an end of its column, so that it brings in nothing from elsewhere."""
    width, reach = power_of_two(owners), power_of_two(others)
    counts = np.bincount(owner, minlength=owners)
    deep, wide, parts = _best_shape(counts, width, reach)
    columns = -(-counts // deep) if parts else np.ones_like(counts)
    first = np.cumsum(columns) - columns
    order = np.argsort(owner, kind="stable")
    rank = np.arange(len(order)) - (np.cumsum(counts) - counts)[owner[order]]
    column = first[owner[order]] + rank // deep
    heads = rank % deep == 0
    edges, ends, owner_of = np.full((deep, wide), -1), np.zeros((deep, wide), int), np.zeros(wide, int)
    edges[rank % deep, column] = edge[order]
    ends[:, column[heads]] = other[order][heads]
    ends[rank % deep, column] = other[order]
    owner_of[: columns.sum()] = np.repeat(np.arange(owners), columns)
    ranges = np.zeros((2, width), int)
    ranges[:, :owners] = first, columns
    numbers = np.concatenate([edges.ravel(), ends.ravel(), owner_of, ranges.ravel()])
    return _Table(numbers, (deep, wide, parts), deep * max(wide, reach) if len(edge) else 0)


def _best_shape(counts: np.ndarray, width: int, reach: int) -> tuple[int, int, int]:
    """K, C and PARTS of the table with the least work: shallow tables hold uneven owners well, but sum in two stages.

    Triton spreads slots over threads as it does the values that they fetch, so columns fewer than the values within
    reach save nothing.
    """
    deepest = power_of_two(int(counts.max(initial=1)))
    shapes = [(deepest, width, 0)]
    for deep in (deepest >> k for k in range(deepest.bit_length() - 1)):
        columns = -(-counts // deep)
        shapes.append((deep, power_of_two(int(columns.sum())), power_of_two(int(columns.max()))))

    def work(shape: tuple[int, int, int]) -> int:
        deep, wide, parts = shape
        slot, part = 12 + 2 * max(1, reach // 32), 2 + 4 * max(1, wide // 32)
        return slot * deep * max(wide, reach) + part * parts * max(width, wide)

    return min(shapes, key=work)


def _depth(sender: np.ndarray, target: np.ndarray, units: int) -> int:
    """How many neurons the longest chain of synapses within one step joins."""
    level = np.ones(units, int)
    for _ in range(units):
        reached = level.copy()
        np.maximum.at(reached, target, level[sender] + 1)
        if (reached == level).all():
            break
        level = reached
    return int(level.max())


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`, and 1."""
    return 1 << max(count - 1, 0).bit_length()
