"""The C++ struct of a problem, which Python fills, and the sizes of all structs; every field has eight bytes."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.base.imports import KERNELS
from ncp_control.ops.kinds import kind_of

FIELD_BYTES = 8


class ProblemStruct(NamedTuple):
    """The struct `Problem` of kernels/scan.h: sizes, addresses of tensors, and the strides of `elapsed` in elements."""

    batch: int
    time: int
    inputs: int
    units: int
    threads: int
    x: int
    state: int
    elapsed: int
    elapsed_row_stride: int
    elapsed_time_stride: int
    reset: int
    mask: int
    states: int
    grad_states: int
    grad_x: int
    grad_state: int
    grad_elapsed: int
    motor: int
    outputs: int
    output_scale: int
    output_shift: int
    values: int
    grad_values: int
    d_output_scale: int
    d_output_shift: int


def struct_sizes() -> dict[str, int]:
    """The size in bytes of each struct, as Python fills it."""
    fields = {"problem": len(ProblemStruct._fields)} | {kind: len(kind_of(kind).struct.fields) for kind in KERNELS}
    return {name: FIELD_BYTES * count for name, count in fields.items()}
