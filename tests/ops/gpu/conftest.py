"""Triton's interpreter for the length of a test, and a CUDA device where there is one."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

from ncp_control.base.imports import KERNELS
from ncp_control.ops.gpu import launch


@functools.cache
def kernels(interpreted: bool) -> dict[str, ModuleType]:
    """The modules of kernels, imported anew: what Triton is told at their import holds for good."""
    names = {kind: f"{KERNELS[kind]}.triton" for kind in launch.kinds()}
    everything = (*names.values(), "ncp_control.neurons.layered.triton", "ncp_control.ops.gpu.shared")
    before = {name: sys.modules.pop(name, None) for name in everything}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        modules = {kind: importlib.import_module(name) for kind, name in names.items()}
    for name, module in before.items():
        del sys.modules[name]
        if module is not None:
            sys.modules[name] = module
    return modules


@functools.cache
def interpreted_language() -> dict[tuple[ModuleType, str], Any]:
    """Triton's own functions written in Triton, such as `sum`, which were made when something first imported it."""
    triton = pytest.importorskip("triton")
    interpreter = pytest.importorskip("triton.runtime.interpreter")
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
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter for the length of a test, so that no other test sees a GPU where there is none."""
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(launch, "kernels_of", kernels(True).__getitem__)
    for (module, name), function in interpreted_language().items():
        monkeypatch.setattr(module, name, function)
    # each call of a function inside a kernel would patch triton.language again, which the launch has done already
    monkeypatch.setattr(interpreter.InterpretedFunction, "__call__", lambda self, *args: self.rewrite()(*args))


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """CPU tensors in the interpreter, and CUDA tensors where a device can be had and is asked for (-m gpu)."""
    if request.param == "interpreter":
        request.getfixturevalue("interpreted")
        return "cpu"
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(launch, "kernels_of", kernels(False).__getitem__)
    return "cuda"
