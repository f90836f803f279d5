"""A model of the dynamics from the command line, and the environment that it imitates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

UNNAMED = "observation 0"


def read_model(paths: Sequence[Path]) -> Any:
    """Reads a model; of several files, all members of all of them as one ensemble."""
    from ncp_control.dynamics import Ensemble, load_model

    found: list[Any] = [load_model(path) for path in paths]
    if len(found) == 1:
        return found[0]
    return Ensemble([one for model in found for one in (model.models if isinstance(model, Ensemble) else [model])])


def check_imitates(model: Any, env: Any, name: str) -> None:
    """Refuses an environment whose observations or actions are not those of the model.

    :param model: the model
    :param env: the environment; wrappers that show a part of its observations do not matter
    :param name: the environment's name, for messages
    """
    from gymnasium.spaces import Box

    from ncp_envs import observation_names

    body = env.unwrapped
    if not isinstance(body.observation_space, Box) or not isinstance(body.action_space, Box):
        raise ValueError(f"{name} has no vectors of numbers as observations and actions, which a model predicts from")
    sizes, own = (model.features, model.action_size), (body.observation_space.shape[0], body.action_space.shape[0])
    if own != sizes:
        raise ValueError(
            f"{name} has {own[0]} observations and {own[1]} actions, and the model was fitted to {sizes[0]} and "
            f"{sizes[1]}"
        )
    names = observation_names(body)
    if names != list(model.observation_names) and UNNAMED not in (*names, *model.observation_names):
        its, models = next(pair for pair in zip(names, model.observation_names, strict=True) if pair[0] != pair[1])
        raise ValueError(f"{name} is another body than the model's: it has {its!r} where the model has {models!r}")


def places_of(env: Any) -> list[int] | None:
    """Returns which of its body's observations an environment shows; None if it shows all of them in their order."""
    from ncp_envs import observation_names

    names, shown = observation_names(env.unwrapped), observation_names(env)
    if shown == names:
        return None
    if not set(shown) <= set(names):
        added = next(name for name in shown if name not in names)
        raise ValueError(f"{env.spec.id} shows {added!r}, which its body does not observe")
    return [names.index(name) for name in shown]
