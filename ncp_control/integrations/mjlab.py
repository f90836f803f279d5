"""Tasks of mjlab whose actor is a circuit: `train Mjlab-Velocity-Flat-Unitree-G1-Circuit`.

mjlab imports this module by its entry point `mjlab.tasks`. Every task of mjlab without images is then there once more,
with `-Circuit` behind its name; only its actor is another. Options of the command line change the circuit, such as
`--agent.actor.wiring "AutoNCP(96, 48)"`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import mjlab.tasks  # noqa: F401  # registers mjlab's own
from mjlab.rl import RslRlModelCfg
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, load_runner_cls, register_mjlab_task

SUFFIX = "-Circuit"


@dataclass
class CircuitModelCfg(RslRlModelCfg):  # type: ignore[misc]
    """What mjlab's configuration of a model is for a circuit. Other settings are mjlab's."""

    hidden_dims: tuple[int, ...] = ()
    """Hidden layers behind the circuit; without any, one linear layer maps the motor neurons to the actions."""

    cell: str = "dualltc"
    """The cell."""

    wiring: str = "AutoNCP(96, 48)"
    """A plan as text."""

    cell_kwargs: dict[str, Any] | None = None
    """Settings of the cell."""

    class_name: str = "ncp_control.integrations.rsl_rl:CircuitModel"
    """The model that rsl_rl makes."""


def register_with_circuit(task: str, **circuit: Any) -> str:
    """Registers a task of mjlab once more, with a circuit as its actor, and returns the new name.

    Example::

        register_with_circuit("Mjlab-Cartpole-Balance", wiring="AutoNCP(24, 8)")

    :param task: the name of a registered task
    :param circuit: settings of `CircuitModelCfg` that differ from the defaults
    """
    agent = load_rl_cfg(task)
    kept = {field.name: getattr(agent.actor, field.name) for field in fields(RslRlModelCfg)}
    own = ("hidden_dims", "class_name", "rnn_type", "rnn_hidden_dim", "rnn_num_layers", "cnn_cfg")
    agent.actor = CircuitModelCfg(**{name: value for name, value in kept.items() if name not in own} | circuit)
    name = task + SUFFIX
    register_mjlab_task(name, load_env_cfg(task), load_env_cfg(task, play=True), agent, load_runner_cls(task))
    return name


for _task in list_tasks():
    if getattr(getattr(load_rl_cfg(_task), "actor", None), "class_name", None) in ("MLPModel", "RNNModel"):
        register_with_circuit(_task)
