"""Recording what the circuit of a dynamics model does over a rollout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.tap import Tap, bounds_of
from ncp_control.activity.recording.writer import Writer
from ncp_control.cells import cell_config
from ncp_envs.names import may_be_half_cheetah

Array = NDArray[Any]


def record_model(
    model: Any, rollout: Any, out: str | Path, *, warm_up: int | None = None, steps: int | None = None
) -> Activity:
    """Writes what the circuit of a dynamics model does over a rollout.

    The model reads the rollout's observations during the warm-up, and its own predictions after it.

    :param model: a `DynamicsModel`
    :param rollout: a `Rollout`, whose actions are executed
    :param out: the `.npz` file
    :param warm_up: length of the warm-up in steps; all steps by default
    :param steps: how many steps of the rollout to record; all by default
    """
    from ncp_control.dynamics import DynamicsModel
    from ncp_control.dynamics.open_loop import stretch

    if not isinstance(model, DynamicsModel):
        raise ValueError(f"a recording follows one circuit: give one DynamicsModel instead of {type(model).__name__}")
    total = min(steps or rollout.steps, rollout.steps)
    warm_up_steps = total if warm_up is None else min(warm_up, total)
    read = stretch(model, rollout, 0, total + 1)
    seen, actions, ahead = read["seen"], read["actions"], read["ahead"]
    assert seen is not None
    about = {
        "kind": "model", "cell": cell_config(model.rnn.cell), "env": None, "controller": "", "seeds": [rollout.seed],
        "dt": None, "observation_names": list(model.observation_names), "action_names": [], "silenced": [],
        "note": {"looks": warm_up_steps},
    }  # fmt: skip
    with Writer(out, about, model.rnn.wiring) as writer, Tap(model.rnn) as tap, torch.no_grad():
        writer.fix(**bounds_of(model.rnn))
        state, observations, predictions = None, [], []
        prediction = seen[:, :1]
        for t in range(total):
            observation = seen[:, t : t + 1] if t < warm_up_steps else prediction
            action, elapsed = (None if values is None else values[:, t : t + 1] for values in (actions, ahead))
            prediction, state = model(observation, action, state, elapsed)
            observations.append(observation[0, 0].cpu().numpy())
            predictions.append(prediction[0, 0].cpu().numpy())
        rows: dict[str, Array] = {"observations": np.stack(observations), "predictions": np.stack(predictions)}
        rows["episode_starts"] = np.arange(total) == 0
        if rollout.rewards is not None:
            rows["rewards"] = np.asarray(rollout.rewards[:total])
        if rollout.actions is not None:
            rows["actions"] = np.asarray(rollout.actions[:total]).reshape(total, -1)
        if model.features == 17 and may_be_half_cheetah(model.observation_names):
            from ncp_envs.body import half_cheetah_capsules

            body = half_cheetah_capsules(rows["observations"])
            rows["body_ends"] = body.ends
            writer.fix(body_radii=body.radii)
        writer.append(**rows, **tap.take())
        writer.fix(saliency=tap.saliency())
    return Activity.load(out)
