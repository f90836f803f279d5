"""Checks of the arguments of policies, with a sentence that says what to pass instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import CombinedExtractor

from ncp_control.base.values import advice_for

# Arguments by which sb3-contrib's recurrent policies describe their LSTMs; NCPPolicy has its own arguments for these.
LSTMS = ("lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs")


def check_names(given: Iterable[str], *constructors: Callable[..., Any]) -> None:
    """Refuses names that are an argument of no constructor.

    :param given: the names in `policy_kwargs`
    :param constructors: the constructors of NCPPolicy and of the policy that it extends
    """
    known = {name for constructor in constructors for name in inspect.signature(constructor).parameters}
    known -= {*LSTMS, "self", "args", "kwargs", "observation_space", "action_space", "lr_schedule"}
    for name in given:
        if name in LSTMS:
            raise TypeError(
                f"NCPPolicy takes no {name}, as its memory is a circuit: set the actor's size with wiring=, its "
                'critic with critic="circuit", "lstm", "mlp" or "shared", and an LSTM critic\'s size with critic_units='
            )
        if name not in known:
            raise TypeError(f"NCPPolicy has no argument {name!r}: {advice_for(name, known)}")


def check_choice(what: str, chosen: str, choices: tuple[str, ...]) -> None:
    """Refuses a value that is not among the choices, and lists them."""
    if chosen not in choices:
        raise ValueError(f"unknown {what} {chosen!r}: choose one of {', '.join(choices)}")


def choose_extractor(arguments: dict[str, Any], observation_space: spaces.Space[Any]) -> None:
    """Adds the features extractor for dictionaries to a policy's arguments.

    Images without an extractor and observations without a number are refused.
    """
    if isinstance(observation_space, spaces.Box) and 0 in observation_space.shape:
        raise ValueError(f"an agent needs at least one number to observe, and there is none in {observation_space}")
    if isinstance(observation_space, spaces.Dict):
        arguments.setdefault("features_extractor_class", CombinedExtractor)
    elif is_image_space(observation_space) and "features_extractor_class" not in arguments:
        raise ValueError(
            "a circuit reads features, not images: pass policy_kwargs=dict(features_extractor_class=NatureCNN), or "
            f"another extractor, for {observation_space}"
        )
