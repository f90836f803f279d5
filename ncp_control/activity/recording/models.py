"""Recording what the circuit of a dynamics model does over a rollout, and what the model predicts open loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.activity.recording.activity import Activity
from ncp_control.activity.recording.tap import Tap, bounds_of
from ncp_control.activity.recording.writer import Writer
from ncp_control.data import Rollouts, Scaler
from ncp_control.neurons import cell_config
from ncp_envs.body import SECONDS, half_cheetah_capsules, half_cheetah_positions
from ncp_envs.names import may_be_half_cheetah

Array = NDArray[Any]
# A continuation begins every 10 steps, or less often in a long rollout, so that there are about 100.
EVERY, MOST, AHEAD = 10, 100, 100
POSITIONS = 8  # the observations of a half-cheetah whose velocities are not observed


def record_model(
    model: Any,
    rollout: Any,
    out: str | Path,
    *,
    warm_up: int | None = None,
    steps: int | None = None,
    ahead: int = AHEAD,
    controller: str = "",
) -> Activity:
    """Writes what the circuit of a dynamics model does over a rollout, and what the model predicts open loop.

    The model reads the rollout's observations during the warm-up, and its own predictions after it. The recording keeps
    this one continuation. If the model looks at all steps, the recording keeps continuations of about 100 steps, which
    leave the recorded circuit alone.

    :param model: a `DynamicsModel`
    :param rollout: a `Rollout`, whose actions are executed
    :param out: the `.npz` file
    :param warm_up: length of the warm-up in steps; all steps by default
    :param steps: how many steps of the rollout to record; all by default
    :param ahead: how many steps a continuation has if the model looks at all steps
    :param controller: the name under which the model is recorded
    """
    from ncp_control.dynamics import DynamicsModel
    from ncp_control.dynamics.open_loop import stretch

    if not isinstance(model, DynamicsModel):
        raise ValueError(f"a recording follows one circuit: give one DynamicsModel instead of {type(model).__name__}")
    if ahead < 1:
        raise ValueError(f"a continuation has at least one step, not {ahead}")
    total = min(steps or rollout.steps, rollout.steps)
    warm_up_steps = total if warm_up is None else min(warm_up, total)
    read = stretch(model, rollout, 0, total + 1)
    seen, actions, times = read["seen"], read["actions"], read["ahead"]
    assert seen is not None
    has_body = is_half_cheetah(model)
    about = {
        "kind": "model", "cell": cell_config(model.rnn.cell), "env": None, "controller": controller,
        "seeds": [rollout.seed], "dt": SECONDS if has_body else None, "silenced": [],
        "observation_names": list(model.observation_names), "action_names": list(model.action_names),
        "input_names": input_names(model), "note": {"looks": warm_up_steps},
    }  # fmt: skip
    with Writer(out, about, model.rnn.wiring) as writer, Tap(model.rnn) as tap, torch.no_grad():
        writer.fix(**bounds_of(model.rnn))
        state, observations, predictions, states = None, [], [], []
        prediction = seen[:, :1]
        for t in range(total):
            observation = seen[:, t : t + 1] if t < warm_up_steps else prediction
            action, elapsed = (None if values is None else values[:, t : t + 1] for values in (actions, times))
            prediction, state = model(observation, action, state, elapsed)
            observations.append(observation[0, 0].cpu().numpy())
            predictions.append(prediction[0])
            states.append(state[0])
        rows: dict[str, Array] = {
            "observations": np.stack(observations), "predictions": torch.cat(predictions).cpu().numpy(),
            "episode_starts": np.arange(total) == 0,
        }  # fmt: skip
        real = seen[0, :total].cpu().numpy()
        if warm_up_steps < total:
            rows["real_observations"] = real
        if rollout.rewards is not None:
            rows["rewards"] = np.asarray(rollout.rewards[:total])
        if rollout.actions is not None:
            rows["actions"] = np.asarray(rollout.actions[:total]).reshape(total, -1)
        if has_body:
            body = half_cheetah_capsules(real)
            rows["body_ends"] = body.ends
            writer.fix(body_radii=body.radii)
        starts, horizon = np.array([max(1, warm_up_steps)]), total - max(1, warm_up_steps)
        if warm_up_steps == total:
            every = max(EVERY, total // MOST)
            starts, horizon = np.arange(every, total, every), min(ahead, total - every)
        if horizon > 0:
            known = torch.cat(predictions), torch.stack(states)
            futures = continued(model, *known, starts, horizon, actions, times)
            writer.fix(**continuation_arrays(model, real, starts, futures, Scaler.fit(Rollouts((rollout,))).std))
        writer.append(**rows, **tap.take())
        writer.fix(saliency=tap.saliency())
    return Activity.load(out)


def input_names(model: Any) -> list[str]:
    """Returns what each input of a model's circuit is: an observation, an action, or the elapsed time."""
    acts = model.action_names if model.action_size else ()
    return [*model.observation_names, *acts, *(["elapsed time"] if model.tells_time else [])]


