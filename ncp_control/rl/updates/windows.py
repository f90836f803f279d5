"""SAC's faster update for a circuit that acts, where critics without a memory judge it."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from ncp_control.rl.algorithm import CircuitAlgorithm
from ncp_control.rl.diverged import check_training
from ncp_control.rl.policies.sequence_extractor import flat
from ncp_control.rl.updates.sac import Update, UpdateBatch, layers_in, networks_of


class WindowTraining(CircuitAlgorithm, OffPolicyAlgorithm):
    """Makes SAC train a circuit by `WindowUpdate` where it can, and otherwise as the next class does."""

    def train(self: Any, gradient_steps: int, batch_size: int = 64) -> None:
        """Updates the networks, as the method of Stable-Baselines3 does.

        :param gradient_steps: the number of updates
        :param batch_size: the number of steps that each of them learns from
        """
        if not (is_layered(self) and self.replay_buffer.count_windows()):
            super().train(gradient_steps, batch_size)
            return
        WindowUpdate.of(self, batch_size).run(gradient_steps)
        check_training(self)

    def _excluded_save_params(self: Any) -> list[str]:
        return [*super()._excluded_save_params(), "_update"]


def is_layered(model: Any) -> bool:
    """Whether `WindowUpdate` can train a model: all weights but the circuit's are in layers, and none is frozen."""
    return (
        model.device.type == "cpu"
        and not model.use_sde
        and not list(model.critic.features_extractor.parameters())
        and all(own.requires_grad for part in (model.actor, model.critic) for own in part.parameters())
        and all(layers_in(part) is not None for part in networks_of(model.policy, model.actor))
    )


class WindowUpdate(Update):
    """An update of SAC from windows of steps, whose actor is a circuit and whose critics have no memory.

    The circuit runs over each window once: its states after the trained steps also give the actions that come next.
    """

    @staticmethod
    def rows(model: Any, batch: int) -> int:
        """Returns the steps of the windows that a batch consists of."""
        sequence: int = model.replay_buffer.sequence
        return max(1, batch // sequence) * sequence

    def sample(self) -> UpdateBatch:
        """Returns what this update learns from: the steps of some windows, one after another."""
        model = self.model
        data = model.replay_buffer.sample(self.batch, model._vec_normalize_env)
        circuit, critic = self.actor.features_extractor, model.critic.features_extractor
        with torch.enable_grad():
            self._read, states = circuit.along(data.observations)
        read_after = circuit.step(flat(data.next_observations.observations, slice(None)), states)[0]
        seen, after = critic(data.observations), critic(data.next_observations)
        return UpdateBatch(seen, after, self._read.detach(), read_after, data)

    def train_reader(self, by_latent: Tensor) -> None:
        """Sets the gradients of the actor's hidden layers and of the circuit."""
        for parameter in self.actor.features_extractor.parameters():
            parameter.grad = None
        self._read.backward(self.trunk.backward(by_latent))
