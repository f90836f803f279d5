"""Two questions to a model of the dynamics, and how well the simulator itself could answer them.

A model that reads the actions of a controller can tell from them what the controller saw. So its predictions along
recorded actions say little about what it knows of other actions, which is what planning asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.base.progress import Tracker, tracked
from ncp_control.data import Rollouts, Scaler, Windows
from ncp_control.data.env_specs import make, spec_of
from ncp_control.dynamics.errors import squared_errors
from ncp_control.dynamics.open_loop import OpenLoop, Trials, errors_from, over_variance, starts_in, trials
from ncp_control.dynamics.simulator import Simulator

Array = NDArray[Any]
EVERY, STARTS = 50, 200  # steps from one start to the next at least; about so many starts at most
DRAWN = 7  # the spawn key of what is drawn here
SAME = 1e-6  # by which a replayed observation may differ from the recorded one


@dataclass(frozen=True)
class Answers:
    """Squared errors 1 .. H steps ahead from S starts, over the variances of the observations.

    :param recorded: of the model, after the actions that were recorded
    :param off_policy: of the model, after those of other episodes, (S, H); None if that is not known
    :param floors: of the simulator, started with errors as large as the model's own one step ahead, for "recorded" and
        "off-policy", (S, H) each; empty if they are not known
    :param unknown: why something is not known
    :param trials: what the model read and what followed, for "recorded" and, if that is known, "off-policy"
    """

    recorded: OpenLoop
    off_policy: Array | None = None
    floors: dict[str, Array] = field(default_factory=dict)
    unknown: str = ""
    trials: dict[str, Trials] = field(default_factory=dict)

    def rows(self, horizons: Iterable[int]) -> list[dict[str, float | None]]:
        """Returns the errors at some horizons, as JSON values; None for what is not known."""
        loop, rows = self.recorded, []
        columns = {
            "": loop.errors,
            "off_policy_": self.off_policy,
            "floor_": self.floors.get("recorded"),
            "off_policy_floor_": self.floors.get("off-policy"),
        }
        for k in horizons:
            row: dict[str, float | None] = {"horizon": k}
            for name, errors in columns.items():
                for key, of in (("mean", np.mean), ("median", np.median)):
                    row[name + key] = None if errors is None else float(of(errors[:, k - 1]))
            row |= {"low": float(loop.band[0][k - 1]), "high": float(loop.band[1][k - 1])}
            rows.append({**row, "persistence": float(loop.persistence[k - 1])})
        return rows


def ask(
    model: Simulator,
    rollouts: Rollouts,
    horizon: int,
    warm_up: int = 32,
    seed: int = 0,
    progress: bool = False,
    floors: bool = True,
) -> Answers:
    """Asks a model what follows recorded states, after the recorded actions and after those of other episodes.

    :param rollouts: episodes that the model has not seen
    :param horizon: number of steps to predict, H
    :param warm_up: number of observations that the model reads first
    :param seed: chooses the other episodes and the errors of the simulator
    :param progress: show a progress bar on stderr
    :param floors: ask the simulator, too, what it would have predicted; that takes twice as long as all the rest
    """
    rollouts = rollouts[:STARTS]
    starts = sum(len(starts_in(rollout, horizon, warm_up, 1)) for rollout in rollouts)
    every = max(EVERY, -(-starts // STARTS))
    read = trials(model, rollouts, horizon, warm_up, every)
    answers = Answers(errors_from(model, rollouts, read), trials={"recorded": read})
    if not model.action_size:
        return replace(answers, unknown="the model reads no actions")
    try:
        with (
            Bodies(rollouts) as bodies,
            tracked("simulating other actions", len(answers.recorded.errors), unit="starts", shown=progress) as tracker,
        ):
            return simulate(model, rollouts, bodies, answers, warm_up, every, seed, tracker, floors)
    except UnknownBodyError as error:
        return replace(answers, unknown=str(error))


def simulate(
    model: Simulator,
    rollouts: Rollouts,
    bodies: Bodies,
    answers: Answers,
    warm_up: int,
    every: int,
    seed: int,
    tracker: Tracker,
    floors: bool,
) -> Answers:
    """Does the part of `ask` that needs the simulator."""
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(DRAWN,)))
    std, horizon = Scaler.fit(rollouts).std, answers.recorded.errors.shape[1]
    noise = one_step_noise(model, rollouts, warm_up) if floors else None
    rows: dict[str, list[Array]] = {key: [] for key in ("seen", "actions", "real", "recorded", "off-policy")}
    for k, rollout in enumerate(rollouts):
        first = [start + warm_up - 1 for start in starts_in(rollout, horizon, warm_up, every)]
        for start, state in zip(first, bodies.states(rollout, first), strict=True):
            other_actions = choose_other(rollouts, k, horizon, random)
            real = bodies.follow(state, other_actions)
            own = rollout.actions[start : start + horizon]  # type: ignore[index]
            rows["seen"].append(rollout.observations[start - warm_up + 1 : start + 1])
            rows["actions"].append(np.concatenate([rollout.actions[start - warm_up + 1 : start], other_actions]))  # type: ignore[index]
            rows["real"].append(real)
            if noise is not None and bodies.skip is not None:
                shift = noise * random.normal(size=noise.shape)
                seen = rollout.observations[start + 1 : start + 1 + horizon]
                rows["recorded"].append(over_variance(bodies.follow(state, own, shift), seen, std))
                rows["off-policy"].append(over_variance(bodies.follow(state, other_actions, shift), real, std))
            tracker.advance(done=1)
    like = model.mean
    read, actions, followed = (
        torch.as_tensor(np.stack(rows[key]), dtype=like.dtype, device=like.device)
        for key in ("seen", "actions", "real")
    )
    asked = Trials(read, actions.flatten(2), 1.0 if model.timed else None, followed)
    free = model.predict(asked.seen, horizon, asked.actions, asked.ahead).double().cpu().numpy()
    off_policy = over_variance(free, np.stack(rows["real"]), std)
    complete = replace(answers, off_policy=off_policy, trials={**answers.trials, "off-policy": asked})
    if not floors:
        return complete
    if bodies.skip is None:
        why = "the observations are not the simulator's positions and velocities, so that it cannot start with errors"
        return replace(complete, unknown=why)
    return replace(complete, floors={key: np.stack(rows[key]) for key in ("recorded", "off-policy")})


def one_step_noise(model: Simulator, rollouts: Rollouts, length: int) -> Array:
    """Returns the root mean square of the model's errors of the next observation, (n,)."""
    length = min(length, min(rollout.steps for rollout in rollouts))
    errors = squared_errors(model, Windows(rollouts, length, length, device=model.mean.device))
    return np.asarray(errors.double().mean((0, 1)).sqrt().cpu().numpy())


