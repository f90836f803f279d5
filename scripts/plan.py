"""Runs the real half-cheetah with a planner that imagines the future in a fitted model, or in the simulator itself."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import mujoco
import mujoco.rollout
import numpy as np
import torch
import tyro

from ncp_control.dynamics import Ensemble, load_model
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.planning import ImaginedFutures, Planner, PlanSettings
from ncp_control.support.progress import tracked

SKIP, STEP = 5, 0.05  # steps of the simulator in a step of HalfCheetah-v5, and their duration in seconds


@dataclass
class Arguments:
    """Plan with one model, an ensemble of several, or the true simulator if none is named, and print the returns.

    Example: python scripts/plan.py runs/dynamics/best.safetensors --horizon 15
    """

    models: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Files of models; several are planned with as an ensemble."""

    doubt: float = 0.0
    """Standard deviations of an ensemble's returns that are taken off their mean."""

    episodes: int = 1
    """Number of episodes, with the seeds SEED, SEED + 1 and so on."""

    steps: int = 1000
    """Number of steps of an episode."""

    seed: int = 0
    """Everything random follows from it."""

    save: Path | None = None
    """A folder for the episodes as traces, for a model to learn from."""

    json: bool = False
    """Print one JSON object last."""

    search: Annotated[PlanSettings, tyro.conf.arg(name="")] = field(default_factory=PlanSettings)


class TrueFutures:
    """The futures of the simulator itself: what planning with a perfect model would return."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.body: Any = env.unwrapped
        self.data = [mujoco.MjData(self.body.model)]

    def reset(self) -> None:
        """Nothing is remembered."""

    def done(self, observation: Any, action: Any) -> None:
        """The body itself remembers."""

    def after(self, observation: Any) -> Any:
        """Returns a function that tells the return of plans (K, H, m) from the body's present state."""
        model, kind = self.body.model, mujoco.mjtState.mjSTATE_FULLPHYSICS
        state = np.empty(mujoco.mj_stateSize(model, kind))
        mujoco.mj_getState(model, self.body.data, state, kind)

        def returns(plans: Any) -> Any:
            rows = np.repeat(state[None], len(plans), axis=0)
            found, _ = mujoco.rollout.rollout(model, self.data, rows, np.repeat(plans, SKIP, axis=1))
            forward = found[:, -1, 1] - state[1]  # after the time comes the position
            return forward / STEP - 0.1 * np.square(plans).sum(axis=(1, 2))

        return returns


def run(env: gym.Env[Any, Any], futures: Any, planner: Planner, steps: int, seed: int, tracker: Any) -> dict[str, Any]:
    """Runs one episode, and returns its observations, actions and rewards."""
    observation, _ = env.reset(seed=seed)
    futures.reset()
    planner.reset()
    seen, acted, gained = [observation], [], []
    for _ in range(steps):
        action = planner.act(futures.after(observation))
        futures.done(observation, action)
        observation, reward, *_ = env.step(action.astype(np.float32))
        seen.append(observation)
        acted.append(action)
        gained.append(float(reward))
        tracker.advance(done=1, note=f"return {sum(gained):,.0f}")
    return {"observations": np.array(seen), "actions": np.array(acted), "rewards": np.array(gained)}


def main() -> None:
    """Runs the episodes and prints their returns."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    env = gym.make("HalfCheetah-v5", max_episode_steps=arguments.steps)
    members = [load_model(path) for path in arguments.models]
    futures: Any = TrueFutures(env)
    if members:
        each = [one for member in members for one in (member.models if isinstance(member, Ensemble) else [member])]
        model = Ensemble([one for one in each if isinstance(one, DynamicsModel)]) if len(each) > 1 else each[0]
        futures = ImaginedFutures(model, doubt=arguments.doubt)
    space: Any = env.action_space
    returns = []
    with tracked("planning", arguments.episodes * arguments.steps, shown=not arguments.json) as tracker:
        for k in range(arguments.episodes):
            planner = Planner(space.low, space.high, arguments.search, arguments.seed + k)
            episode = run(env, futures, planner, arguments.steps, arguments.seed + k, tracker)
            returns.append(float(episode["rewards"].sum()))
            if arguments.save is not None:
                arguments.save.mkdir(parents=True, exist_ok=True)
                np.savez(arguments.save / f"episode_{arguments.seed + k:04}.npz", **episode)
    found = {"returns": returns, "mean_return": float(np.mean(returns)), "steps": arguments.steps}
    if arguments.json:
        print(json.dumps(found))
    else:
        spread = f" +- {np.std(returns, ddof=1):,.0f}" if len(returns) > 1 else ""
        print(f"return {found['mean_return']:,.0f}{spread} over {len(returns)} episode(s) of {arguments.steps} steps")


if __name__ == "__main__":
    main()
