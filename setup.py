"""Builds the compiled scan: one plain shared library for each machine level, from one C++ source.

The libraries use neither Python's nor torch's headers: ctypes loads them, so one build serves every version of both.
Without a C++ compiler the package still installs and runs on the slow reference scan. The first scan then warns, and
`ncp-control doctor` says so.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = Path("ncp_control/ops/cpu/kernels")
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
FLAGS += ["-fPIC", "-shared", "-pthread"]
LEVELS = {"portable": ["-DNCP_VECTOR_BYTES=16"]}
if platform.machine().lower() in ("x86_64", "amd64"):
    LEVELS["avx2"] = ["-DNCP_VECTOR_BYTES=32", "-mavx2", "-mfma"]
    LEVELS["avx512"] = ["-DNCP_VECTOR_BYTES=64", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"]


class BuildKernels(build_ext):
    """Calls the C++ compiler itself, because the result is not a Python extension module."""

    def finalize_options(self) -> None:
        """Builds all levels at once, unless `--parallel` is given: each takes the compiler half a minute or more."""
        super().finalize_options()
        self.parallel = self.parallel or len(LEVELS)

    def build_extension(self, ext: Extension) -> None:
        """Compiles one level; a failure is a warning only, because the package works without it."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".tmp")
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        command = [*compiler, *FLAGS, *ext.extra_compile_args, *ext.sources, "-o", str(temporary)]
        print(shlex.join(command), flush=True)
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            temporary.unlink(missing_ok=True)
            self.warn(f"{ext.name} was not built ({error}): the package will run without it, but slowly")
            return
        temporary.replace(target)

    def get_ext_filename(self, ext_name: str) -> str:
        """Returns a plain file name, without a Python version in it."""
        return str(Path(*ext_name.split("."))) + ".so"

    def get_outputs(self) -> list[str]:
        """Returns the paths of the libraries that were built."""
        return [path for path in super().get_outputs() if Path(path).exists()]


class WheelForEveryPython(bdist_wheel):
    """Tags the wheel for the machine, not for one Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tag of a wheel with a library in it, but for every Python 3."""
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[
        Extension(
            f"ncp_control.ops.cpu._kernels_{level}",
            sources=[str(KERNELS / "kernels.cpp")],
            depends=[str(path) for path in sorted(KERNELS.glob("*.h"))],
            extra_compile_args=flags,
            optional=True,
        )
        for level, flags in LEVELS.items()
    ],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": WheelForEveryPython},
)
