"""What the tests of the compiled CPU scan share."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.levels import at_level, running
from ncp_control.ops.cpu import library

EMULATED = "avx512 emulated"
KERNELS = Path(library.__file__).parent / "kernels"
FLAGS = [
    "-std=c++17",
    "-O1",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fPIC",
    "-shared",
    "-Wno-psabi",
]
FLAGS += [
    "-pthread",
    "-DNCP_VECTOR_BYTES=64",
    "-mavx2",
    "-mfma",
    "-include",
    str(Path(__file__).with_name("emulated_avx512.h")),
]


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> library.Library:
    """The kernels of the level avx512, with stand-ins for the few of its instructions that the source names."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if platform.machine() not in ("x86_64", "AMD64") or "avx2" not in library.supported_levels():
        pytest.skip("this processor has no AVX2, from which AVX-512 is made up")
    if "avx512" in library.supported_levels():
        pytest.skip("this processor runs the level avx512 itself")
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C++ compiler")
    target = tmp_path_factory.mktemp("emulated") / "kernels.so"
    subprocess.run([*compiler, *FLAGS, str(KERNELS / "kernels.cpp"), "-o", str(target)], check=True)
    return library.Library(EMULATED, ctypes.CDLL(str(target)))


# the limit of time is for the compiler, which the first of these tests waits for
@pytest.fixture(params=[*library.LEVELS, pytest.param(EMULATED, marks=[pytest.mark.system, pytest.mark.timeout(600)])])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every level that was built and that this machine can run; in the system tier AVX-512's code on any machine."""
    if request.param == EMULATED:
        with running(request.getfixturevalue("emulated")):
            yield request.param
    else:
        with at_level(request.param):
            yield request.param
