"""A circuit's next step without gradients, without the questions before a scan whose answers are plain."""

from __future__ import annotations

from operator import attrgetter

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from ncp_control.neurons import Cell
from ncp_control.ops.cpu import backend, launch
from ncp_control.ops.readable import settled, watched
from ncp_control.rnn import RNN

_own_hooks = attrgetter("_forward_hooks", "_forward_pre_hooks", "_compiled_call_impl")

ONE = torch.ones(())  # the elapsed time; nothing writes to it


def single_step(rnn: RNN, inputs: Tensor, state: Tensor, reset: Tensor) -> tuple[Tensor, Tensor] | None:
    """Takes one step of an `RNN` on the CPU, with an elapsed time of one.

    :param rnn: runs the circuit
    :param inputs: (B, 1, I)
    :param state: the states before the step, (B, N)
    :param reset: (B, 1) bool, true where an episode begins
    :return: the outputs (B, 1, O) and the states after the step (B, 1, N); None where the scan has to be asked
    """
    cell = rnn.cell
    is_plain = (
        not torch.is_grad_enabled()
        and type(inputs) is type(state) is type(reset) is Tensor
        and inputs.is_cpu
        and state.is_cpu
        and reset.is_cpu
        and inputs.dtype is state.dtype is torch.float32
        and reset.dtype is torch.bool
        and inputs.shape == (len(reset), 1, cell.inputs)
        and state.shape == (len(reset), cell.state_size)
        and reset.shape == (len(reset), 1)
        and not (inputs.is_neg() or state.is_neg())
        and type(rnn) is RNN
        and rnn.backend in ("auto", "cpu")
        and not (rnn.check_finite or any(_own_hooks(rnn)) or _has_any_global_hook())
        and not torch.compiler.is_compiling()
        and watched() is None
        and backend.available()[0]
    )
    program = cell.program() if is_plain else None
    if program is None or program.kind not in launch.KINDS:
        return None
    parameters = program.parameters if program.motor is None else program.parameters + program.motor[2:]
    if not all([p is None or type(p) is nn.Parameter or _is_fixed(p, cell) for p in parameters]):
        return None  # one that is computed from others may be out of date
    program = settled(program, inputs, state)
    if program is None:
        return None
    motor = program.motor
    outputs = None if motor is None else inputs.new_empty(len(inputs), 1, motor.size)
    states = launch.forward(program, inputs, state, ONE, reset, None, outputs)
    return cell.motor(states) if outputs is None else outputs, states


def _is_fixed(value: Tensor, cell: Cell) -> bool:
    """Returns whether this is a tensor of fixed numbers of the cell, which nothing computes."""
    return any(value is buffer for buffer in cell._buffers.values())
