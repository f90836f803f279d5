"""The compiled CPU scan in worker processes, and on a machine that gives it too few threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ncp_control.ops.cpu.backend import available

pytestmark = pytest.mark.skipif(not available()[0], reason=available()[1])

CHILD = """
import sys, torch, torch.multiprocessing as multiprocessing, ncp_control as nc
from ncp_control.ops.cpu import launch

class Data(torch.utils.data.Dataset):
    def __init__(self, cell): self.cell = cell
    def __len__(self): return 4
    def __getitem__(self, i): return scan_twice(self.cell)

def scan_twice(cell):
    # the kernels alone: torch's own threads (OpenMP) hang in a forked child
    inputs, state, elapsed = torch.ones(64, 64, 5), torch.zeros(64, 17), torch.ones(())
    program = cell.program()
    states = launch.forward(program, inputs, state, elapsed, None, None)
    grads = launch.backward(program, inputs, state, elapsed, None, None, states, states, (True, False))
    return float(states.numpy().sum()) + float(grads[0].numpy().sum())

def work(cell, queue):
    queue.put(scan_twice(cell))

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(2)
    launch.threads_for = lambda program, inputs: 2
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


@pytest.mark.system
@pytest.mark.parametrize("how", ["fork", *(pytest.param(how, marks=pytest.mark.slow) for how in ("spawn", "loader"))])
def test_worker_processes(how, tmp_path):
    """With two threads in the parent, then two in each child, nothing hangs, and the results are the same."""
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


CROWDED = """
import resource, torch, ncp_control as nc
from ncp_control.ops.cpu import launch
torch.manual_seed(0)
launch.threads_for = lambda program, inputs: 64
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


@pytest.mark.system
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_the_scan_does_without_threads_that_the_system_refuses():
    done = subprocess.run([sys.executable, "-c", CROWDED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
