"""An agent for one robot, with the names and shapes that other libraries give a recurrent policy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ncp_control.rl.controller import Controller


@dataclass(frozen=True)
class Naming:
    """How a library names what goes into a recurrent policy and what comes out.

    :param inputs: the names of the observation, the state and the elapsed time; without the last, it is always 1
    :param outputs: the names of the action, the state and a monitor's flags
    :param has_layers: whether the state has an axis of layers before that of robots
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_layers: bool = False


RSL_RL = Naming(("obs", "h_in"), ("actions", "h_out"), has_layers=True)
LEAPP = Naming(("observation", "state_in", "elapsed"), ("action", "state_out", "flags"))


class OneRobot(nn.Module):
    """A step of an agent with the inputs and outputs that a `Naming` has. What the agent does not have is left out.

    :param controller: the agent
    :param naming: the names
    :ivar inputs: the names of its inputs
    :ivar outputs: the names of its outputs
    """

    def __init__(self, controller: Controller, naming: Naming) -> None:
        super().__init__()
        self.controller, self.has_layers = controller, naming.has_layers
        state, timed = controller.state_size > 0, controller.timed and len(naming.inputs) > 2
        self.inputs = [name for name, kept in zip(naming.inputs, (True, state, timed), strict=False) if kept]
        has = (True, state, controller.watch is not None)
        self.outputs = [name for name, kept in zip(naming.outputs, has, strict=False) if kept]

    def forward(self, observation: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Returns the action, and the state after it and a monitor's flags if there are any."""
        if not self.controller.state_size:
            action, _, *flags = self.controller(observation, observation.new_zeros(1, 0), *more)
            return action, *flags
        state, *elapsed = more
        action, after, *flags = self.controller(observation, state[0] if self.has_layers else state, *elapsed)
        return action, after[None] if self.has_layers else after, *flags

    def example(self) -> tuple[Tensor, ...]:
        """Returns inputs at the beginning of an episode."""
        agent = self.controller
        state = agent.initial_state()
        given = [torch.zeros(1, len(agent.sensors), dtype=agent.dtype), state[None] if self.has_layers else state]
        with_state = given if agent.state_size else given[:1]
        return tuple([*with_state, torch.ones(1, dtype=agent.dtype)][: len(self.inputs)])
