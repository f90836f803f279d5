"""Names of policy arguments that are none of ours, refused with the one that does what was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

# What sb3-contrib's recurrent policies call the size and place of their LSTMs.
LSTMS = ("lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs")


def check_names(given: Iterable[str], *constructors: Callable[..., Any]) -> None:
    """Refuses names that no constructor has.

    :param given: names in `policy_kwargs`
    :param constructors: of NCPPolicy and of the policy that it is made from
    """
    known = {name for constructor in constructors for name in inspect.signature(constructor).parameters}
    known -= {*LSTMS, "self", "args", "kwargs", "observation_space", "action_space", "lr_schedule"}
    for name in given:
        if name in LSTMS:
            raise TypeError(
                f"NCPPolicy takes no {name}, as its memory is a circuit: wiring= is the actor's size, "
                'critic="circuit", "lstm", "mlp" or "shared" the judge, and critic_units= the size of an LSTM critic'
            )
        if name not in known:
            near = get_close_matches(name, sorted(known), 1)
            advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(sorted(known))}"
            raise TypeError(f"NCPPolicy has no argument {name!r}: {advice}")
