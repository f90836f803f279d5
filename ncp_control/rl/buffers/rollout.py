"""A rollout buffer of sequences of equal length, which need no padding and no Python loop over sequences.

sb3-contrib cuts its minibatches into episodes of different lengths and pads them. A scan accepts episode starts within
a sequence, so here every environment's steps are cut into sequences of one length. A minibatch consists of some of
these sequences, in a new order every epoch. Only the recurrent states before each sequence are kept.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import torch
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from torch import Tensor

FIELDS = ("actions", "values", "log_probs", "advantages", "returns", "episode_starts")


class SequenceSamples(NamedTuple):
    """A minibatch as sb3-contrib's recurrent algorithms read it, S sequences of L steps one after another.

    :param observations: (S L, ...), or a dictionary of such tensors
    :param actions: (S L, A)
    :param old_values: (S L,); so are `old_log_prob`, `advantages`, `returns` and `episode_starts`
    :param lstm_states: the states before the sequences, (1, S, N)
    :param mask: (S L,), one for each step, as no sequence is padded
    :param action_masks: which choices each step allowed, (S L, D); None in a training without masks
    """

    observations: Any
    actions: Tensor
    old_values: Tensor
    old_log_prob: Tensor
    advantages: Tensor
    returns: Tensor
    lstm_states: RNNStates
    episode_starts: Tensor
    mask: Tensor
    action_masks: Tensor | None


def sequence_length(n_steps: int, wanted: int) -> int:
    """Returns the largest divisor of `n_steps` that is at most `wanted`; refuses one below half of what was wanted."""
    longest = min(wanted, n_steps)
    length = next(length for length in range(longest, 0, -1) if n_steps % length == 0)
    if 2 * length < longest:  # much shorter sequences would teach much less memory than was asked for
        raise ValueError(
            f"a rollout of {n_steps} steps cannot be cut into equal sequences of about {longest} steps, only of "
            f"{length}: make n_steps a multiple of the sequence, such as {round(n_steps / longest) * longest}"
        )
    return length


class RolloutSequences:
    """Turns a recurrent rollout buffer into one that yields sequences.

    :param args: the arguments of the buffer without memory, `plain`
    :param sequence: the length of a sequence; divides the number of the buffer's steps
    :param state_sizes: how many numbers the states of the actor and of the critic have
    :param kwargs: the keyword arguments of `plain`
    """

    plain: type[RolloutBuffer] | type[DictRolloutBuffer]
    buffer_size: int
    n_envs: int
    device: Any
    observations: Any
    actions: Any
    rewards: Any
    episode_starts: Any
    values: Any
    log_probs: Any
    action_masks: Any

    def __init__(self, *args: Any, sequence: int, state_sizes: tuple[int, int], **kwargs: Any) -> None:
        self.sequence, self.state_sizes = sequence, state_sizes
        # not that of the recurrent buffer, which would keep room for a state at every step
        self.plain.__init__(self, *args, **kwargs)  # type: ignore[arg-type]

    def reset(self) -> None:
        """Removes all steps."""
        steps, envs = self.buffer_size, self.n_envs
        if steps % self.sequence:
            raise ValueError(f"{steps} steps cannot be cut into sequences of {self.sequence}")
        rows = steps // self.sequence
        self.states_pi, self.states_vf = (np.zeros((rows, envs, size), np.float32) for size in self.state_sizes)
        self.action_masks = None
        self.plain.reset(self)  # type: ignore[arg-type]

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        episode_start: Any,
        value: Tensor | None,
        log_prob: Tensor | None,
        *,
        lstm_states: RNNStates,
        action_masks: Any = None,
    ) -> None:
        """Adds a step of every environment, the states before it, and the actions that it allowed, (B, D).

        A value or a log-probability of None is filled in later.
        """
        at: int = self.pos  # type: ignore[has-type]
        if at % self.sequence == 0:
            row = at // self.sequence
            # Of an LSTM's hidden and cell state, by layer, a circuit has the hidden one and one layer.
            self.states_pi[row] = lstm_states.pi[0][0].numpy(force=True)
            self.states_vf[row] = lstm_states.vf[0][0].numpy(force=True)
        kept: Any = self.observations
        for array, seen in [(kept[key], obs[key]) for key in kept] if isinstance(kept, dict) else [(kept, obs)]:
            array[at] = seen.reshape(array.shape[1:])
        self.actions[at] = action.reshape(self.actions.shape[1:])
        self.rewards[at], self.episode_starts[at] = reward, episode_start
        if value is not None and log_prob is not None:
            self.values[at] = value.numpy(force=True).reshape(-1)
            self.log_probs[at] = log_prob.numpy(force=True).reshape(-1)
        if action_masks is not None:
            if self.action_masks is None:
                # steps without a mask allow everything
                self.action_masks = np.ones((self.buffer_size, *action_masks.shape), dtype=bool)
            self.action_masks[at] = action_masks
        self.pos = at + 1
        self.full = self.pos == self.buffer_size

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Yields minibatches of whole sequences, about `batch_size` steps each, until each sequence has come once."""
        if not self.full:
            raise ValueError("the rollout buffer must be full before it is sampled")
        order, sequences = np.random.permutation(self.count), self._all()
        for batch in np.split(order, self._ends(batch_size)[:-1]):
            yield self._samples(sequences, torch.as_tensor(batch, device=self.device))

    @property
    def count(self) -> int:
        """The number of sequences."""
        rows, envs, _ = self.states_pi.shape
        return int(rows * envs)

    def batch_sizes(self, batch_size: int | None) -> list[int]:
        """Returns the numbers of steps in the minibatches that `get` yields; only the last one may be smaller."""
        sequences: list[int] = np.diff(self._ends(batch_size), prepend=0).tolist()
        return [count * self.sequence for count in sequences]

    def _ends(self, batch_size: int | None) -> Any:
        """Returns the number of sequences up to the end of each minibatch; the last one takes those that are left."""
        each = self.count if batch_size is None else max(1, batch_size // self.sequence)
        return np.append(np.arange(each, self.count, each), self.count)

    def cut_all(self, most: int) -> Any:
        """Returns the first sequences of each environment in their order, about `most` steps in all."""
        chosen = torch.arange(max(1, min(self.count, most // self.sequence)), device=self.device)
        return self._samples(self._all(), chosen)

    def _all(self) -> dict[str, Any]:
        """Returns everything as sequences: each of `FIELDS` (S, L, ...), and the states before them (S, N)."""
        rows, envs, _ = self.states_pi.shape
        device = self.device

        def cut(values: Any) -> Tensor:
            """Cuts (steps, environments, ...) into (sequences, length, ...)."""
            cut = values.reshape(rows, self.sequence, *values.shape[1:]).swapaxes(1, 2)
            return torch.as_tensor(cut.reshape(rows * envs, self.sequence, *values.shape[2:]), device=device)

        names = FIELDS if self.action_masks is None else (*FIELDS, "action_masks")
        sequences: dict[str, Any] = {name: cut(getattr(self, name)) for name in names}
        # as Stable-Baselines3 does; some distributions refuse integers
        sequences["actions"] = sequences["actions"].float()
        seen = self.observations
        sequences["observations"] = {key: cut(seen[key]) for key in seen} if isinstance(seen, dict) else cut(seen)
        for name in ("states_pi", "states_vf"):
            sequences[name] = torch.as_tensor(getattr(self, name).reshape(rows * envs, -1), device=device)
        return sequences

    def _samples(self, sequences: dict[str, Any], chosen: Tensor) -> Any:
        """Returns sequences as sb3-contrib's samples.

        :param sequences: what `_all` returned
        :param chosen: the numbers of the sequences, (S,)
        """
        flat = {name: sequences[name][chosen].flatten(0, 1) for name in (*FIELDS, "action_masks") if name in sequences}
        pi, vf = (sequences[name][chosen][None] for name in ("states_pi", "states_vf"))
        seen = sequences["observations"]
        is_dict = isinstance(seen, dict)
        observations: Any = (
            {key: values[chosen].flatten(0, 1) for key, values in seen.items()}
            if is_dict
            else seen[chosen].flatten(0, 1)
        )
        return SequenceSamples(
            observations=observations,
            actions=flat["actions"],
            old_values=flat["values"],
            old_log_prob=flat["log_probs"],
            advantages=flat["advantages"],
            returns=flat["returns"],
            lstm_states=RNNStates((pi, pi), (vf, vf)),  # nobody reads the second of a pair
            episode_starts=flat["episode_starts"],
            mask=torch.ones_like(flat["returns"]),
            action_masks=flat.get("action_masks"),
        )


class SequenceRolloutBuffer(RolloutSequences, RecurrentRolloutBuffer):  # type: ignore[misc]
    """A rollout buffer of sequences for observations that are vectors."""

    plain = RolloutBuffer


class SequenceDictRolloutBuffer(RolloutSequences, RecurrentDictRolloutBuffer):  # type: ignore[misc]
    """A rollout buffer of sequences for observations that are dictionaries."""

    plain = DictRolloutBuffer