def choose_other(rollouts: Rollouts, own: int, horizon: int, random: np.random.Generator) -> Array:
    """Returns actions (H, m) of a random moment of another rollout, or of the same one if there is no other."""
    others = [k for k, one in enumerate(rollouts) if k != own and one.steps >= horizon] or [own]
    actions = rollouts[others[int(random.integers(len(others)))]].actions
    assert actions is not None
    first = int(random.integers(len(actions) - horizon + 1))
    return np.asarray(actions[first : first + horizon])


class UnknownBodyError(ValueError):
    """The simulator cannot be run again from the recorded states, to see what other actions lead to."""


class Bodies:
    """The MuJoCo environment in which rollouts were recorded, in the states that were recorded.

    A state is found by running an episode again from its seed, with the actions that were executed.

    :param rollouts: as `collect` makes them
    :ivar skip: how many of the simulator's positions the observations leave out, if they are its positions and
        velocities; None if they are something else
    """

    def __init__(self, rollouts: Rollouts) -> None:
        self.env = make_recorded(rollouts)
        import mujoco

        body: Any = self.env.unwrapped
        self.body, self.mujoco = body, mujoco
        self.kind = mujoco.mjtState.mjSTATE_INTEGRATION
        self.size = mujoco.mj_stateSize(body.model, self.kind)
        observation, _ = self.env.reset(seed=0)
        skip = body.model.nq + body.model.nv - len(observation)
        same = skip >= 0 and np.array_equal(observation, np.concatenate([body.data.qpos[skip:], body.data.qvel]))
        self.skip = skip if same else None

    def __enter__(self) -> Bodies:
        return self

    def __exit__(self, *_: object) -> None:
        self.env.close()

    def states(self, rollout: Any, steps: list[int]) -> list[Array]:
        """Returns the simulator's states at some steps of a rollout, in ascending order."""
        states: list[Array] = []
        observation, _ = self.env.reset(seed=rollout.seed)
        for step in range(steps[-1] + 1 if steps else 0):
            if not np.allclose(observation, rollout.observations[step], rtol=SAME, atol=SAME):
                raise UnknownBodyError(
                    f"the simulator here does not repeat what was recorded ({rollout.name} differs at step {step})"
                )
            if step in steps:
                state = np.empty(self.size)
                self.mujoco.mj_getState(self.body.model, self.body.data, state, self.kind)
                states.append(state)
            observation = self.env.step(rollout.actions[step])[0]
        return states

    def follow(self, state: Array, actions: Array, error: Array | None = None) -> Array:
        """Returns the observations (H, n) that follow actions (H, m) from a state.

        :param error: added to the state before, in the units of the observations, (n,)
        """
        model, data = self.body.model, self.body.data
        self.mujoco.mj_setState(model, data, state, self.kind)
        if error is not None:
            assert self.skip is not None
            positions = model.nq - self.skip
            data.qpos[self.skip :] += error[:positions]
            data.qvel[:] += error[positions:]
        return np.array([self.env.step(action)[0] for action in actions])


def make_recorded(rollouts: Rollouts) -> gym.Env[Any, Any]:
    """Makes the environment that rollouts were recorded in, and says so if it cannot."""
    name = rollouts.about.get("env")
    if not isinstance(name, str) or ":" in name:
        raise UnknownBodyError("the data does not name a registered environment that it was recorded in")
    if any(rollout.seed is None or rollout.actions is None for rollout in rollouts):
        raise UnknownBodyError("the data has no seeds and actions, by which its episodes could be run again")
    try:
        env = make(spec_of(name))
    except ValueError as error:
        unregistered = isinstance(error.__cause__, gym.error.UnregisteredEnv)
        where = f"{name} is not registered here, so that other actions cannot be tried in it"
        raise UnknownBodyError(where if unregistered else str(error)) from error
    if not all(hasattr(env.unwrapped, part) for part in ("model", "data", "frame_skip")):
        env.close()
        raise UnknownBodyError(f"{name} is not simulated by MuJoCo")
    return env
