"""Builds the compiled scan: one plain shared library for each machine level, from one C++ source.

The libraries use neither Python's nor torch's headers: ctypes loads them, so one build serves every version of both.
Without a C++ compiler the package still installs and runs on the slow reference scan. The first scan then warns, and
`ncp-control doctor` says so.

The environment variable CXX names the compiler; it may hold arguments. `python -m scripts.release` builds the wheels of
other machines with one that compiles for them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from sysconfig import get_platform

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

KERNELS, NEURONS = Path("ncp_control/ops/cpu/kernels"), Path("ncp_control/neurons")
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
FLAGS += ["-fPIC", "-shared", "-pthread"]
# The machine that is built for: _PYTHON_HOST_PLATFORM, by which Python itself is told of a cross build, or this one.
PLATFORM = get_platform().lower()
if PLATFORM.startswith("linux"):
    FLAGS += ["-s", f"-Wl,--version-script={KERNELS / 'exports.map'}"]
LEVELS = {"portable": ["-DNCP_VECTOR_BYTES=16"]}
if PLATFORM.endswith(("x86_64", "amd64")):
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


class BuildWithCheckpoints(build_py):
    """Adds the trained circuits, so that they are at hand where only a wheel is installed."""

    def run(self) -> None:
        """Copies `checkpoints/` into the package; an editable installation finds it in the project's folder."""
        super().run()
        if not self.editable_mode:
            into = Path(self.build_lib, "ncp_control", "checkpoints")
            shutil.copytree("checkpoints", into, dirs_exist_ok=True, copy_function=shutil.copyfile)


class WheelForEveryPython(bdist_wheel):
    """Tags the wheel for the machine, not for one Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """Returns the tag of a wheel with a library in it, but for every Python 3."""
        return "py3", "none", super().get_tag()[2]


def readme_without_paths() -> str:
    """Returns README.md as plain Markdown: what it links to in the project's folder is not beside a wheel's page."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"^!\[[^]]*\]\((?!https?:)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^]]+)\]\((?!https?:|#)[^)]*\)", r"\1", text)


setup(
    long_description=readme_without_paths(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            f"ncp_control.ops.cpu._kernels_{level}",
            sources=[str(KERNELS / "kernels.cpp")],
            depends=[str(path) for path in sorted([*KERNELS.iterdir(), *NEURONS.glob("*/kernel.h")])],
            extra_compile_args=flags,
            optional=True,
        )
        for level, flags in LEVELS.items()
    ]
    + [Extension("ncp_envs._physics", sources=["envs/ncp_envs/physics.cpp"], optional=True)],
    cmdclass={"build_py": BuildWithCheckpoints, "build_ext": BuildKernels, "bdist_wheel": WheelForEveryPython},
)
