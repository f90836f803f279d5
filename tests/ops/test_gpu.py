"""The Triton scan against the reference: in Triton's interpreter everywhere, and on a CUDA device where there is one.

The interpreter takes milliseconds for each step of each row, so everything here is tiny.
"""

from __future__ import annotations

import copy
import functools
import importlib
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.scans import TOLERANCE, assert_close, outputs_and_gradients, sequences
from ncp_control.ops.cpu import backend as cpu
from ncp_control.ops.gpu import backend as gpu
from ncp_control.ops.problem import make_problem

triton = pytest.importorskip("triton")
interpreter = pytest.importorskip("triton.runtime.interpreter")

SPARSE = nc.NCP(
    3, 2, 2, sensory_fanout=2, inter_fanout=2, recurrent_command=3, motor_fanin=2, recurrent_inter=2, seed=2
)
# The second neuron has many more synapses than the others: its columns are summed in two stages.
UNEVEN = nc.Wiring.from_edges(
    3, inter=17, motor=2, sensory=[(0, 0), (1, 1), (2, 1)], synapses=[(i, 1) for i in range(17)] + [(1, 17), (1, 18)]
)
CELLS = {
    "LTC": lambda: nc.LTC(3, SPARSE, unfolds=2),
    "LTC gap junctions": lambda: nc.LTC(3, nc.GapJunctions(SPARSE, 4), unfolds=2),
    "LTC dense, no maps": lambda: nc.LTC(5, 3, unfolds=3, input_map="none", output_map="none"),
    "LTC uneven": lambda: nc.LTC(3, UNEVEN, unfolds=2, init="centred"),
    "LTC euler": lambda: nc.LTC(
        3, nc.GapJunctions(SPARSE, 2), unfolds=2, solver="euler", input_map="linear", time_constants=(1, 9)
    ),
    "LTC one neuron, one unfold": lambda: nc.LTC(1, 1, unfolds=1),
    "NeuralLTC sigmoid": lambda: nc.NeuralLTC(3, SPARSE, unfolds=2),
    "NeuralLTC uneven": lambda: nc.NeuralLTC(3, UNEVEN, unfolds=2),
    "NeuralLTC relu": lambda: nc.NeuralLTC(3, SPARSE, unfolds=2, activation="relu"),
    "NeuralLTC tanh": lambda: nc.NeuralLTC(3, 3, unfolds=2, activation="tanh", time_constants=(0.1, 0.8)),
    "NeuralLTC hard_tanh": lambda: nc.NeuralLTC(2, 3, unfolds=2, activation="hard_tanh", time_constants=(0.1, 0.8)),
    "NeuralLTC euler": lambda: nc.NeuralLTC(3, SPARSE, unfolds=2, solver="euler", time_constants=(1, 9)),
    "CTRNN": lambda: nc.CTRNN(3, SPARSE, unfolds=2),
    "CTRNN fused relu": lambda: nc.CTRNN(3, 3, unfolds=2, solver="fused", activation="relu"),
    "NeuralODE euler": lambda: nc.NeuralODE(3, SPARSE, unfolds=2, solver="euler"),
    "CfC default": lambda: nc.CfC(3, SPARSE),
    "CfC uneven": lambda: nc.CfC(3, UNEVEN),
    "CfC no_gate": lambda: nc.CfC(3, SPARSE, mode="no_gate"),
    "CfC pure": lambda: nc.CfC(3, SPARSE, mode="pure"),
    "CfC dense": lambda: nc.CfC(3, nc.FullyConnected(3, 2)),
}
KINDS = ["LTC gap junctions", "NeuralLTC sigmoid", "CfC default"]


