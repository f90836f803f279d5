"""Making a student, and letting its teacher act once before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from ncp_control.data.episodes import copy_of, stack
from ncp_control.distil.acting import Actor
from ncp_control.distil.collecting import Place
from ncp_control.distil.environments import EnvRecipe
from ncp_control.neurons import named_cell
from ncp_control.rl.on_policy import RecurrentPPO
from ncp_control.rl.recipes.building import make_envs
from ncp_control.rl.recipes.recipe import Recipe
from ncp_control.wiring import NCP
from ncp_control.wiring.plan_text import parse_plan

DEFAULT_CELL = "dualltc"
# 48 neurons with every synapse that an NCP can have: a student that shall have fewer finds out which ones it needs.
DEFAULT_WIRING = NCP(
    20, 12, 16, sensory_fanout=20, inter_fanout=12, recurrent_command=144, motor_fanin=12, recurrent_inter=400
)


def try_out(place: Place, teacher: Any) -> None:
    """Lets the teacher act once, so that one that does not fit is refused before anything is written."""
    try:
        observation = copy_of(place.env.reset(seed=0)[0])
        actor = Actor(teacher, place.env.action_space, "the teacher")
        actor.act(stack([place.seen_by_teacher(observation)]), np.ones(1, dtype=bool))
    finally:
        place.env.close()


def wiring_of(cell: str) -> NCP | int:
    """Returns the wiring of a student for which only a cell was named."""
    return DEFAULT_WIRING.units if named_cell(cell).always_dense else DEFAULT_WIRING


def make_student(recipe: EnvRecipe, wiring: Any, cell: str, cell_kwargs: Mapping[str, Any] | None, seed: int) -> Any:
    """Makes an untrained model of recurrent PPO, whose critic, which nothing trains here, is as small as can be."""
    arguments: dict[str, Any] = {
        "wiring": parse_plan(wiring) if isinstance(wiring, str) else wiring,
        "cell": cell,
        "cell_kwargs": dict(cell_kwargs or {}),
        "critic": "shared",
    }
    found = Recipe(
        env=recipe.env,
        algo="RecurrentPPO",
        n_timesteps=1,
        env_wrapper=list(recipe.wrappers),
        env_kwargs=dict(recipe.arguments),
        normalize=True,
    )
    envs = make_envs(found, 1, training=False)
    space = envs.action_space
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        envs.close()
        raise ValueError(
            f"a student chooses actions from a Box or a Discrete space, and those of {recipe.env} are {space}"
        )
    try:
        return RecurrentPPO("NCPPolicy", envs, policy_kwargs=arguments, seed=seed, device="cpu")
    except (TypeError, ValueError) as error:
        envs.close()
        if isinstance(error, ValueError):
            raise
        raise ValueError(f"the cell {cell} does not take the settings {dict(cell_kwargs or {})}: {error}") from error
