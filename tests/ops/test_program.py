"""The settings, index tensors and parameters that a kernel reads have the same names, in the same order, everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ncp_control
from helpers.cells import ZOO, build
from ncp_control.base.imports import KERNELS
from ncp_control.neurons.affine.kind import ACTIVATION_NAMES
from ncp_control.neurons.affine.neuron import ACTIVATIONS
from ncp_control.neurons.cfc.kind import MODE_NAMES
from ncp_control.neurons.cfc.neuron import MODES
from ncp_control.ops.cpu.structs import ProblemStruct
from ncp_control.ops.gpu.launch import kinds
from ncp_control.ops.kinds import kind_of
from ncp_control.ops.program import Program

FOLDER = Path(ncp_control.__file__).parent
CPP_NAMES = {
    "ltc": "LTCArguments",
    "affine": "AffineArguments",
    "affine_rk4": "AffineArguments",
    "cfc": "CfCArguments",
    "dual": "DualArguments",
    "lstm": "GatedArguments",
    "gru": "GatedArguments",
    "ctgru": "CTGRUArguments",
}
EXAMPLES = {
    "ltc": "ltc-gaps",
    "affine": "neural-ltc-sigmoid",
    "affine_rk4": "neural-ode-rk4",
    "cfc": "cfc-default",
    "dual": "dual",
    "lstm": "lstm",
    "gru": "gru",
    "ctgru": "ct-gru",
}


def headers() -> str:
    """All headers, without comments."""
    return re.sub(r"//[^\n]*", "", "\n".join(path.read_text() for path in sorted(FOLDER.rglob("*.h"))))


def fields_in_cpp(struct: str) -> list[str]:
    """The names of a C++ struct's fields, in order."""
    found = re.search(rf"struct {struct} {{(.*?)}};", headers(), re.DOTALL)
    assert found is not None
    declarations = [line for line in found[1].split(";") if line.strip()]
    types = re.compile(r"^\s*(const\s+)?(int64_t|uint8_t|void)\b")
    return [name.strip(" *\n") for line in declarations for name in types.sub("", line).split(",")]


def enum_in_cpp(name: str) -> tuple[str, ...]:
    """The names of a C++ enumeration, in lower case."""
    found = re.search(rf"enum {name} : int64_t {{(.*?)}};", headers())
    assert found is not None
    return tuple(one.strip().lower() for one in found[1].split(","))


def program_of(kind: str) -> Program:
    program = build(EXAMPLES[kind]).program()
    assert program is not None
    return program


def test_every_kind_has_settings_a_struct_and_an_example() -> None:
    assert set(KERNELS) == set(CPP_NAMES) == set(EXAMPLES)
    programs = [build(name).program() for name in ZOO]
    assert {program.kind for program in programs if program is not None} == set(KERNELS)


def test_the_struct_of_the_problem_has_the_same_fields_in_cpp() -> None:
    assert fields_in_cpp("Problem") == list(ProblemStruct._fields)


@pytest.mark.parametrize("kind", KERNELS)
def test_the_struct_of_a_cell_has_the_same_fields_in_cpp(kind: str) -> None:
    assert fields_in_cpp(CPP_NAMES[kind]) == list(kind_of(kind).struct.fields)


@pytest.mark.parametrize("kind", KERNELS)
def test_a_cell_fills_its_struct_in_the_structs_order(kind: str) -> None:
    program, (settings, _, struct, *_) = program_of(kind), kind_of(kind)
    assert program.kind == kind
    assert type(program.settings) is settings
    assert program.settings._fields == struct.settings
    assert len(program.indexes) == len(struct.indexes)
    cell: Any = build(EXAMPLES[kind])
    named = dict(cell.named_parameters())
    own = {id(value): name.removesuffix(".weight").replace(".", "_") for name, value in named.items()}
    order = [own.get(id(one)) for one in cell.program().parameters]
    assert [name for name, found in zip(struct.parameters, order, strict=True) if found not in (None, name)] == []
    assert len([name for name in order if name is not None]) >= 3


def test_names_that_a_setting_counts_have_the_same_order_everywhere() -> None:
    assert tuple(ACTIVATIONS) == ACTIVATION_NAMES == enum_in_cpp("Activation")
    assert tuple(MODES) == MODE_NAMES == enum_in_cpp("Mode")


@pytest.mark.parametrize("kind", kinds())
def test_a_triton_kernel_reads_settings_and_parameters_by_the_same_names(kind: str) -> None:
    pytest.importorskip("triton")
    from ncp_control.neurons.layered import triton as layered
    from ncp_control.ops.gpu import launch, shared, tables

    kernels = launch.kernels_of(kind)
    assert kernels.PARAMETERS._fields == kind_of(kind).struct.parameters
    places = vars(kernels) | (vars(layered) if kind in ("cfc", "dual") else {})
    for place, name in enumerate(kind_of(kind).settings._fields):
        assert places[name.upper()].value == place
    for place, name in enumerate(tables.EVERY_KIND):
        assert getattr(shared, name.upper()).value == place
    for place, name in enumerate(tables.Shape._fields):
        assert getattr(shared, name.upper()).value == place
    counted = {"affine": ACTIVATION_NAMES[:3], "cfc": MODE_NAMES[1:]}  # the rest is what none of these names says
    for name in counted.get(kind, ()):
        assert getattr(kernels, name.upper()).value == {"affine": ACTIVATION_NAMES, "cfc": MODE_NAMES}[kind].index(name)
