"""What a laboratory knows about the recordings that it can write, beside what happens in its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ncp_control._version import __version__
from ncp_control.activity.recording.activity import FORMAT, VERSION
from ncp_control.activity.recording.agents import policy_about
from ncp_control.activity.recording.tap import bounds_of
from ncp_control.base.packed import packed
from ncp_control.rl.controller import Controller


def recording_facts(controller: Controller, env: Any, name: str = "", note: Mapping[str, Any] | None = None) -> Any:
    """Returns what is the same in every recording of an agent, as JSON values for `recordingOf` of `recording.js`.

    :param controller: the agent
    :param env: the environment, with its wrappers
    :param name: the name under which the agent is recorded
    :param note: JSON values that are kept in the recordings
    :return: `about` as `record` writes it, without what happens; `wiring`, the circuit's as JSON text; `state_bounds`
        and `time_constant_bounds`, the packed least and greatest values of all neurons; and `uses_elapsed`, whether the
        cell has a use for the elapsed time
    """
    rnn = controller.rnn
    assert rnn is not None  # `controller_data` refuses an agent without one
    about = {
        "format": FORMAT, "version": VERSION, "package": __version__, "body": None,
        **policy_about(rnn.cell, env, name, note),
    }  # fmt: skip
    bounds = {key: [packed(bound) for bound in torch.as_tensor(both)] for key, both in bounds_of(rnn).items()}
    return {"about": about, "wiring": rnn.wiring.to_json(), "uses_elapsed": rnn.cell.uses_elapsed, **bounds}
