"""A trained circuit as one module from what is observed to what is done: for `torch.export`, and a robot."""

from __future__ import annotations

import copy
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, DiagGaussianDistribution
from torch import Tensor, nn

from ncp_control.ops import check_backend
from ncp_control.rl.files.policy_file import LoadedPolicy, Normalizer
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.rnn import RNN


class Controller(nn.Module):
    """Normalisation, circuit and action layers of an agent; no critic, no noise, nothing of Stable-Baselines3::

        z = clip((o - mean) / scale),    y, s' = circuit(z, s),    action = clip(head(y))

    It holds copies of the agent's weights, and tests no values, as exported code cannot: keep NaN away from it.

    Example::

        controller = Controller(nc.load("checkpoints/halfcheetah.safetensors"))
        action, state = controller(observation, controller.initial_state())
        program = torch.export.export(controller, (observation, state))

    :param agent: from a file of `save_policy`, with a circuit that reads vectors and gives Box or Discrete actions
    :param backend: of the scan, as in `RNN`; exported with "reference" a program consists of torch's own operations
    """

    low: Tensor
    high: Tensor

    def __init__(self, agent: LoadedPolicy, backend: str = "auto") -> None:
        super().__init__()
        check_backend(backend)
        if not isinstance(agent, LoadedPolicy):
            raise TypeError(
                f"a Controller is made of what nc.load reads from a file of save_policy, not of {type(agent).__name__}"
            )
        seen, acted, policy = agent.observation_space, agent.action_space, agent.policy
        if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
            raise ValueError(f"a Controller reads vectors, and this agent's observations are {seen}")
        self.normalize = nn.Identity() if agent.normalizer is None else Normalize(agent.normalizer)
        self.extractor, circuit, self.head = (copy.deepcopy(part) for part in parts_of(policy))
        self.rnn: RNN = circuit.rnn
        self.rnn.backend = backend
        self.chooses = isinstance(acted, spaces.Discrete)
        self.squashes = not isinstance(policy, NCPPolicy)
        low, high = (acted.low, acted.high) if isinstance(acted, spaces.Box) else (0.0, 0.0)
        self.register_buffer("low", torch.as_tensor(low))
        self.register_buffer("high", torch.as_tensor(high))
        self.eval().requires_grad_(False)

    def initial_state(self, batch: int = 1) -> Tensor:
        """The state before an episode, (B, N)."""
        return self.rnn.initial_state(batch)

    def forward(self, observation: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (B, A), or (B,) where they are choices, and the state after them (B, N).

        :param observation: (B, n), as the environment shows it
        :param state: what the last call returned, (B, N)
        """
        outputs, after = self.rnn.step(self.extractor(self.normalize(observation)), state)
        found = self.head(outputs)
        if self.chooses:
            return found.argmax(dim=-1), after
        if self.squashes:
            return self.low + 0.5 * (found + 1) * (self.high - self.low), after
        return torch.minimum(torch.maximum(found, self.low), self.high), after


class Normalize(nn.Module):
    """A `Normalizer` of vectors, in torch."""

    mean: Tensor
    scale: Tensor

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self.clip = normalizer.clip
        mean, scale = normalizer.scales[""]
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("scale", torch.as_tensor(scale))

    def forward(self, observation: Tensor) -> Tensor:
        """(B, n), computed in the statistics' float64 and given as float32."""
        return ((observation - self.mean) / self.scale).clamp(-self.clip, self.clip).float()


def parts_of(policy: Any) -> tuple[Any, Any, Any]:
    """Extractor, circuit and the layers that make the mode of the actions of its outputs."""
    modes = (DiagGaussianDistribution, CategoricalDistribution)
    if isinstance(policy, NCPPolicy) and isinstance(policy.action_dist, modes):
        extractor = policy.pi_features_extractor
        return extractor, policy.lstm_actor, nn.Sequential(policy.mlp_extractor.actor, policy.action_net)
    if isinstance(policy, TD3SequencePolicy):
        extractor = policy.actor.features_extractor
        return extractor.row, extractor.circuit, policy.actor.mu
    if isinstance(policy, SACSequencePolicy):
        actor = policy.actor
        layers = nn.Sequential(actor.latent_pi, actor.mu, nn.Tanh())
        return actor.features_extractor.row, actor.features_extractor.circuit, layers
    raise ValueError(
        "a Controller is made of an NCPPolicy that acts by a Gaussian or by one choice, and this agent has the policy "
        f"{type(policy).__name__} with actions of {policy.action_space}"
    )
