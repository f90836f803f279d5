"""The futures in which a planner tries its plans: a model imagines them, or the simulator itself computes them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.environment import Reward, SimulatedEpisodes
from ncp_control.dynamics.planning import Array, Returns
from ncp_control.dynamics.simulator import Simulator

# Gymnasium's bodies whose reward is the speed along x, less the cost of the actions, and nothing else.
RUNNERS = ("HalfCheetahEnv", "SwimmerEnv")


class ImaginedFutures:
    """The futures that a model, or every member of an ensemble, imagines from what it has seen of an episode.

    Example::

        futures, planner = ImaginedFutures(model), Planner(*model.action_range)
        while not over:
            action = planner.act(futures.after(observation))
            futures.done(observation, action)
            observation, reward, terminated, truncated, _ = env.step(action)

    :param model: a model that reads actions; a timed one imagines steps of length 1
    :param reward: the reward of a step, as for `DynamicsEnv`
    :param doubt: how many standard deviations over an ensemble's members are taken off the mean of their returns
    """

    def __init__(self, model: Simulator, reward: Reward | None = None, doubt: float = 0.0) -> None:
        episodes = SimulatedEpisodes(model, reward, None, 1.0, 1)  # which says what it cannot simulate
        self.members: list[Simulator] = list(model.models) if isinstance(model, Ensemble) else [model]
        self.reward, self.ahead, self.doubt = episodes.reward, episodes.ahead, doubt
        self.states: list[Tensor | None] = [None] * len(self.members)

    def reset(self) -> None:
        """Forgets what was seen, for a new episode."""
        self.states = [None] * len(self.members)

    @torch.no_grad()
    def done(self, observation: Array, action: Array) -> None:
        """Lets the members read an observation and the action that was executed after it."""
        for k, member in enumerate(self.members):
            seen, acted = (row(member, values[None]) for values in (observation, action))
            _, self.states[k] = member(seen, acted, self.states[k], self.ahead)

    def after(self, observation: Array) -> Returns:
        """Returns a function that tells the return of plans (K, H, m) that begin at an observation (n,)."""

        def returns(plans: Array) -> Array:
            each = np.stack([self._of_member(k, observation, plans) for k in range(len(self.members))])
            return np.asarray(each.mean(axis=0) - self.doubt * each.std(axis=0), np.float64)

        return returns

    @torch.no_grad()
    def _of_member(self, k: int, observation: Array, plans: Array) -> Array:
        """Returns the returns (K,) of plans in one member's imagination."""
        member, state, count = self.members[k], self.states[k], len(plans)
        state = None if state is None else state.expand(count, -1).contiguous()
        seen = row(member, np.repeat(observation[None], count, axis=0))
        actions = torch.as_tensor(plans, dtype=seen.dtype, device=seen.device)
        last, state = member(seen, actions[:, :1], state, self.ahead)
        course = [seen, last]
        if actions.shape[1] > 1:
            course.append(member.run_free(last, state, actions.shape[1] - 1, actions[:, 1:], self.ahead)[0])
        found = torch.cat(course, dim=1).double().cpu().numpy()
        gained = np.zeros(count)
        for h in range(plans.shape[1]):
            gained += self.reward(found[:, h], plans[:, h], found[:, h + 1])
        return gained


class SimulatorFutures:
    """The futures of MuJoCo itself: no model can be worth more to a planner.

    :param env: the environment in which the planner acts, a HalfCheetah or a Swimmer of Gymnasium
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        body: Any = env.unwrapped
        if not any(kind.__name__ in RUNNERS for kind in type(body).__mro__):
            raise ValueError(
                f"the simulator plans for a HalfCheetah or a Swimmer, and not for a {type(body).__name__}: the "
                "reward of others needs more than the body's course"
            )
        import mujoco

        self.body, self.data = body, [mujoco.MjData(body.model)]

    def reset(self) -> None:
        """Does nothing: the body itself has its state."""

    def done(self, observation: Array, action: Array) -> None:
        """Does nothing: the body itself has moved."""

    def after(self, observation: Array) -> Returns:
        """Returns a function that tells the return of plans (K, H, m) that begin at the body's present state."""
        import mujoco
        from mujoco.rollout import rollout

        body, kind = self.body, mujoco.mjtState.mjSTATE_FULLPHYSICS
        state = np.empty(mujoco.mj_stateSize(body.model, kind))
        mujoco.mj_getState(body.model, body.data, state, kind)

        def returns(plans: Array) -> Array:
            rows = np.repeat(state[None], len(plans), axis=0)  # every plan begins in the body's present state
            found, _ = rollout(body.model, self.data, rows, np.repeat(plans, body.frame_skip, axis=1))
            forward = found[:, -1, 1] - state[1]  # after the time comes the position
            cost = body._ctrl_cost_weight * np.square(plans).sum(axis=(1, 2))
            return np.asarray(body._forward_reward_weight * forward / body.dt - cost)

        return returns


def row(model: Simulator, values: Array) -> Tensor:
    """Returns values (B, n) as a tensor of one step, (B, 1, n), of the model's type and on its device."""
    return torch.as_tensor(values, dtype=model.mean.dtype, device=model.mean.device)[:, None]
