"""Where a recording ends, so that another one goes on there: the body's state, the last observation, the memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from ncp_control.activity.recording.activity import ENDS, Activity
from ncp_control.data.bodies import BodyState, body_of
from ncp_envs import ActionBursts, RandomActionOverwrite

Array = NDArray[Any]
RANDOM = (RandomActionOverwrite, ActionBursts)  # they draw new random actions after the end


class LoopEnd(NamedTuple):
    """A moment of an episode, before the agent reads an observation.

    :param body: the body's state, as `BodyState` has it
    :param observation: what the agent reads next, (n,)
    :param memory: what the agent's `predict` gave last; None without a memory
    :param steps: how many steps of the episode were before
    """

    body: Array
    observation: Array
    memory: tuple[Array, ...] | None
    steps: int

    def arrays(self) -> dict[str, Array]:
        """Returns the arrays of a recording that ends here; none if a memory has several layers."""
        if self.memory is None:
            rows = np.zeros((0, 0))
        elif len({part.shape for part in self.memory}) == 1 and self.memory[0].shape[:2] == (1, 1):
            rows = np.stack([part[0, 0] for part in self.memory])
        else:
            return {}
        return dict(zip(ENDS, (np.append(self.body, self.steps), self.observation, rows), strict=True))


def memory_of(policy: Any, neurons: Array) -> tuple[Array, ...] | None:
    """Returns the memory with which a policy's `predict` goes on; None without one.

    :param policy: a policy of this package, or one without a memory
    :param neurons: the states of its actor's circuit, (N,); of a critic's they are zeros
    """
    if not neurons.size:
        return None
    shape = getattr(policy, "lstm_hidden_state_shape", None)
    if shape is None:
        return (neurons[None, None].astype(np.float32),)
    memory = np.zeros((2, 1, 1, shape[2]), np.float32)
    memory[0, 0, 0, : neurons.size] = neurons
    return memory[0], memory[1]


def body_in(env: Any) -> BodyState | None:
    """Returns the body in an environment, or None if its state is not known."""
    with suppress(ValueError):
        return body_of(env, also=RANDOM)
    return None


def end_of(activity: Activity) -> LoopEnd:
    """Returns where a recording ended, and refuses one that does not hold it."""
    body, observation, rows = (activity.get(name) for name in ENDS)
    if body is None or observation is None or rows is None:
        raise ValueError(
            "this recording cannot be continued: its last episode was over, or the state of its body or of its agent's "
            "memory is not known"
        )
    memory = tuple(row[None, None].astype(np.float32) for row in rows) if len(rows) else None
    return LoopEnd(body[:-1], observation, memory, int(body[-1]))


def set_back(env: Any, end: LoopEnd, seed: int) -> None:
    """Brings an environment to where a recording ended.

    :param env: the environment, with a new episode's random numbers afterwards
    :param end: the end
    :param seed: of the reset before
    """
    body = body_in(env)
    if body is None:
        raise ValueError(f"the state of {type(env.unwrapped).__name__} cannot be set, so no recording can go on in it")
    first, _ = env.reset(seed=seed)
    if body.state().shape != end.body.shape or np.shape(first) != end.observation.shape:
        raise ValueError("the recording to continue was made in another environment: name its environment with --env")
    body.restore(end.body)
    while env is not env.unwrapped:
        if isinstance(env, TimeLimit):
            setattr(env, "_elapsed_steps", end.steps)  # noqa: B010 (declared as None in Gymnasium)
        env = env.env