def is_half_cheetah(model: Any) -> bool:
    """Says whether a model predicts all 17 observations of a half-cheetah, or its 8 positions."""
    if model.features == POSITIONS:
        return "back thigh angle" in model.observation_names
    return model.features == 17 and may_be_half_cheetah(model.observation_names)


def continued(
    model: Any, predictions: Tensor, states: Tensor, starts: Array, horizon: int, actions: Any, times: Any
) -> Array:
    """Returns what a model predicts open loop from S steps on, (S, H, n).

    :param model: a `DynamicsModel`
    :param predictions: its predictions of the next observations, (T, n)
    :param states: its circuit's states after every step, (T, M)
    :param starts: the first step of each continuation, (S,), at least 1
    :param horizon: their length, H
    :param actions: (1, T, m), or None; the last ones are repeated where the rollout ends
    :param times: (1, T), or None, likewise
    """
    first = torch.as_tensor(starts, device=predictions.device) - 1  # a step is predicted in the one before it
    last, state = predictions[first][:, None], states[first]
    if horizon == 1:
        return np.asarray(last.cpu().numpy())
    step = (first[:, None] + torch.arange(1, horizon, device=first.device)).clamp(max=len(states) - 1)
    actions, times = (None if values is None else values[0, step] for values in (actions, times))
    rest, _ = model.run_free(last, state, horizon - 1, actions, times)
    return np.asarray(torch.cat([last, rest], dim=1).cpu().numpy())


def continuation_arrays(model: Any, real: Array, starts: Array, futures: Array, std: Array) -> dict[str, Array]:
    """Returns the arrays of a recording that are about continuations.

    A half-cheetah in a continuation runs as far as the integral of the predicted velocity says, from where the real one
    was when the model looked last. Without velocities, both run on the spot.

    :param model: a `DynamicsModel`
    :param real: the observations, (T, n)
    :param starts: the first step of each continuation, (S,)
    :param futures: the continuations, (S, H, n)
    :param std: the standard deviations of the rollout's observations, (n,)
    """
    from ncp_control.dynamics.open_loop import over_variance

    step = starts[:, None] + np.arange(futures.shape[1])
    futures[step >= len(real)] = np.nan
    errors = over_variance(futures, real[step.clip(max=len(real) - 1)], std)
    arrays = {"continuation_starts": starts, "continuations": futures, "continuation_errors": errors}
    if is_half_cheetah(model):
        x = half_cheetah_positions(real)[starts - 1, :1]
        # The real pose before each continuation shows where it begins, and is left out afterwards.
        runs = np.concatenate([real[starts - 1, None], futures], axis=1)
        ends = [
            half_cheetah_capsules(run, at + half_cheetah_positions(run)[:, 0]).ends[1:]
            for run, at in zip(runs, x, strict=True)
        ]
        arrays["continuation_ends"] = np.stack(ends)
    return arrays
