"""SAC with a guide: a plain network learns from rewards, and the circuit learns to act as it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN

from ncp_control.rl.policies.sequence_extractor import SequenceExtractor, WindowExtractor
from ncp_control.rl.updates.sac import Update, UpdateBatch
from ncp_control.rl.updates.windows import WindowTraining

# The circuit learns once for so many updates of the guide, from so many windows of the latest steps.
EVERY, WINDOWS, LATEST = 8, 32, 100_000
MAX_GRAD_NORM = 1.0


class GuidedTraining(WindowTraining):
    """Makes SAC train a policy with a guide by `GuidedUpdate`, and any other policy as `WindowTraining` does."""

    def _kind_of_update(self: Any) -> type[Update] | None:
        return super()._kind_of_update() if self.policy.guide is None else GuidedUpdate

    def _led(self: Any, actions: np.ndarray) -> np.ndarray:
        """Returns actions with those of the guide in the first half of the environments, if there is a guide."""
        guide: Any = self.policy.guide
        count = self.n_envs // 2  # in the others the circuit acts, to learn from states into which it gets by itself
        if guide is None or count == 0:
            return actions
        past: int = guide.features_extractor.window - 1  # the present observation is the last of the window
        buffer: Any = self.replay_buffer
        with torch.no_grad():
            seen = buffer.latest(self._last_obs, self._last_episode_starts, past, self._vec_normalize_env)
            chosen = guide(seen).cpu().numpy().reshape(-1, *actions.shape[1:])
        return np.concatenate([self.policy.unscale_action(chosen[:count]), actions[count:]])

    def _get_torch_save_params(self: Any) -> tuple[list[str], list[str]]:
        parts, variables = super()._get_torch_save_params()
        return [*parts, *(["policy.guide.optimizer"] if self.policy.guide is not None else [])], variables


class GuidedUpdate(Update):
    """An update of SAC whose actor is the guide, with single steps of windows; and an update of the circuit.

    Guide and critics see the last K observations and the actions between them, x_t. The circuit learns from sequences:
    the mean over their steps of ::

        |tanh(mu_circuit(t)) - tanh(mu_guide(x_t))|^2 + (l_circuit(t) - l_guide(x_t))^2

    with mu and l the mean and the logarithm of the standard deviation before tanh. Only the circuit's last layer learns
    from the second term.
    """

    def __init__(self, model: Any, batch: int, actor: Any) -> None:
        super().__init__(model, batch, actor)
        self.optimizers.append(model.actor.optimizer)  # the circuit's; `self.actor` is the guide

    @staticmethod
    def actor_of(model: Any) -> Any:
        """Returns the guide."""
        return model.policy.guide

    def __call__(self, k: int) -> dict[str, float]:
        """Makes the k-th update of a call, and after each `EVERY` of all updates one of the circuit."""
        losses = super().__call__(k)
        if (self.model._n_updates + 1) % EVERY == 0:
            losses["imitation_loss"] = self.imitate()
        return losses

    def sample(self) -> UpdateBatch:
        """Returns what this update learns from: guide and critics see the same."""
        data = self.windows(self.batch, 1)
        reader: WindowExtractor = self.actor.features_extractor
        seen, after = reader(data.observations), reader(data.next_observations)
        return UpdateBatch(seen, after, seen, after, data)

    def windows(self, count: int, sequence: int, among: int | None = None) -> Any:
        """Samples windows of the replay buffer."""
        buffer: Any = self.model.replay_buffer
        return buffer.sample_windows(count, sequence, self.model._vec_normalize_env, among)

    def imitate(self) -> float:
        """Lets the circuit learn from the guide once; returns the mean of the squared differences between actions."""
        circuit: Any = self.model.actor
        guide, model = self.actor, self.model
        sequence: int = model.replay_buffer.sequence
        # the buffer counts steps of each environment
        seen = self.windows(WINDOWS, sequence, LATEST // model.n_envs).observations
        with torch.no_grad():
            latent = guide.latent_pi(guide.features_extractor(seen))
            wanted, wanted_std = torch.tanh(guide.mu(latent)), guide.log_std(latent).clamp(LOG_STD_MIN, LOG_STD_MAX)
        reader: SequenceExtractor = circuit.features_extractor
        with torch.enable_grad():
            latent = circuit.latent_pi(reader(seen))
            error = (torch.tanh(circuit.mu(latent)) - wanted).square().mean()
            of_std = (circuit.log_std(latent.detach()) - wanted_std).square().mean()
            loss = error + of_std
        circuit.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(circuit.parameters(), MAX_GRAD_NORM)
        circuit.optimizer.step()
        return float(error.detach())
