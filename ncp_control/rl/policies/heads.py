"""The layers of a recurrent policy that have no memory."""

from __future__ import annotations

from stable_baselines3.common.torch_layers import create_mlp
from torch import Tensor, nn


class Heads(nn.Module):
    """The hidden layers between the circuits and the action and value layers: none, by default.

    :param pi: the number of the actor's outputs
    :param vf: the number of the critic's outputs
    :param net_arch: hidden layers, as in Stable-Baselines3
    :param activation: the activation after every hidden layer
    """

    def __init__(
        self, pi: int, vf: int, net_arch: list[int] | dict[str, list[int]], activation: type[nn.Module]
    ) -> None:
        super().__init__()
        layers = net_arch if isinstance(net_arch, dict) else {"pi": net_arch, "vf": net_arch}
        self.actor = nn.Sequential(*create_mlp(pi, -1, layers.get("pi", []), activation))
        self.critic = nn.Sequential(*create_mlp(vf, -1, layers.get("vf", []), activation))
        self.latent_dim_pi = layers.get("pi", [])[-1] if layers.get("pi") else pi
        self.latent_dim_vf = layers.get("vf", [])[-1] if layers.get("vf") else vf

    def forward_actor(self, features: Tensor) -> Tensor:
        """Returns the inputs of the action layer."""
        found: Tensor = self.actor(features) if len(self.actor) else features
        return found

    def forward_critic(self, features: Tensor) -> Tensor:
        """Returns the inputs of the value layer."""
        found: Tensor = self.critic(features) if len(self.critic) else features
        return found


def two_layers(features: int, units: int) -> nn.Sequential:
    """Makes a critic without memory."""
    return nn.Sequential(nn.Linear(features, units), nn.Tanh(), nn.Linear(units, units), nn.Tanh())
