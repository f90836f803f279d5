"""Where no compiled library was built, a scan falls back to the reference, and says so once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ncp_control
from ncp_control.ops.cpu.backend import available

PACKAGE = Path(ncp_control.__file__).parent
PREPARED = """
import sys, warnings, torch, ncp_control as nc
from ncp_control.ops.fallback import SlowScanWarning
caught = []
warnings.simplefilter("ignore")
warnings.simplefilter("always", SlowScanWarning)
warnings.showwarning = lambda message, category, filename, *rest: caught.append((str(message), filename))
inputs = torch.randn(2, 3, 5)
"""


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package as it is before anything is compiled."""
    folder = tmp_path_factory.mktemp("unbuilt")
    shutil.copytree(PACKAGE, folder / "ncp_control", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


def run(folder: Path, work: str) -> None:
    """Runs `work` in a process of its own that imports the package from `folder`."""
    environment = {key: value for key, value in os.environ.items() if key != "NCP_CONTROL_CPU_LEVEL"}
    script = PREPARED + f"assert nc.__file__.startswith({str(folder)!r}), nc.__file__\n" + work
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,  # which comes first in the path of a script given by -c
        env=environment,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.system
def test_the_first_scan_warns_and_no_other(unbuilt: Path) -> None:
    work = """
rnn = nc.RNN(nc.LTC(5, 4))
assert rnn(inputs)[0].shape == (2, 3, 4)
(message, filename), = caught
assert filename == "<string>", filename
assert "often 5 to 80 times slower" in message, message
assert "the compiled kernels are missing: install a C++ compiler" in message, message
assert "`pip install .`" in message and "`make venv`" in message, message
rnn(inputs)[0].sum().backward()
nc.scan(nc.GRU(5, 4), inputs)
assert len(caught) == 1, caught
"""
    run(unbuilt, work)


@pytest.mark.slow
def test_no_warning_where_the_reference_is_the_only_way(unbuilt: Path) -> None:
    work = """
class Own(nc.LTC):
    pass

ltc = nc.LTC(5, 4)
nc.scan(Own(5, 4), inputs)
nc.scan(nc.NeuralODE(5, 4, solver="dopri5"), inputs)
nc.scan(nc.LTC(5, 4).bfloat16(), inputs)
nc.scan(ltc, inputs, backend="reference")
nc.explain_backends(ltc, inputs)
with torch.no_grad():
    torch.jit.trace(nc.RNN(ltc), (inputs,), check_trace=False)  # a check runs the scan without a trace
torch.export.export(nc.RNN(ltc), (inputs,))
assert not caught, caught
nc.scan(ltc, inputs)
assert len(caught) == 1, caught
"""
    run(unbuilt, work)


@pytest.mark.system
def test_an_explicit_request_is_refused_with_the_same_advice(unbuilt: Path) -> None:
    work = """
try:
    nc.scan(nc.LTC(5, 4), inputs, backend="cpu")
except RuntimeError as error:
    assert "cannot run this scan: the compiled kernels are missing: install a C++ compiler" in str(error), error
else:
    raise AssertionError("it ran")
assert not caught, caught
"""
    run(unbuilt, work)


@pytest.mark.slow
@pytest.mark.skipif(not available()[0], reason=available()[1])
def test_no_warning_where_compiled_code_runs() -> None:
    work = """
nc.scan(nc.LTC(5, 4), inputs)
nc.scan(nc.NeuralODE(5, 4, solver="dopri5"), inputs)
assert not caught, caught
"""
    run(PACKAGE.parent, work)
