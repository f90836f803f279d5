"""What an agent's critic thinks of the states that are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]


class CriticValues:
    """Values from the critic of a recurrent on-policy agent, computed once for each chunk of a recording.

    Agents of other algorithms have no such values, because their critics rate actions rather than states; nor has a
    distilled agent, whose critic has learnt nothing.

    :param policy: of the agent
    :param normalize: maps observations of the environment to those that the policy reads
    :param is_trained: whether the critic has learnt
    """

    def __init__(self, policy: Any, normalize: Any, is_trained: bool = True) -> None:
        self.policy, self.normalize = policy, normalize
        is_recurrent = all(hasattr(policy, name) for name in ("lstm_actor", "value_net", "predict_values"))
        self.has_values = is_recurrent and is_trained
        self.state: Any = None

    @torch.no_grad()
    def take(self, observations: list[Any], starts: Array) -> Array | None:
        """Returns the values (T,) of the next observations, or None if the agent has no values.

        :param observations: T of them, as the environment returned them
        :param starts: (T,) bool, whether an episode begins at the step
        """
        if not self.has_values:
            return None
        batch: Any
        if isinstance(observations[0], dict):
            batch = {key: np.stack([row[key] for row in observations]) for key in observations[0]}
        else:
            batch = np.stack(observations)
        tensors, _ = self.policy.obs_to_tensor(self.normalize(batch))
        began = torch.as_tensor(starts, dtype=torch.float32, device=self.policy.device)
        return self.values(tensors, began).float().cpu().numpy()

    def values(self, observations: Any, starts: Tensor) -> Tensor:
        """Returns the values (T,) of one sequence and keeps the critic's state for the sequence that follows."""
        from ncp_control.rl.policies.circuit import unroll

        policy = self.policy
        features = policy.extract_features(observations)
        for_actor, for_critic = (features, features) if policy.share_features_extractor else features
        if policy.lstm_critic is not None or policy.critic is None:
            shared = policy.lstm_critic is None
            network, read = (policy.lstm_actor, for_actor) if shared else (policy.lstm_critic, for_critic)
            if self.state is None:
                self.state = (read.new_zeros(1, 1, network.hidden_size), read.new_zeros(1, 1, network.hidden_size))
            latent, self.state = unroll(network, read, self.state, starts)
        else:
            latent = policy.critic(for_critic)
        found: Tensor = policy.value_net(policy.mlp_extractor.forward_critic(latent))
        return found.flatten()
