"""The critic's part of a rollout in a few scans after it, with the numbers that it would have given step by step."""

from __future__ import annotations

from typing import Any

import torch
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from torch import Tensor

from ncp_control.rl.policies import gaussian


class CriticPass:
    """Values, log-probabilities and what follows time limits, for a rollout that only the actor saw.

    A circuit that steps a few rows leaves the processor's cache between two steps; over a whole sequence it stays.

    :param model: a model of recurrent PPO whose policy `acts_alone`
    :param buffer: its rollout buffer, empty
    """

    def __init__(self, model: Any, buffer: Any) -> None:
        self.model, self.policy, self.buffer = model, model.policy, buffer
        self._drawn: list[tuple[Tensor, Tensor, Tensor]] = []  # each step's actions, means and standard deviation
        self._limits: list[tuple[int, int, Any]] = []

    def act(self, obs: Tensor, lstm_states: RNNStates, episode_starts: Tensor) -> tuple[Tensor, RNNStates]:
        """Returns actions, and the states with the actor's new one."""
        actions, mean, std, pi = self.policy.act(obs, lstm_states.pi, episode_starts)
        self._drawn.append((actions, mean, std))
        return actions, RNNStates(pi, lstm_states.vf)

    def note_limit(self, idx: int, observation: Any) -> None:
        """Notes that a time limit has ended the episode of an environment in the coming step of the buffer."""
        self._limits.append((self.buffer.pos, idx, observation))

    def finish(self) -> None:
        """Fills in the buffer, and sets the model's state of the critic."""
        buffer, states = self.buffer, self.model._last_lstm_states
        count, vf = buffer.pos, states.vf
        with torch.no_grad():
            if count:
                actions, means, stds = (torch.stack(each) for each in zip(*self._drawn[:count], strict=True))
                # One for all steps, unless a callback has changed it between two of them.
                std = stds[0] if (stds == stds[0]).all() else stds[:, None]
                found = gaussian.log_probabilities(actions.view_as(means), means, std)
                buffer.log_probs[:count] = found.numpy(force=True)
            for first in range(0, count, buffer.sequence):
                vf = self._run(slice(first, min(first + buffer.sequence, count)), vf)
        self.model._last_lstm_states = RNNStates(states.pi, vf)

    def _run(self, steps: slice, states: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Runs the critic over some steps of every environment, and returns its states after them."""
        buffer, policy, (state, unused) = self.buffer, self.policy, states
        buffer.states_vf[steps.start // buffer.sequence] = state[0].numpy(force=True)
        seen = torch.as_tensor(buffer.observations[steps], device=policy.device)
        features = policy.extract_features(seen.flatten(0, 1)).unflatten(0, seen.shape[:2]).transpose(0, 1)
        starts = torch.as_tensor(buffer.episode_starts[steps], device=policy.device).bool().t()
        outputs, after = policy.lstm_critic.run(features, state[0], starts)
        heads = policy.mlp_extractor.forward_critic
        # Each step lies in memory as if it had been taken alone: products of other layouts may be rounded otherwise.
        each = [outputs[:, k].contiguous() for k in range(outputs.shape[1])]
        values = [policy.value_net(heads(one)) for one in each]
        buffer.values[steps] = torch.cat(values, dim=1).t().numpy(force=True)
        for step, idx, observation in self._limits:
            if steps.start <= step < steps.stop:
                before = after[None, idx : idx + 1, step - steps.start].contiguous()
                self.model.look_ahead(buffer.rewards[step], idx, observation, (before, unused))
        return after[None, :, -1], unused
