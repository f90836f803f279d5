"""A trained agent as one module from observations to actions, for `torch.export` and for robots."""

from __future__ import annotations

import copy
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, DiagGaussianDistribution
from torch import Tensor, nn

from ncp_control.ops import check_backend
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_control.rl.files.normalizer import Normalizer
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.rnn import RNN


class Controller(nn.Module):
    """An agent's normalisation, circuit and action layers, without critic, noise and Stable-Baselines3::

        z = clip((o - mean) / scale),    y, s' = circuit(z, s),    action = clip(head(y))

    It holds copies of the agent's weights. As exported code cannot check values, it does not refuse NaN.

    Example::

        controller = Controller(nc.load("checkpoints/halfcheetah.safetensors"))
        action, state = controller(observation, controller.initial_state())
        program = torch.export.export(controller, (observation, state))

    :param agent: a policy loaded from a file of `save_policy`, with a circuit, vector observations and Box or Discrete
        actions
    :param backend: the backend of the scan, as in `RNN`; with "reference" an exported program consists of torch's own
        operations
    """

    low: Tensor
    high: Tensor

    def __init__(self, agent: LoadedPolicy, backend: str = "auto") -> None:
        super().__init__()
        check_backend(backend)
        if not isinstance(agent, LoadedPolicy):
            raise TypeError(
                "a Controller needs a policy that nc.load read from a file of save_policy, not a "
                f"{type(agent).__name__}"
            )
        seen, acted, policy = agent.observation_space, agent.action_space, agent.policy
        if not isinstance(seen, spaces.Box) or len(seen.shape) != 1:
            raise ValueError(f"a Controller reads vectors, and this agent's observations are {seen}")
        self.normalize = nn.Identity() if agent.normalizer is None else Normalize(agent.normalizer)
        self.extractor, circuit, self.head = (copy.deepcopy(part) for part in parts_of(policy))
        self.rnn: RNN = circuit.rnn
        self.rnn.backend = backend
        self.chooses = isinstance(acted, spaces.Discrete)
        self.first = int(acted.start) if isinstance(acted, spaces.Discrete) else 0
        self.squashes = not isinstance(policy, NCPPolicy)
        low, high = (acted.low, acted.high) if isinstance(acted, spaces.Box) else (0.0, 0.0)
        self.register_buffer("low", torch.as_tensor(low))
        self.register_buffer("high", torch.as_tensor(high))
        self.eval().requires_grad_(False)

    def initial_state(self, batch: int = 1) -> Tensor:
        """Returns the state before an episode, (B, N)."""
        return self.rnn.initial_state(batch)

    def forward(self, observation: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the deterministic actions and the state after them.

        :param observation: (B, n), as the environment returns it
        :param state: the state that the last call returned, (B, N)
        :return: the actions, (B, A) for a Box and (B,) for a Discrete space, and the state (B, N)
        """
        outputs, after = self.rnn.step(self.extractor(self.normalize(observation)), state)
        found = self.head(outputs)
        if self.chooses:
            return found.argmax(dim=-1) + self.first, after
        if self.squashes:
            return self.low + 0.5 * (found + 1) * (self.high - self.low), after
        return torch.minimum(torch.maximum(found, self.low), self.high), after


class Normalize(nn.Module):
    """A `Normalizer` of vectors as a module of torch."""

    mean: Tensor
    scale: Tensor

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self.clip = normalizer.clip
        mean, scale = normalizer.scales[""]
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("scale", torch.as_tensor(scale))

    def forward(self, observation: Tensor) -> Tensor:
        """Normalises observations (B, n) in the statistics' float64, and returns them in float32."""
        return ((observation - self.mean) / self.scale).clamp(-self.clip, self.clip).float()


def parts_of(policy: Any) -> tuple[Any, Any, Any]:
    """Returns the features extractor, the circuit, and the layers from its outputs to the deterministic actions."""
    distributions = (DiagGaussianDistribution, CategoricalDistribution)
    if isinstance(policy, NCPPolicy) and isinstance(policy.action_dist, distributions):
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
        "a Controller needs an NCPPolicy whose actions are Gaussian or one choice, and this agent has the policy "
        f"{type(policy).__name__} with actions of {policy.action_space}"
    )
