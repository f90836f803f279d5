"""A circuit's next step without gradients, without the questions before a scan whose answers are known.

A step takes the kernel a few microseconds, and what is asked before every scan several times as long. Here it is asked
once, and again as soon as a tensor of the circuit is another one or lies elsewhere.
"""

from __future__ import annotations

from operator import attrgetter, is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from ncp_control.ops.cpu import launch
from ncp_control.ops.dispatch import choose_backend
from ncp_control.ops.problem import make_problem
from ncp_control.ops.program import Program
from ncp_control.ops.readable import watched
from ncp_control.rnn import RNN

_version = attrgetter("_version")
_own_hooks = attrgetter("_forward_hooks", "_forward_pre_hooks", "_compiled_call_impl")


ONE = torch.ones(())  # the elapsed time; nothing writes to it


class SingleStep:
    """Takes one step of an `RNN` on the CPU."""

    def __init__(self) -> None:
        self._known: tuple[Program, list[int]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and files begin anew."""
        return SingleStep, ()

    def __call__(self, rnn: RNN, inputs: Tensor, state: Tensor, reset: Tensor) -> Tensor | None:
        """Returns the states after a step, (B, 1, N), with an elapsed time of one.

        :param rnn: runs the circuit
        :param inputs: (B, 1, I)
        :param state: the states before the step, (B, N)
        :param reset: (B, 1) bool, true where an episode begins
        :return: None where the scan has to be asked
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
            and not (rnn.check_finite or any(_own_hooks(rnn)) or _has_any_global_hook())
            and not torch.compiler.is_compiling()
            and watched() is None
        )
        program = cell.program() if is_plain else None
        if program is None or not self._is_known(rnn, program, inputs, state, reset):
            return None
        return launch.forward(program, inputs, state, ONE, reset, None)

    def _is_known(self, rnn: RNN, program: Program, inputs: Tensor, state: Tensor, reset: Tensor) -> bool:
        """Whether the compiled kernels can read a program, which is looked at again once it is not as it was."""
        tensors = [tensor for tensor in (*program.parameters, *program.indexes) if tensor is not None]
        mark = [*map(Tensor.data_ptr, tensors), *map(_version, program.indexes)]
        if self._known is not None:
            known, before = self._known
            if mark == before and known[:2] == program[:2] and all(map(is_, known[3], program[3])):
                return True
        own = all(parameter is None or type(parameter) is nn.Parameter for parameter in program.parameters)
        if not own or choose_backend(make_problem(rnn.cell, inputs, state, 1.0, reset), rnn.backend) != "cpu":
            return False
        self._known = program, mark
        return True
