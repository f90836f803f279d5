"""What runs through the circuits of a recurrent policy: to collect steps, and to learn from them."""

from __future__ import annotations

import math
from typing import Any

from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from ncp_control.rl.policies import gaussian
from ncp_control.rl.policies.circuit import unroll
from ncp_control.rl.policies.masks import MaskedPolicy


class CircuitPasses(MaskedPolicy):
    """The passes of a policy whose actor is a circuit, in one scan for each circuit."""

    lstm_actor: Any
    lstm_critic: Any
    critic: Any

    @staticmethod
    def _process_sequence(  # type: ignore[override]
        features: Tensor, lstm_states: tuple[Tensor, Tensor], episode_starts: Tensor, lstm: Any
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs all sequences in one scan (see `unroll`)."""
        return unroll(lstm, features, lstm_states, episode_starts)

    def forward(  # type: ignore[override]
        self,
        obs: Any,
        lstm_states: RNNStates,
        episode_starts: Tensor,
        deterministic: bool = False,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, RNNStates]:
        """Runs the actor and the critic; returns actions (B, ...), values (B, 1), log-probabilities (B,) and states."""
        latent_pi, latent_vf, states = self._latents(obs, lstm_states, episode_starts)
        values = self.value_net(latent_vf)
        if isinstance(self.action_dist, DiagGaussianDistribution):
            mean = self.action_net(latent_pi)
            std = self.log_std.exp()
            actions = mean if deterministic else gaussian.draw(mean, std)
            log_probs = self._log_probabilities(actions, mean, std)
        else:
            distribution = self._get_action_dist_from_latent(latent_pi, action_masks)
            actions = distribution.get_actions(deterministic=deterministic)
            log_probs = distribution.log_prob(actions)
        return actions.reshape(-1, *self._action_shape), values, log_probs, states

    @property
    def _action_shape(self) -> tuple[int, ...]:
        return self.action_space.shape or ()

    @property
    def acts_alone(self) -> bool:
        """Whether `act` gives the actions of `forward`, and the critic's part can wait for the end of a rollout."""
        return (
            self.reads_vectors
            and self.lstm_critic is not None
            and isinstance(self.action_dist, DiagGaussianDistribution)
            # a `forward` of somebody else's, and hooks, expect to be called at every step
            and getattr(self.forward, "__func__", None) is CircuitPasses.forward
            and not (self._forward_hooks or self._forward_pre_hooks)
        )

    def act(
        self, obs: Tensor, lstm_states: tuple[Tensor, Tensor], episode_starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Draws Gaussian actions, (B, ...); returns also their means (B, m), their standard deviation (m,) and the
        actor's states.
        """
        outputs, states = unroll(self.lstm_actor, self.extract_features(obs), lstm_states, episode_starts)
        mean = self.action_net(self.mlp_extractor.forward_actor(outputs))
        std = self.log_std.exp()
        actions = gaussian.draw(mean, std)
        # One sum is quicker than a look at every number. It may overflow, so `refuse` looks again.
        if not math.isfinite(actions.sum().item()):
            gaussian.refuse(mean, std)
        return actions.reshape(-1, *self._action_shape), mean, std, states

    def evaluate_actions(  # type: ignore[override]
        self,
        obs: Any,
        actions: Tensor,
        lstm_states: RNNStates,
        episode_starts: Tensor,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the values (B, 1), log-probabilities and entropies (B,) that training needs."""
        latent_pi, latent_vf, _ = self._latents(obs, lstm_states, episode_starts)
        values = self.value_net(latent_vf)
        if isinstance(self.action_dist, DiagGaussianDistribution):
            log_probs = self._log_probabilities(actions, self.action_net(latent_pi), self.log_std.exp())
            return values, log_probs, gaussian.entropies(self.log_std, len(values))
        distribution = self._get_action_dist_from_latent(latent_pi, action_masks)
        return values, distribution.log_prob(actions), distribution.entropy()

    def _log_probabilities(self, actions: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        """Returns the log-probabilities of Gaussian actions; what is not a number is refused as torch refuses it."""
        log_probs = gaussian.log_probabilities(actions, mean, std)
        if not math.isfinite(log_probs.sum().item()):
            gaussian.refuse(mean, std)
        return log_probs

    def _latents(self, obs: Any, lstm_states: RNNStates, episode_starts: Tensor) -> tuple[Tensor, Tensor, RNNStates]:
        """Runs the circuits, and returns the inputs of the action layer and of the value layer, and the states."""
        features: Any = self.extract_features(obs)
        pi_features, vf_features = (features, features) if self.share_features_extractor else features
        states: Any = lstm_states
        latent_pi, pi = unroll(self.lstm_actor, pi_features, states.pi, episode_starts)
        if self.lstm_critic is not None:
            latent_vf, vf = unroll(self.lstm_critic, vf_features, states.vf, episode_starts)
        elif self.shared_lstm:
            # detached, so that the loss of the values does not train the actor
            latent_vf, vf = latent_pi.detach(), (pi[0].detach(), pi[1].detach())
        else:
            latent_vf, vf = self.critic(vf_features), pi
        heads = self.mlp_extractor
        return heads.forward_actor(latent_pi), heads.forward_critic(latent_vf), RNNStates(pi, vf)

    def extract_features(self, obs: Any, features_extractor: BaseFeaturesExtractor | None = None) -> Any:
        """Returns the features of actor and critic as Stable-Baselines3 does; a vector is its own features."""
        if self.reads_vectors and features_extractor is None:
            return obs.float()
        return super().extract_features(obs, features_extractor)