@functools.cache
def kernels(interpreted):
    """The modules of kernels, imported anew: what Triton is told at their import holds for good."""
    names = {kind: f"ncp_control.ops.gpu_{kind}" for kind in gpu.KINDS}
    before = {name: sys.modules.pop(name, None) for name in names.values()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        modules = {kind: importlib.import_module(name) for kind, name in names.items()}
    for name, module in before.items():
        del sys.modules[name]
        if module is not None:
            sys.modules[name] = module
    return modules


@functools.cache
def interpreted_language():
    """Triton's own functions written in Triton, such as `sum`, which were made when something first imported it."""
    language = triton.language
    compiled = {
        (module, name): function
        for module in (language, language.standard)
        for name, function in vars(module).items()
        if isinstance(function, triton.runtime.JITFunction)
    }
    once = {id(function): interpreter.InterpretedFunction(function.fn) for function in compiled.values()}
    return {place: once[id(function)] for place, function in compiled.items()}


@pytest.fixture
def interpreted(monkeypatch):
    """Triton's interpreter for the length of a test, so that no other test sees a GPU where there is none."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(gpu, "_kernels", kernels(True).__getitem__)
    for (module, name), function in interpreted_language().items():
        monkeypatch.setattr(module, name, function)
    # each call of a function inside a kernel would patch triton.language again, which the launch has done already
    monkeypatch.setattr(interpreter.InterpretedFunction, "__call__", lambda self, *args: self.rewrite()(*args))


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """CPU tensors in the interpreter, and CUDA tensors where a device can be had and is asked for (-m gpu)."""
    if request.param == "interpreter":
        request.getfixturevalue("interpreted")
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(gpu, "_kernels", kernels(False).__getitem__)
    return "cuda"


@pytest.fixture
def poisoned():
    """Uninitialised memory is NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def on(device, cell, tensors, weights):
    """The cell and its inputs on a device, leaves that want gradients where they did before."""
    moved = [None if x is None else x.detach().to(device).requires_grad_(x.requires_grad) for x in tensors]
    return copy.deepcopy(cell).to(device), moved, weights.to(device)


def run(device, cell, tensors, weights):
    """States and gradients of the Triton scan, brought back to the CPU."""
    found = outputs_and_gradients("gpu", *on(device, cell, tensors, weights))
    return {name: value.cpu() for name, value in found.items()}


def compare(device, cell, batch, time, dtype, time_dims=2, flags=True):
    """As for the CPU's kernels: both types against the reference in float64, float32 within its own rounding, too."""
    cell = cell.to(dtype)
    tensors = sequences(cell, batch, time, dtype, time_dims)
    if not flags:
        tensors = (*tensors[:3], None, None)
    weights = torch.randn(batch, time, cell.state_size, dtype=dtype)
    ours = run(device, cell, tensors, weights)
    assert all(value.dtype == dtype for value in ours.values())
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors[:3]]
    truth = outputs_and_gradients("reference", copy.deepcopy(cell).double(), (*doubles, *tensors[3:]), weights.double())
    rounding = outputs_and_gradients("reference", cell, tensors, weights) if dtype == torch.float32 else None
    assert_close(ours, truth, TOLERANCE[dtype], rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_agrees_with_the_reference(name, dtype, device, poisoned):
    compare(device, CELLS[name](), 3, 2, dtype)


@pytest.mark.parametrize(
    ("make", "batch", "time"),
    [
        *((lambda: nc.LTC(2, 3, unfolds=1), *size) for size in [(1, 1), (1, 33), (3, 17), (17, 3), (33, 1)]),
        *((lambda: nc.CTRNN(1, 3, unfolds=1), *size) for size in [(1, 17), (33, 1)]),
        *((lambda: nc.CfC(1, 3), *size) for size in [(1, 33), (17, 3)]),
    ],
)
def test_odd_sizes(make, batch, time, device, poisoned):
    compare(device, make(), batch, time, torch.float64)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["LTC", "NeuralLTC", "CTRNN", "CfC"])
@pytest.mark.parametrize("plan", [32, 64, nc.AutoNCP(40, 16), nc.AutoNCP(64, 8), nc.AutoNCP(160, 10)], ids=repr)
@pytest.mark.parametrize(("batch", "time"), [(17, 33), (600, 5)])
def test_cells_of_real_size(name, plan, batch, time, poisoned):
    """Only compiled: several warps for a program, several rows for each program, tables that spill."""
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    for dtype in (torch.float32, torch.float64):
        compare("cuda", getattr(nc, name)(17, plan), batch, time, dtype)


