"""The compiled scan against the reference: outputs, last state and every gradient, on every machine level."""

from __future__ import annotations

import copy
import ctypes
import functools
import io
import os
import subprocess
import sys

import pytest
import torch

import ncp_control as nc
from helpers.scans import TOLERANCE, assert_close, outputs_and_gradients, sequences
from ncp_control.ops import explain_backends
from ncp_control.ops.cpu import launch as cpu_kernels
from ncp_control.ops.cpu import library as cpu_library
from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

LEVELS = [level for level in cpu_library.LEVELS if cpu_library.path_of(level).exists()]
SPARSE = nc.NCP(
    5, 4, 3, sensory_fanout=2, inter_fanout=2, recurrent_command=5, motor_fanin=2, recurrent_inter=4, seed=2
)
CELLS = {
    "LTC": lambda: nc.LTC(5, nc.AutoNCP(17, 3)),
    "LTC gap junctions": lambda: nc.LTC(5, nc.GapJunctions(SPARSE, 6)),
    "LTC dense, no maps": lambda: nc.LTC(5, 7, input_map="none", output_map="none"),
    "LTC euler": lambda: nc.LTC(3, nc.GapJunctions(nc.AutoNCP(9, 2), 3), solver="euler", input_map="linear"),
    "LTC one neuron, one unfold": lambda: nc.LTC(1, 1, unfolds=1),
    "NeuralLTC sigmoid": lambda: nc.NeuralLTC(5, SPARSE),
    "NeuralLTC relu": lambda: nc.NeuralLTC(5, SPARSE, activation="relu", unfolds=3),
    "NeuralLTC tanh": lambda: nc.NeuralLTC(5, 6, activation="tanh"),
    "NeuralLTC hard_tanh": lambda: nc.NeuralLTC(2, 3, activation="hard_tanh"),
    # slow neurons: with fast ones explicit Euler is unstable, and rounding grows from step to step
    "NeuralLTC euler": lambda: nc.NeuralLTC(5, SPARSE, solver="euler", time_constants=(1, 9)),
    "CTRNN": lambda: nc.CTRNN(5, SPARSE),
    "CTRNN fused relu": lambda: nc.CTRNN(5, 4, solver="fused", activation="relu"),
    "NeuralODE euler": lambda: nc.NeuralODE(5, SPARSE, solver="euler"),
    "NeuralLTC rk4": lambda: nc.NeuralLTC(5, SPARSE, solver="rk4", time_constants=(1, 9)),
    "NeuralLTC rk4 tanh": lambda: nc.NeuralLTC(5, 6, solver="rk4", activation="tanh", time_constants=(1, 9)),
    "CTRNN rk4": lambda: nc.CTRNN(5, SPARSE, solver="rk4", unfolds=2, time_constants=(1, 9)),
    "NeuralODE rk4": lambda: nc.NeuralODE(5, SPARSE),
    "NeuralODE rk4 relu": lambda: nc.NeuralODE(5, 7, activation="relu", unfolds=1),
    "NeuralODE rk4 hard_tanh": lambda: nc.NeuralODE(1, 1, activation="hard_tanh"),
    "CfC default": lambda: nc.CfC(5, SPARSE),
    "CfC no_gate": lambda: nc.CfC(5, SPARSE, mode="no_gate"),
    "CfC pure": lambda: nc.CfC(5, SPARSE, mode="pure"),
    "CfC dense": lambda: nc.CfC(4, nc.FullyConnected(9, 2)),
    "LSTM": lambda: nc.LSTM(5, nc.FullyConnected(9, 2)),
    "LSTM one unit": lambda: nc.LSTM(1, 1),
    "GRU": lambda: nc.GRU(5, nc.FullyConnected(11, 2)),
    "GRU one unit": lambda: nc.GRU(1, 1),
    "CTGRU": lambda: nc.CTGRU(5, nc.FullyConnected(9, 2)),
    "CTGRU three scales": lambda: nc.CTGRU(5, 7, scales=3),
    "CTGRU one unit, one scale": lambda: nc.CTGRU(1, 1, scales=1),
}
REPRESENTATIVE = ["LTC", "NeuralLTC sigmoid", "NeuralODE rk4", "CfC default", "LSTM", "GRU", "CTGRU"]


