"""Recorded test vectors: what an agent does in float64, to check a build against."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ncp_control.neurons.code import LARGEST
from ncp_control.rl.controller import Controller, Normalize

Array = NDArray[Any]
STEPS = 200
SEED = 0
RESET = 120  # a step in the middle with which an episode begins
CLIPPED = 10  # every so many steps, the observation lies beyond the clip
SPAN = 0.5, 3.0  # of elapsed times, for an agent in whose training they varied
CLEAR = 1e-3  # the best choice is better than the next by this much, so that rounding does not change it
TRIES = 50  # observations that are drawn until one choice is clearly the best
GROWN = 1e4  # a state that has grown so many times as large as after the first step ends the episode


def vectors_text(controller: Controller) -> str:
    """Returns test vectors as CSV: for each step reset, elapsed, the observation, the action and the state after it.

    :param controller: a controller in float64 with the backend "reference"
    """
    actions = 1 if controller.chooses else len(controller.actions)
    counts = {"observation": len(controller.sensors), "action": actions, "state": controller.state_size}
    titles = ["reset", "elapsed"] + [f"{what}{k}" for what, count in counts.items() for k in range(count)]
    lines = [",".join(titles)]
    generator = np.random.default_rng(SEED)
    state, allowed = controller.initial_state(), np.inf
    for step in range(STEPS):
        reset = step in (0, RESET)
        if reset:
            state = controller.initial_state()
        numbers, after = acted(controller, generator, state, step)
        if reset:
            allowed = GROWN * (1 + largest_of(after))
            if not allowed <= LARGEST:
                grown = f"a state is {largest_of(after):.3g} after one step"
                raise ValueError(f"the agent has no C form, because its circuit diverges: {grown}")
        elif not largest_of(after) <= allowed:
            # A circuit that diverges: float rounds differences of such numbers to anything, and then overflows.
            reset, state = True, controller.initial_state()
            numbers, after = acted(controller, generator, state, step)
        state = after
        lines.append(",".join([str(int(reset)), *numbers, *written(state)]))
    return "\n".join(lines) + "\n"


def largest_of(state: Tensor) -> float:
    """Returns the greatest magnitude in a state (1, N), which is NaN if a number in it is."""
    return float(state.abs().max()) if state.numel() else 0.0


def acted(controller: Controller, generator: np.random.Generator, state: Tensor, step: int) -> tuple[list[str], Tensor]:
    """Returns elapsed, observation and action as words, and the state after the step.

    The observation of a choice is drawn until one choice is clearly the best.
    """
    for _ in range(TRIES):
        elapsed = float(np.float32(generator.uniform(*SPAN))) if controller.timed else 1.0
        seen = torch.as_tensor(drawn(controller, generator, step))[None]
        outputs = features = controller.features(seen, elapsed)
        after = state
        if controller.rnn is not None:
            outputs, after = controller.rnn.step(features, state, elapsed)
        if not controller.chooses or clear(controller.head(outputs)):
            break
    return [repr(elapsed), *written(seen), *written(controller.act(outputs))], after


def clear(values: Tensor) -> bool:
    """Whether the best of several choices (1, A) is clearly better than the next."""
    best = values[0].sort(descending=True).values[:2]
    return len(best) < 2 or bool(best[0] - best[1] > CLEAR)


def drawn(controller: Controller, generator: np.random.Generator, step: int) -> Array:
    """Returns an observation (n,) that fits the normalisation's statistics, in numbers that a float holds exactly."""
    values = generator.standard_normal(len(controller.sensors))
    normalize = controller.normalize
    if isinstance(normalize, Normalize):
        if step % CLIPPED == CLIPPED - 1:
            values = np.sign(values) * (normalize.clip + np.abs(values) - 0.5)
        values = normalize.mean.numpy() + normalize.scale.numpy() * values
    return values.astype(np.float32).astype(np.float64)


def written(values: Tensor) -> list[str]:
    """Returns numbers with all their digits, and whole numbers without a point."""
    return [repr(value) for value in values.flatten().tolist()]
