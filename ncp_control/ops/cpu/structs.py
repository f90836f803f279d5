"""The C++ structs that Python fills: the names of their fields in order, each of eight bytes (see `kernels/*.h`)."""

from __future__ import annotations

from typing import NamedTuple

from ncp_control.ops.program import (
    AffineSettings,
    CfCSettings,
    CTGRUSettings,
    DualSettings,
    GatedSettings,
    LTCSettings,
    Settings,
)

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


class CellStruct(NamedTuple):
    """The struct of one kind of cell: a number for each setting, then addresses.

    :param settings: fields of the kind's settings
    :param indexes: index tensors
    :param parameters: parameters; null for one that the cell does without
    :param gradients: what the backward kernel writes; null in the forward pass
    """

    settings: tuple[str, ...]
    indexes: tuple[str, ...]
    parameters: tuple[str, ...]
    gradients: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all fields, in order."""
        return (*self.settings, *self.indexes, *self.parameters, *self.gradients)


EDGES = ("start", "source", "sensory_start", "sensory_source")


def _sparse(settings: type[Settings], indexes: tuple[str, ...], parameters: str) -> CellStruct:
    """The struct of a kind whose kernel writes one gradient for each parameter."""
    names = tuple(parameters.split())
    return CellStruct(settings._fields, indexes, names, tuple(f"d_{name}" for name in names))


def _dense(settings: type[Settings], parameters: str) -> CellStruct:
    """The struct of a kind whose kernel writes the gradients of its linear maps (see `gated.py`)."""
    return CellStruct(settings._fields, (), tuple(parameters.split()), ("d_maps",))


_LTC = _sparse(
    LTCSettings,
    (*EDGES, "gap_ends"),
    "gleak_raw vleak cm_raw gap_raw w_raw mu sigma E "
    "sensory_w_raw sensory_mu sensory_sigma sensory_E input_scale input_shift",
)
_AFFINE = _sparse(AffineSettings, EDGES, "gamma gamma_r mu tau_raw A")
_GATED = _dense(GatedSettings, "weight_ih weight_hh bias_ih bias_hh")
STRUCTS = {
    "ltc": _LTC,
    "affine": _AFFINE,
    "affine_rk4": _AFFINE,
    "cfc": _sparse(CfCSettings, EDGES, "weight sensory_weight bias w_tau A"),
    "dual": _sparse(DualSettings, EDGES, "weight sensory_weight bias brake_raw log_tau"),
    "lstm": _GATED,
    "gru": _GATED,
    "ctgru": _dense(CTGRUSettings, "retrieve retrieve_bias detect detect_bias store store_bias"),
}


def struct_sizes() -> dict[str, int]:
    """The size in bytes of each struct, as Python fills it."""
    fields = {"problem": len(ProblemStruct._fields)} | {kind: len(cell.fields) for kind, cell in STRUCTS.items()}
    return {name: FIELD_BYTES * count for name, count in fields.items()}