@functools.cache
def library(level: str) -> cpu_library.Library:
    return cpu_library.Library(level, ctypes.CDLL(str(cpu_library.path_of(level))))


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """Every level that was built and that this machine can run."""
    if request.param not in cpu_library._supported():
        pytest.skip(f"this processor cannot run {request.param}")
    monkeypatch.setattr(cpu_library, "load", lambda: (library(request.param), request.param))
    return request.param


@pytest.fixture
def poisoned():
    """Uninitialised memory is NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def compare(cell, batch, time, dtype, time_dims=2, flags=True):
    """Float64 against the reference in float64. Float32 against that, too: where a gradient's terms cancel, the float32
    reference is itself further from it than 1e-5."""
    cell = cell.to(dtype)
    tensors = sequences(cell, batch, time, dtype, time_dims)
    if not flags:
        tensors = (*tensors[:3], None, None)
    weights = torch.randn(batch, time, cell.state_size, dtype=dtype)
    ours = outputs_and_gradients("cpu", cell, tensors, weights)
    rounding = outputs_and_gradients("reference", cell, tensors, weights)
    assert all(value.dtype == dtype for value in ours.values())
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors[:3]]
    truth = outputs_and_gradients("reference", copy.deepcopy(cell).double(), (*doubles, *tensors[3:]), weights.double())
    assert_close(ours, truth, TOLERANCE[dtype], None if dtype == torch.float64 else rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_agrees_with_the_reference(name, dtype, level, poisoned):
    compare(CELLS[name](), 19, 11, dtype)


ODD = ["LTC gap junctions", "NeuralLTC sigmoid", "NeuralODE rk4", "CfC default", "LSTM", "GRU", "CTGRU three scales"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("time", [1, 3, 17])
@pytest.mark.parametrize("batch", [1, 3, 17, 33, 130])
@pytest.mark.parametrize("name", ODD)
def test_odd_sizes(name, batch, time, threads, poisoned, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "_threads", lambda program, inputs: threads)
    compare(CELLS[name](), batch, time, torch.float32)
    compare(CELLS[name](), batch, time, torch.float64)


@pytest.mark.parametrize("batch", [1, 3, 17, 33])
@pytest.mark.parametrize("name", ["NeuralODE rk4", "CTGRU three scales"])
def test_odd_batches_on_every_level(name, batch, level, poisoned):
    for dtype in TOLERANCE:
        compare(CELLS[name](), batch, 5, dtype)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("name", ["LTC gap junctions", "LTC euler", "LTC dense, no maps"])
def test_a_few_rows_without_gradients(name, batch, level, poisoned):
    for dtype, tolerance in TOLERANCE.items():
        cell = CELLS[name]().to(dtype)
        tensors = sequences(cell, batch, 9, dtype)
        with torch.no_grad():
            ours, want = (nc.scan(cell, *tensors, backend=backend) for backend in ("cpu", "reference"))
        assert (ours - want).abs().max() < tolerance * want.abs().max()


@pytest.mark.parametrize("time_dims", [0, 1, 2])
@pytest.mark.parametrize("flags", [True, False])
def test_every_form_of_elapsed(time_dims, flags):
    for name in ("LTC", "NeuralLTC sigmoid", "NeuralLTC rk4", "CfC default", "CfC pure", "LSTM", "GRU", "CTGRU"):
        compare(CELLS[name](), 18, 5, torch.float64, time_dims, flags)


@pytest.mark.parametrize("name", ["LTC", "NeuralODE rk4", "LSTM", "GRU", "CTGRU"])
def test_empty_batches_and_sequences(name):
    cell = CELLS[name]()
    for batch, time in ((0, 4), (4, 0), (0, 0)):
        inputs = torch.randn(batch, time, 5, requires_grad=True)
        states = nc.scan(cell, inputs, backend="cpu")
        assert states.shape == (batch, time, cell.state_size)
        grads = torch.autograd.grad(states.sum(), [inputs, *cell.parameters()], materialize_grads=True)
        assert grads[0].shape == inputs.shape
        for grad, parameter in zip(grads[1:], cell.parameters(), strict=True):
            assert torch.equal(grad, torch.zeros_like(parameter))


@pytest.mark.parametrize("name", ["LTC", "NeuralLTC tanh", "NeuralODE rk4", "CfC default", "LSTM", "GRU", "CTGRU"])
def test_non_contiguous_inputs(name):
    cell = CELLS[name]()
    inputs = torch.randn(cell.inputs, 7, 20).permute(2, 1, 0)
    state = torch.randn(cell.state_size, 20).t()
    elapsed, reset = torch.rand(7, 20).t() + 0.1, (torch.rand(7, 20) < 0.2).t()
    for tensor in (inputs, state, elapsed):
        assert not tensor.is_contiguous()
        tensor.requires_grad_()
    tensors = (inputs, state, elapsed, reset, None)
    weights = torch.randn(cell.state_size, 7, 20).permute(2, 1, 0)
    reference = outputs_and_gradients("reference", cell, tensors, weights)
    assert_close(outputs_and_gradients("cpu", cell, tensors, weights), reference, 1e-5)


GATED = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
CTGRU_PARAMETERS = tuple(dict(CELLS["CTGRU"]().named_parameters()))
SUBSETS = {
    "LTC": ("inputs", "state", "elapsed", "mu", "E", "sensory_w_raw", "input_scale"),
    "LSTM": ("inputs", "state", *GATED),
    "GRU": ("inputs", "state", *GATED),
    "NeuralLTC rk4": ("inputs", "state", "elapsed", "gamma", "gamma_r", "mu", "tau_raw", "A"),
    "CTGRU": ("inputs", "state", "elapsed", *CTGRU_PARAMETERS),
}


@pytest.mark.parametrize(("name", "wanted"), [(name, wanted) for name, subset in SUBSETS.items() for wanted in subset])
def test_any_subset_of_gradients(name, wanted):
    cell = CELLS[name]().double()
    tensors = sequences(cell, 5, 6, torch.float64)
    named = dict(zip(("inputs", "state", "elapsed"), tensors[:3], strict=True)) | dict(cell.named_parameters())
    for name, tensor in named.items():
        tensor.requires_grad_(name == wanted)
    weights = torch.randn(5, 6, cell.state_size, dtype=torch.float64)
    ours, want = (outputs_and_gradients(backend, cell, tensors, weights) for backend in ("cpu", "reference"))
    assert set(ours) == {"states", wanted}
    assert_close(ours, want, 1e-10)


CHECKED = ["LTC gap junctions", "LTC euler", "NeuralLTC sigmoid", "CTRNN", "NeuralLTC rk4", "CTRNN rk4"]
CHECKED += ["NeuralODE rk4", "CfC default", "CfC pure", "LSTM", "GRU", "CTGRU", "CTGRU three scales"]


@pytest.mark.parametrize("name", CHECKED)
def test_gradcheck(name):
    cell = CELLS[name]().double()
    tensors = sequences(cell, 2, 3, torch.float64)
    names = [name for name, _ in cell.named_parameters()]

    def run(inputs, state, elapsed, *parameters):
        class Scan(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = cell

            def forward(self):
                return nc.scan(self.cell, inputs, state, elapsed, *tensors[3:], backend="cpu")

        named = {f"cell.{name}": value for name, value in zip(names, parameters, strict=True)}
        return torch.func.functional_call(Scan(), named, ())

    assert torch.autograd.gradcheck(run, (*tensors[:3], *cell.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", REPRESENTATIVE)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_call_gives_the_same_bits(name, threads, monkeypatch):
    monkeypatch.setattr(cpu_kernels, "_threads", lambda program, inputs: threads)
    cell = CELLS[name]()
    tensors, weights = sequences(cell, 70, 20, torch.float32), torch.randn(70, 20, cell.state_size)
    first, second = (outputs_and_gradients("cpu", cell, tensors, weights) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_a_row_never_changes_another(name):
    cell = CELLS[name]()
    inputs, state, elapsed, reset, _ = sequences(cell, 40, 9, torch.float32)
    before = nc.scan(cell, inputs, state, elapsed, reset, backend="cpu")
    with torch.no_grad():
        changed, other = inputs.clone(), reset.clone()
        changed[7], other[7] = float("nan"), ~reset[7]
        after = nc.scan(cell, changed, state, elapsed, other, backend="cpu")
    rest = torch.arange(40) != 7
    assert torch.equal(before[rest], after[rest])
    assert after[7].isnan().any()


def test_inputs_far_from_every_scale_of_a_ct_gru(level):
    """Squares of such distances round to steps far above one; their differences must not."""
    cell = CELLS["CTGRU"]()
    double = copy.deepcopy(cell).double()
    inputs = 1e6 * torch.randn(20, 7, 5)
    with torch.no_grad():
        states = nc.scan(cell, inputs, backend="cpu")
        want = nc.scan(double, inputs.double(), backend="reference")
    assert (states - want).abs().max() < 1e-5


def test_slow_memories_of_a_ct_gru_neither_grow_nor_drift(level):
    """A decay that is off by a rounding is off in every step: by no more than the reference's own in float32."""
    cell = nc.CTGRU(1, 2)
    for elapsed, event in ((1e-4, 30.0), (1e-2, 0.0)):
        with torch.no_grad():
            cell.detect.weight.zero_()
            cell.detect.bias.fill_(event)  # q = tanh(event) from the first step to the last
            state, inputs = torch.ones(1, 16), torch.zeros(1, 3000, 1)
            states = nc.scan(cell, inputs, state, elapsed, backend="cpu")
            rounded = nc.scan(cell, inputs, state, elapsed, backend="reference")
            double = copy.deepcopy(cell).double()
            want = nc.scan(double, inputs.double(), state.double(), elapsed, backend="reference")
        assert states.max() <= 1 + 1e-6
        assert (states - want).abs().max() <= 2 * (rounded - want).abs().max()


