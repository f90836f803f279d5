"""A rollout buffer of sequences of equal length, which need no padding and no Python loop over sequences.

sb3-contrib cuts its minibatches into episodes of different lengths and pads them. A scan accepts episode starts within
a sequence, so here every environment's steps are cut into sequences of one length. A minibatch consists of some of
these sequences, in a new order every epoch. Only the recurrent states before each sequence are kept.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import torch
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import (
    RecurrentDictRolloutBufferSamples,
    RecurrentRolloutBufferSamples,
    RNNStates,
)
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from torch import Tensor

FIELDS = ("actions", "values", "log_probs", "advantages", "returns", "episode_starts")


def sequence_length(n_steps: int, wanted: int) -> int:
    """Returns the largest divisor of `n_steps` that is at most `wanted`; refuses one below half of what was wanted."""
    longest = min(wanted, n_steps)
    length = next(length for length in range(longest, 0, -1) if n_steps % length == 0)
    if 2 * length < longest:
        raise ValueError(
            f"a rollout of {n_steps} steps cannot be cut into equal sequences of about {longest} steps, only of "
            f"{length}: make n_steps a multiple of the sequence, such as {round(n_steps / longest) * longest}"
        )
    return length


class RolloutSequences:
    """Makes a recurrent rollout buffer one of sequences.

    :param args: the arguments of the buffer without memory, `plain`
    :param sequence: the length of a sequence; divides the number of the buffer's steps
    :param hidden_state_shape: (steps, 1, environments, numbers in a state)
    :param kwargs: the keyword arguments of `plain`
    """

    plain: type[RolloutBuffer] | type[DictRolloutBuffer]

    def __init__(self, *args: Any, sequence: int, hidden_state_shape: tuple[int, ...], **kwargs: Any) -> None:
        self.sequence, self.hidden_state_shape = sequence, hidden_state_shape
        self.plain.__init__(self, *args, **kwargs)  # type: ignore[arg-type]

    def reset(self) -> None:
        """Removes all steps."""
        steps, _, envs, size = self.hidden_state_shape
        if steps % self.sequence:
            raise ValueError(f"{steps} steps cannot be cut into sequences of {self.sequence}")
        shape = (steps // self.sequence, envs, size)
        self.states_pi, self.states_vf = (np.zeros(shape, dtype=np.float32) for _ in range(2))
        self.plain.reset(self)  # type: ignore[arg-type]

    def add(self, *args: Any, lstm_states: RNNStates, **kwargs: Any) -> None:
        """Adds a step of every environment, and the states before it."""
        if self.pos % self.sequence == 0:  # type: ignore[attr-defined]
            row = self.pos // self.sequence  # type: ignore[attr-defined]
            self.states_pi[row] = lstm_states.pi[0][0].cpu().numpy()
            self.states_vf[row] = lstm_states.vf[0][0].cpu().numpy()
        self.plain.add(self, *args, **kwargs)  # type: ignore[arg-type]

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Yields minibatches of whole sequences, about `batch_size` steps each, until every sequence came once."""
        if not self.full:  # type: ignore[attr-defined]
            raise ValueError("the rollout buffer must be full before it is sampled")
        rows, envs, _ = self.states_pi.shape
        order = np.random.permutation(rows * envs)
        for batch in np.split(order, self._ends(batch_size)[:-1]):
            yield self._cut(*np.divmod(batch, envs))

    def smallest_batch(self, batch_size: int | None) -> int:
        """Returns the number of steps in the smallest minibatch that `get` yields."""
        sizes = np.diff(self._ends(batch_size), prepend=0)
        return int(sizes.min()) * self.sequence

    def _ends(self, batch_size: int | None) -> Any:
        """Returns how many sequences have come with each minibatch and those before it."""
        rows, envs, _ = self.states_pi.shape
        each = rows * envs if batch_size is None else max(1, batch_size // self.sequence)
        return np.append(np.arange(each, rows * envs, each), rows * envs)

    def cut_all(self, most: int) -> Any:
        """Returns the first sequences of each environment in their order, about `most` steps in all."""
        rows, envs, _ = self.states_pi.shape
        count = max(1, min(rows * envs, most // self.sequence))
        return self._cut(*np.divmod(np.arange(count), envs))

    def _cut(self, rows: Any, envs: Any) -> Any:
        """Returns sequences as sb3-contrib's samples.

        :param rows: the sequences' numbers within their environments, which are the rows of the kept states, (S,)
        :param envs: their environments, (S,)
        """
        steps = rows[:, None] * self.sequence + np.arange(self.sequence)
        device = self.device  # type: ignore[attr-defined]

        def cut(values: Any) -> Tensor:
            """Cuts (steps, environments, ...) into (sequences x length, ...)."""
            return torch.as_tensor(values[steps, envs[:, None]].reshape(steps.size, *values.shape[2:]), device=device)

        actions, values, log_probs, advantages, returns, starts = (cut(getattr(self, name)) for name in FIELDS)
        actions = actions.float()  # as Stable-Baselines3 does, because some distributions refuse integers
        pi, vf = (torch.as_tensor(kept[rows, envs][None], device=device) for kept in (self.states_pi, self.states_vf))
        observations = self.observations  # type: ignore[attr-defined]
        if isinstance(observations, dict):
            seen: Any = {key: cut(values) for key, values in observations.items()}
            kind: Any = RecurrentDictRolloutBufferSamples
        else:
            seen, kind = cut(observations), RecurrentRolloutBufferSamples
        return kind(
            observations=seen,
            actions=actions,
            old_values=values,
            old_log_prob=log_probs,
            advantages=advantages,
            returns=returns,
            lstm_states=RNNStates((pi, pi), (vf, vf)),
            episode_starts=starts,
            mask=torch.ones(steps.size, device=device),
        )


class SequenceRolloutBuffer(RolloutSequences, RecurrentRolloutBuffer):  # type: ignore[misc]
    """A rollout buffer of sequences for observations that are vectors."""

    plain = RolloutBuffer


class SequenceDictRolloutBuffer(RolloutSequences, RecurrentDictRolloutBuffer):  # type: ignore[misc]
    """A rollout buffer of sequences for observations that are dictionaries."""

    plain = DictRolloutBuffer