@pytest.mark.parametrize("flags", [True, False])
@pytest.mark.parametrize("time_dims", [0, 1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_every_form_of_elapsed(name, time_dims, flags, device):
    compare(device, CELLS[name](), 2, 2, torch.float64, time_dims, flags)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("programs", [1, 2, 9])
def test_any_number_of_programs_shares_the_rows(name, programs, device, poisoned, monkeypatch):
    monkeypatch.setattr(gpu, "_programs", lambda device, warps: programs)
    compare(device, CELLS[name](), 5, 2, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inputs_of_any_float_type_are_computed_in_the_cells_type(dtype, device):
    cell = CELLS["LTC"]().to(device)
    inputs = torch.randn(2, 2, 3, device=device).to(dtype)
    states = nc.scan(cell, inputs, backend="gpu")
    assert states.dtype == torch.float32
    assert torch.equal(states, nc.scan(cell, inputs.float(), backend="gpu"))


def test_a_number_for_elapsed_and_the_initial_state(device):
    cell = CELLS["LTC"]().double().to(device)
    inputs = torch.randn(2, 3, 3, dtype=torch.float64, device=device)
    for elapsed in (1.0, 0.3):
        want = nc.scan(cell, inputs, elapsed=elapsed, backend="reference")
        assert torch.allclose(nc.scan(cell, inputs, elapsed=elapsed, backend="gpu"), want, rtol=0, atol=1e-12)


def test_empty_batches_and_sequences(device):
    cell = CELLS["LTC"]().to(device)
    for batch, time in ((0, 4), (4, 0), (0, 0)):
        inputs = torch.randn(batch, time, 3, device=device, requires_grad=True)
        states = nc.scan(cell, inputs, backend="gpu")
        assert states.shape == (batch, time, cell.state_size)
        grads = torch.autograd.grad(states.sum(), [inputs, cell.mu])
        assert grads[0].shape == inputs.shape
        assert (grads[1] == 0).all()


@pytest.mark.parametrize("name", KINDS)
def test_non_contiguous_inputs(name, device):
    cell = CELLS[name]().double().to(device)
    inputs = torch.randn(cell.inputs, 2, 3).double().to(device).permute(2, 1, 0)
    state = torch.randn(cell.state_size, 3).double().to(device).t()
    elapsed, reset = torch.rand(2, 3).double().to(device).t() + 0.1, (torch.rand(2, 3) < 0.2).to(device).t()
    for tensor in (inputs, state, elapsed):
        assert not tensor.is_contiguous()
        tensor.requires_grad_()
    tensors = (inputs, state, elapsed, reset, reset.logical_not())
    weights = torch.randn(cell.state_size, 2, 3).double().to(device).permute(2, 1, 0)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("gpu", "reference"))
    assert_close(ours, want, 1e-10)


@pytest.mark.parametrize("wanted", ["inputs", "state", "elapsed", "mu", "gap_raw", "input_scale"])
def test_any_subset_of_gradients(wanted, device):
    cell = CELLS["LTC gap junctions"]().double().to(device)
    tensors = on(device, cell, sequences(cell.cpu(), 2, 2, torch.float64), torch.zeros(()))[1]
    cell.to(device)
    named = dict(zip(("inputs", "state", "elapsed"), tensors[:3], strict=True)) | dict(cell.named_parameters())
    for name, tensor in named.items():
        tensor.requires_grad_(name == wanted)
    weights = torch.randn(2, 2, cell.state_size, dtype=torch.float64).to(device)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("gpu", "reference"))
    assert set(ours) == {"states", wanted}
    assert_close(ours, want, 1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_call_gives_the_same_bits(name, device):
    cell = CELLS[name]()
    tensors, weights = sequences(cell, 3, 2, torch.float32), torch.randn(3, 2, cell.state_size)
    first, second = (run(device, cell, tensors, weights) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("name", KINDS)
def test_a_row_never_changes_another(name, device):
    cell = CELLS[name]().to(device)
    inputs, state, elapsed, reset, _ = (x.detach().to(device) for x in sequences(cell.cpu(), 5, 3, torch.float32))
    cell.to(device)
    with torch.no_grad():
        before = nc.scan(cell, inputs, state, elapsed, reset, backend="gpu")
        changed, other = inputs.clone(), reset.clone()
        changed[2], other[2] = float("nan"), ~reset[2]
        after = nc.scan(cell, changed, state, elapsed, other, backend="gpu")
    rest = torch.arange(5) != 2
    assert torch.equal(before[rest], after[rest])
    assert after[2].isnan().any()


@pytest.mark.parametrize("name", ["LTC", "LTC uneven"])
def test_infinite_inputs_saturate_as_in_the_reference(name, device):
    cell = CELLS[name]().to(device)
    inputs = torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, 0.0], device=device)[:, None, None].expand(5, 2, 3)
    inputs = inputs.clone().requires_grad_()
    ours, want = (nc.scan(cell, inputs, backend=backend) for backend in ("gpu", "reference"))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5
    ours, want = (torch.autograd.grad(states.sum(), inputs)[0] for states in (ours, want))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5


def test_a_backward_pass_after_inference_mode(device):
    cell = CELLS["LTC"]().to(device)
    inputs = torch.randn(1, 2, 3, device=device)
    with torch.inference_mode():
        nc.scan(cell, inputs, elapsed=0.77, backend="gpu")
    nc.scan(cell, inputs, elapsed=0.77, backend="gpu").sum().backward()
    assert cell.mu.grad.abs().sum() > 0


def test_double_backward_is_refused(device):
    cell = CELLS["LTC"]().to(device)
    inputs = torch.randn(1, 2, 3, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(nc.scan(cell, inputs, backend="gpu").square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize(
    "make", [*CELLS.values(), *(lambda kind=kind: kind(17, nc.AutoNCP(40, 9)) for kind in (nc.LTC, nc.CTRNN, nc.CfC))]
)
def test_tables_hold_every_synapse_once_under_its_owner(make):
    cell = make()
    program = cell.program()
    plan = gpu.plan_of(program, cell.inputs, cell.units)
    assert gpu.plan_of(program, cell.inputs, cell.units) is plan
    start, source, sensory_start, sensory_source = (index.numpy() for index in program.indexes[:4])
    target = np.repeat(np.arange(cell.units), np.diff(start))
    sensory_target = np.repeat(np.arange(cell.units), np.diff(sensory_start))
    old, new = np.flatnonzero(source < cell.units), np.flatnonzero(source >= cell.units)
    source = source % cell.units
    sensory = np.arange(len(sensory_source))
    expected = [
        (sensory, sensory_target, sensory_source, cell.units),
        (old, target[old], source[old], cell.units),
        (old, source[old], target[old], cell.units),
        (sensory, sensory_source, sensory_target, cell.inputs),
    ]
    if program.kind == "ltc":
        ends = program.indexes[4].numpy().reshape(-1, 2)
        expected.append((np.arange(2 * len(ends)), ends.T.ravel(), ends[:, ::-1].T.ravel(), cell.units))
    if program.kind == "cfc":
        expected += [(new, target[new], source[new], cell.units), (new, source[new], target[new], cell.units)]
    for (at, deep, wide, parts), (edges, owners, others, count) in zip(plan.shapes, expected, strict=True):
        numbers = plan.tables[at:].numpy()
        edge, other = numbers[: 2 * deep * wide].reshape(2, deep, wide)
        owner, first, columns = np.split(
            numbers[2 * deep * wide : 2 * deep * wide + wide + 2 * gpu.power_of_two(count)],
            [wide, wide + gpu.power_of_two(count)],
        )
        there = edge >= 0
        order = np.argsort(edge[there])
        assert np.array_equal(edge[there][order], edges)
        assert np.array_equal(other[there][order], others)
        assert np.array_equal(np.broadcast_to(owner, edge.shape)[there][order], owners)
        assert 0 <= other.min() <= other.max() < max(cell.units, cell.inputs)
        if parts:
            assert columns.max() <= parts
            for j in range(count):
                assert (owner[first[j] : first[j] + columns[j]] == j).all()
        else:
            assert (owner[:count] == np.arange(count)).all()


def test_an_explicit_request_that_cannot_run_says_why(monkeypatch):
    inputs = torch.randn(2, 3, 3)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="backend 'gpu' cannot run this scan: torch finds no CUDA device"):
        nc.scan(CELLS["LTC"](), inputs, backend="gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RuntimeError, match="the inputs are on cpu, not on a CUDA device"):
        nc.scan(CELLS["LTC"](), inputs, backend="gpu")
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(RuntimeError, match="Triton is not installed"):
        nc.scan(CELLS["LTC"](), inputs, backend="gpu")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (lambda: nc.LTC(3, 4, solver="rk4"), "LTC with these settings has no compiled form"),
        (lambda: nc.NeuralODE(3, 4, solver="rk4"), "NeuralODE with these settings has no compiled form"),
        (lambda: nc.CTGRU(3, 4), "CTGRU with these settings has no compiled form"),
        (lambda: nc.LSTM(3, 4), "LSTM with these settings has no compiled form"),
        (lambda: CELLS["LTC"]().bfloat16(), r"float32 and float64, not for torch\.bfloat16"),
        (lambda: nc.LTC(3, nc.Random(260, 1, sparsity=0.99)), "260 neurons are too many"),
        (lambda: nc.LTC(3, 100), "10300 synapses are too many"),
    ],
)
def test_a_cell_that_cannot_run_says_why(cell, message, interpreted):
    cell = cell()
    with pytest.raises(RuntimeError, match=f"backend 'gpu' cannot run this scan: .*{message}"):
        nc.scan(cell, torch.randn(1, 1, 3), backend="gpu")
    assert nc.scan(cell, torch.randn(1, 1, 3)).shape == (1, 1, cell.state_size)


def test_a_cell_on_another_device_says_so(interpreted):
    problem = make_problem(CELLS["LTC"](), torch.randn(1, 1, 3))
    elsewhere = tuple(index.to("meta") for index in problem.program.indexes)
    problem.program = problem.program._replace(indexes=elsewhere)
    assert gpu.supports(problem) == (False, "the cell is on meta and the inputs are on cpu")


@pytest.mark.skipif(not cpu.available()[0], reason=cpu.available()[1])
def test_auto_leaves_cpu_tensors_to_the_cpu_even_when_the_interpreter_is_on(interpreted, monkeypatch):
    inputs = torch.randn(1, 2, 3)
    assert nc.explain_backends(CELLS["LTC"](), inputs)["gpu"] == (True, "Triton's interpreter: right, but slow")
    monkeypatch.setattr(gpu, "forward", lambda *_: pytest.fail("auto took the interpreter"))
    nc.scan(CELLS["LTC"](), inputs)


@pytest.mark.gpu
def test_auto_takes_the_gpu_for_cuda_tensors(monkeypatch):
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    called = []
    forward = gpu.forward
    monkeypatch.setattr(gpu, "forward", lambda *given: called.append(True) or forward(*given))
    nc.scan(CELLS["LTC"]().cuda(), torch.randn(1, 2, 3).cuda())
    assert called


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import torch, ncp_control as nc
cell, inputs = nc.LTC(3, 4), torch.randn(2, 3, 3)
assert nc.explain_backends(cell, inputs)["gpu"][0] is False
assert "Triton is not installed" in nc.explain_backends(cell, inputs)["gpu"][1]
nc.scan(cell, inputs).sum().backward()
assert not any(name.startswith("ncp_control.ops.gpu_") for name in sys.modules)
"""


def test_the_package_works_without_triton():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON],
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", KINDS)
def test_the_operators_kernels_are_the_scan(name, interpreted):
    cell = CELLS[name]()
    program = cell.program()
    tensors, weights = sequences(cell, 2, 2, torch.float32), torch.randn(2, 2, cell.state_size)
    want = outputs_and_gradients("gpu", cell, tensors, weights)
    present = [parameter is not None for parameter in program.parameters]
    parameters = [parameter.detach() for parameter in program.parameters if parameter is not None]
    lists = (program.kind, list(program.settings), list(program.indexes), present, parameters)
    given = [tensor.detach() for tensor in tensors]
    states = gpu._scan(*lists, *given)
    assert torch.equal(states, want["states"])
    grads = gpu._scan_backward(*lists, *given, states, weights)
    assert len(grads) == 3 + len(parameters)
    for name, grad in zip(("inputs", "state", "elapsed"), grads, strict=False):
        assert torch.equal(grad, want[name])


@pytest.mark.skipif(not cpu.available()[0], reason=cpu.available()[1])
def test_compilers_see_one_operator(interpreted):
    """Traced for the GPU; what then runs here, on CPU tensors, are the operator's kernels for the CPU."""
    rnn = nc.RNN(CELLS["LTC"](), backend="gpu")
    inputs, reset = torch.randn(2, 3, 3), torch.rand(2, 3) < 0.3
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(inputs, reset=reset)[0], rnn(inputs, reset=reset)[0], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("name", KINDS)
def test_compilers_on_a_gpu(name):
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    rnn = nc.RNN(CELLS[name]()).cuda()
    inputs = torch.randn(3, 7, 3, device="cuda", requires_grad=True)
    want = rnn(inputs)[0]
    (grad,) = torch.autograd.grad(want.square().sum(), inputs)
    got = torch.compile(rnn, backend="aot_eager", fullgraph=True)(inputs)[0]
    assert torch.equal(got, want)
    assert torch.equal(torch.autograd.grad(got.square().sum(), inputs)[0], grad)