def test_infinite_inputs_saturate_as_in_the_reference(level):
    cell = CELLS["LTC"]()
    inputs = torch.tensor([float("inf"), -float("inf"), 1e30, -1e30, 0.0]).expand(20, 3, 5)
    with torch.no_grad():
        ours, want = (nc.scan(cell, inputs, backend=backend) for backend in ("cpu", "reference"))
    assert torch.isfinite(want).all()
    assert (ours - want).abs().max() < 1e-5


def test_inference_mode_before_training():
    cell, inputs = CELLS["LTC"](), torch.randn(2, 3, 5)
    with torch.inference_mode():
        nc.scan(cell, inputs, elapsed=0.123, backend="cpu")
    nc.scan(cell, inputs, elapsed=0.123, backend="cpu").sum().backward()
    assert cell.mu.grad.abs().sum() > 0


def test_double_backward_is_refused():
    cell = CELLS["LTC"]()
    inputs = torch.randn(2, 3, 5, requires_grad=True)
    (grad,) = torch.autograd.grad(nc.scan(cell, inputs, backend="cpu").square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_auto_takes_the_compiled_scan_and_an_explicit_request_never_falls_back():
    inputs = torch.randn(2, 3, 5)
    assert nc.explain_backends(CELLS["LTC"](), inputs)["cpu"][0]
    cell = nc.LTC(5, 4, solver="rk4")
    able, reason = nc.explain_backends(cell, inputs)["cpu"]
    assert not able
    assert "no compiled form" in reason
    with pytest.raises(RuntimeError, match="backend 'cpu' cannot run this scan: LTC with these settings"):
        nc.scan(cell, inputs, backend="cpu")
    with pytest.raises(RuntimeError, match=r"float32 and float64, not for torch\.bfloat16"):
        nc.scan(CELLS["LTC"]().bfloat16(), inputs, backend="cpu")
    nc.scan(cell, inputs)
    for cell in (nc.NeuralODE(5, 4), nc.CTGRU(5, 4)):
        assert nc.explain_backends(cell, inputs)["cpu"][0]
    assert not nc.explain_backends(nc.NeuralODE(5, 4, solver="dopri5"), inputs)["cpu"][0]


def test_a_reparametrised_submodule_is_read_as_it_is():
    """A normed weight is no parameter: torch computes it anew for every use."""
    cell = CELLS["CTGRU"]()
    torch.nn.utils.parametrizations.weight_norm(cell.detect)
    with torch.no_grad():
        cell.detect.parametrizations.weight.original0 *= 2
    compare(cell, 3, 4, torch.float64)


def test_a_subclass_with_its_own_dynamics_is_not_run_as_its_parent():
    class Doubled(nc.LTC):
        def rate_and_drive(self, constants, sensed, state):
            rate, drive = super().rate_and_drive(constants, sensed, state)
            return rate, 2 * drive

    class Halved(nc.GRU):
        def advance(self, constants, sensed, state, elapsed):
            return super().advance(constants, sensed, state, elapsed) / 2

    class Faster(nc.CTGRU):
        @property
        def tau(self):
            return super().tau / 2

    class Driven(nc.NeuralODE):
        def rate_and_drive(self, constants, sensed, state):
            return constants.leak, 2 * self.f(constants, sensed, state)

    inputs = torch.randn(2, 3, 5)
    for cell in (Doubled(5, 4), Halved(5, 4), Faster(5, 4), Driven(5, 4)):
        assert torch.equal(nc.scan(cell, inputs), nc.scan(cell, inputs, backend="reference"))
        assert not nc.explain_backends(cell, inputs)["cpu"][0]


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_the_gradient_of_an_elapsed_time_that_plays_no_part_is_zero(name):
    cell = CELLS[name]()
    elapsed = torch.rand(3, 4, requires_grad=True)
    states = nc.scan(cell, torch.randn(3, 4, 5), elapsed=elapsed, backend="cpu")
    assert torch.equal(torch.autograd.grad(states.sum(), elapsed)[0], torch.zeros(3, 4))


def test_without_the_compiled_kernels_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(cpu_library, "load", cpu_library.load.__wrapped__)
    monkeypatch.setattr(cpu_library, "FOLDER", cpu_library.FOLDER / "nowhere")
    inputs = torch.randn(2, 3, 5)
    with pytest.raises(RuntimeError, match=r"compiled kernels are missing: install a C\+\+ compiler"):
        nc.scan(CELLS["LTC"](), inputs, backend="cpu")
    assert nc.scan(CELLS["LTC"](), inputs).shape == (2, 3, 17)


@pytest.mark.parametrize(("value", "message"), [("sse9", "choose one of avx512, avx2, portable"), ("portable", "")])
def test_a_level_can_be_chosen(value, message, monkeypatch):
    monkeypatch.setenv(cpu_library.CHOICE, value)
    found, reason = cpu_library.load.__wrapped__()
    assert (found is None and message in reason) if message else found.level == value


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_compilers_see_one_operator(name):
    rnn = nc.RNN(CELLS[name]())
    inputs, reset = torch.randn(3, 7, 5, requires_grad=True), torch.rand(3, 7) < 0.3
    want = rnn(inputs, reset=reset)[0]
    (grad,) = torch.autograd.grad(want.square().sum(), inputs)
    compiled = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    got = compiled(inputs, reset=reset)[0]
    assert torch.equal(got, want)
    assert torch.equal(torch.autograd.grad(got.square().sum(), inputs)[0], grad)
    shapes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("time")},)
    exported = torch.export.export(rnn, (torch.randn(3, 7, 5),), dynamic_shapes=shapes)
    assert sum("ncp_control.scan" in str(node.target) for node in exported.graph.nodes) == 1
    longer = torch.randn(6, 4, 5)
    assert torch.equal(exported.module()(longer)[0], rnn(longer)[0])


