"""A recurrent policy that chooses among the actions that masks allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.distributions import Distribution
from torch import Tensor

from ncp_control.rl.policies.masks import masked, read_masks
from ncp_control.rl.policies.predict_checks import rows_of

Array = NDArray[Any]


class MaskedPolicy(RecurrentActorCriticPolicy):
    """Adds `action_masks` to `predict` and to the distribution of actions, as sb3-contrib's `MaskablePPO` has them."""

    def predict(
        self,
        observation: Any,
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Returns actions, and the state to pass with the next observation.

        :param observation: one observation or a batch of n observations
        :param state: the state that the last call returned; None where episodes begin
        :param episode_start: (n,), true where an episode begins, so that the state is reset
        :param deterministic: return the most probable action rather than a sample
        :param action_masks: which choices are allowed, (n, D) or (D,), see `ncp_control.rl.policies.masks`
        """
        self.set_training_mode(False)
        seen, is_batch = self.obs_to_tensor(observation)
        rows, space = rows_of(seen), self.action_space
        if state is None:
            layers, _, size = self.lstm_hidden_state_shape
            state = (np.zeros((layers, rows, size)),) * 2
        if episode_start is None:
            episode_start = np.zeros(rows, dtype=bool)
        masks = None if action_masks is None else torch.as_tensor(read_masks(action_masks, space, rows)).to(self.device)
        with torch.no_grad():
            before, unused, starts = (
                torch.tensor(one, dtype=torch.float32, device=self.device) for one in (*state, episode_start)
            )
            choose: Any = self._predict
            found, after = choose(seen, (before, unused), starts, deterministic, masks)
        actions = found.cpu().numpy().reshape(-1, *space.shape)  # type: ignore[misc]
        if isinstance(space, spaces.Box):
            # A squashed action is scaled to the bounds; another may exceed them, and is clipped.
            actions = self.unscale_action(actions) if self.squash_output else np.clip(actions, space.low, space.high)
        return actions if is_batch else actions.squeeze(axis=0), tuple(one.cpu().numpy() for one in after)

    def _get_action_dist_from_latent(self, latent_pi: Tensor, action_masks: Tensor | None = None) -> Distribution:
        """Returns the distribution of actions.

        :param latent_pi: the inputs of the action layer, (B, ...)
        :param action_masks: (B, D) bool
        """
        if action_masks is None:
            return super()._get_action_dist_from_latent(latent_pi)
        logits = masked(self.action_net(latent_pi), action_masks, self.action_space)
        made: Distribution = self.action_dist.proba_distribution(action_logits=logits)
        return made