def test_the_operators_fake_and_autograd_registrations_hold():
    from ncp_control.ops.operator import scan

    cell = CELLS["LTC"]().double()
    program = cell.program()
    parameters = [p.detach().requires_grad_() for p in program.parameters if p is not None]
    present = [p is not None for p in program.parameters]
    inputs, state, elapsed, reset, _ = sequences(cell, 3, 4, torch.float64)
    settings = (program.kind, list(program.settings), list(program.indexes), present, parameters)
    torch.library.opcheck(scan, (*settings, inputs, state, elapsed, reset, None))


def test_modules_are_copied_and_saved_whole():
    rnn = nc.RNN(CELLS["LTC"]())
    inputs = torch.randn(2, 3, 5)
    buffer = io.BytesIO()
    torch.save(rnn, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert torch.equal(again(inputs)[0], rnn(inputs)[0])
    assert torch.equal(copy.deepcopy(rnn)(inputs)[0], rnn(inputs)[0])


CHILD = """
import sys, torch, torch.multiprocessing as multiprocessing, ncp_control as nc
from ncp_control.ops.cpu import launch as cpu_kernels

class Data(torch.utils.data.Dataset):
    def __init__(self, cell): self.cell = cell
    def __len__(self): return 4
    def __getitem__(self, i): return scan_twice(self.cell)

def scan_twice(cell):
    # the kernels alone: torch's own threads (OpenMP) hang in a forked child
    inputs, state, elapsed = torch.ones(64, 64, 5), torch.zeros(64, 17), torch.ones(())
    program = cell.program()
    states = cpu_kernels.forward(program, inputs, state, elapsed, None, None)
    grads = cpu_kernels.backward(program, inputs, state, elapsed, None, None, states, states, (True, False))
    return float(states.numpy().sum()) + float(grads[0].numpy().sum())

def work(cell, queue):
    queue.put(scan_twice(cell))

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    cpu_kernels._threads = lambda program, inputs: 2
    cell = nc.LTC(5, nc.AutoNCP(17, 3)).requires_grad_(False)
    want = scan_twice(cell)
    if sys.argv[1] == "loader":
        values = [float(value) for value in torch.utils.data.DataLoader(Data(cell), num_workers=2)]
        assert values == [want] * 4, (values, want)
    else:
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        children = [context.Process(target=work, args=(cell, queue), daemon=True) for _ in range(2)]
        for child in children: child.start()
        values = [queue.get(timeout=60) for _ in children]
        for child in children: child.join()
        # a spawned child has its own number of threads, and so its own order of summing
        assert all(abs(value - want) < 1e-4 * abs(want) for value in values), (values, want)
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "loader"])
def test_worker_processes(how, tmp_path):
    """Two threads in the parent, then two in each child: nothing hangs, and the results are the same."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    paths = os.pathsep.join([os.getcwd(), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script), how],
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_the_kernels_cannot_read_goes_to_the_reference():
    cell = CELLS["LTC"]()
    inputs = torch.randn(2, 3, 5)
    cell.mu.data = cell.mu.data.double()
    able, reason = explain_backends(cell, inputs)["cpu"]
    assert (able, reason) == (False, "the cell has parameters in torch.float32 and in torch.float64")
    elsewhere = CELLS["LTC"]().to("meta")
    assert explain_backends(elsewhere, inputs)["cpu"] == (False, "the cell is on meta and the inputs are on cpu")
    with pytest.raises(ValueError, match="the state is on meta and the inputs are on cpu"):
        nc.RNN(CELLS["LTC"]())(inputs, torch.zeros(2, 17, device="meta"))


CROWDED = """
import resource, torch, ncp_control as nc
from ncp_control.ops.cpu import launch as cpu_kernels
torch.manual_seed(0)
cpu_kernels._threads = lambda program, inputs: 64
rnn, inputs = nc.RNN(nc.LTC(4, nc.AutoNCP(24, 4)), backend="cpu"), torch.randn(2048, 16, 4)
expected = rnn(inputs)[0]
expected.sum().backward()
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 2**20,) * 2)  # room for some threads' stacks, not for 64
found = rnn(inputs)[0]
assert torch.equal(found, expected)
found.sum().backward()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_threads_that_the_system_does_not_give_are_done_without():
    done = subprocess.run([sys.executable, "-c", CROWDED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
