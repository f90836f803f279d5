"""The policy of recurrent PPO and A2C, whose memory is a neural circuit."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, create_mlp
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn
from torch.distributions import Distribution

from ncp_control.neurons import Cell
from ncp_control.rl.policies import gaussian
from ncp_control.rl.policies.checks import (
    check_choice,
    check_names,
    check_numbers,
    check_state,
    choose_extractor,
    rows_of,
)
from ncp_control.rl.policies.choices import ChoicesFromZero, from_first_choice
from ncp_control.rl.policies.circuit import DEFAULT_CELL, CellLike, Circuit, WiringLike, chosen_wiring, unroll
from ncp_control.rl.policies.elapsed import TimedExtractor, is_timed
from ncp_control.rl.policies.passes import CircuitPasses

CRITICS = ("circuit", "lstm", "mlp", "linear", "shared")
HEADS = ("linear", "motor")
CRITIC_PARTS = ("lstm_critic.", "critic.", "mlp_extractor.critic.", "value_net.")  # in the order of files of runs


class NCPPolicy(CircuitPasses, ChoicesFromZero):
    """A policy whose actor is a circuit; its critic, which only training uses, may be another network.

    Example::

        model = RecurrentPPO("NCPPolicy", env, policy_kwargs=dict(cell="ltc", wiring=AutoNCP(40, 16)))

    The other arguments are the same as in sb3-contrib's recurrent policies. Observations that are dictionaries go
    through `CombinedExtractor` unless another extractor is named. An entry `elapsed`, as
    `ncp_envs.IrregularTime(observe_elapsed="apart")` adds it, is the cell's elapsed time.

    :param wiring: the actor's plan, also as text, wiring or number of neurons; its motor neurons go to the action
        head. None is `AutoNCP(40, 16)`, or 40 neurons for a cell that is always fully connected
    :param cell: the name of its cell, or a class of cells of your own
    :param cell_kwargs: the cell's settings
    :param critic: "circuit", a second circuit of the same kind; "lstm"; "mlp", which has no memory; "linear", a linear
        map in the place of the circuit, as sb3-contrib has it; or "shared", which reads the actor's outputs and does
        not train the actor
    :param critic_units: the number of units of an LSTM or an MLP critic, or of outputs of a linear one
    :param head: "linear", a linear map from the motor neurons to the actions; or "motor", for which the motor neurons
        are the mean action, one neuron for each number
    :param critic_lr_scale: the critic's learning rate, divided by the actor's
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        *,
        wiring: WiringLike | str | None = None,
        cell: CellLike = DEFAULT_CELL,
        cell_kwargs: dict[str, Any] | None = None,
        critic: str = "circuit",
        critic_units: int = 64,
        head: str = "linear",
        critic_lr_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        check_names(kwargs, NCPPolicy.__init__, super().__init__)
        check_choice("critic", critic, CRITICS)
        check_choice("head", head, HEADS)
        choose_extractor(kwargs, observation_space)
        self.timed = is_timed(observation_space)
        self.reads_vectors = False
        self.circuit_kwargs: dict[str, Any] = {
            "wiring": chosen_wiring(wiring, cell), "cell": cell, "cell_kwargs": cell_kwargs,
            "critic": critic, "critic_units": critic_units, "head": head, "critic_lr_scale": critic_lr_scale,
        }  # fmt: skip
        # The circuits replace sb3-contrib's own LSTMs, which are therefore made as small as possible.
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            [] if net_arch is None else net_arch,
            **kwargs,
            lstm_hidden_size=1,
            shared_lstm=critic == "shared",
            enable_critic_lstm=critic in ("circuit", "lstm"),
        )
        # Only now: the constructor of sb3-contrib has just set these attributes to its LSTMs.
        self.lstm_actor: Any = self._made["actor"]
        self.lstm_critic: Any = self._made.get("critic")
        if critic == "mlp":
            self.critic: Any = two_layers(self.features_dim, critic_units)
        elif critic == "linear":
            self.critic = nn.Linear(self.features_dim, critic_units)
        del self._made
        is_flat = self.share_features_extractor and type(self.features_extractor) is FlattenExtractor
        self.reads_vectors = is_flat and isinstance(observation_space, spaces.Box) and len(observation_space.shape) == 1
        self.lstm_hidden_state_shape = (1, 1, max(self.state_sizes))
        self.action_dist = from_first_choice(self.action_dist, self.action_space)
        if head == "motor":
            self.action_net = self._no_head()
        # Made again, because the one of the constructor has other parameters, in one group.
        make: Any = self.optimizer_class
        self.optimizer = make(self._groups(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _build_mlp_extractor(self) -> None:
        """Makes the circuits first, as the layers behind them depend on their sizes; called by the constructor."""
        settings = self.circuit_kwargs

        def circuit(wiring: WiringLike, cell: CellLike, cell_kwargs: dict[str, Any] | None = None) -> Circuit:
            return Circuit(self.features_dim, wiring, cell, cell_kwargs, self.timed)

        actor = circuit(settings["wiring"], settings["cell"], settings["cell_kwargs"])
        self._made: dict[str, Circuit] = {"actor": actor}
        outputs = actor.output_size
        if settings["critic"] == "circuit":
            self._made["critic"] = circuit(settings["wiring"], settings["cell"], settings["cell_kwargs"])
        elif settings["critic"] == "lstm":
            self._made["critic"] = circuit(settings["critic_units"], "lstm")
        if settings["critic"] in ("lstm", "mlp", "linear"):
            outputs = settings["critic_units"]
        self.mlp_extractor: Any = Heads(actor.output_size, outputs, self.net_arch, self.activation_fn)

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """Makes the features extractor; the elapsed time bypasses it."""
        space = self.observation_space
        if not self.timed:
            extractor: BaseFeaturesExtractor = super().make_features_extractor()
            # For a MultiDiscrete space it is an integer of NumPy's, which torch refuses.
            extractor._features_dim = int(extractor.features_dim)
            return extractor
        return TimedExtractor(cast("spaces.Dict", space), self.features_extractor_class, self.features_extractor_kwargs)

    def _no_head(self) -> nn.Module:
        """Returns the head that passes the motor neurons on as the mean action; refused unless their numbers agree."""
        actions = getattr(self.action_dist, "action_dim", None) if isinstance(self.action_space, spaces.Box) else None
        motors = self.mlp_extractor.latent_dim_pi
        if actions != motors:
            raise ValueError(
                f'head="motor" needs one motor neuron for each number of a Box action: there are {motors} and the '
                f'actions are {self.action_space}; choose another wiring, or head="linear"'
            )
        return nn.Identity()

    def _groups(self) -> list[dict[str, Any]]:
        """Returns the actor's and the critic's parameters as two groups, the critic's with its factor of the rate."""
        named = list(self.named_parameters())
        actor = [parameter for name, parameter in named if not self.is_critics(name)]
        # By part, because the state of an optimizer in a run's file is in the order of its parameters.
        critic = [parameter for part in CRITIC_PARTS for name, parameter in named if name.startswith(part)]
        return [{"params": actor}, {"params": critic, "lr_scale": self.circuit_kwargs["critic_lr_scale"]}]

    @property
    def state_sizes(self) -> tuple[int, int]:
        """How many numbers the states of the actor and of the critic have; without one of its own, the actor's."""
        actor: int = self.lstm_actor.hidden_size
        return actor, actor if self.lstm_critic is None else self.lstm_critic.hidden_size

    @staticmethod
    def is_critics(name: str) -> bool:
        """Whether the weights of a name in `state_dict` belong to the critic alone."""
        return name.startswith(CRITIC_PARTS)

    @property
    def device(self) -> torch.device:
        """The policy's device, read from one layer because a search for the first parameter is slow."""
        return self.value_net.weight.device

    def set_training_mode(self, mode: bool) -> None:
        """Sets training or evaluation mode; visits the modules only when the mode changes, as `predict` calls this."""
        if self.training != mode:
            super().set_training_mode(mode)

    def actor_features(self, observation: Any) -> Tensor:
        """Returns what the actor's circuit reads of observations, (B, F)."""
        if self.reads_vectors:
            return cast("Tensor", self.extract_features(observation))
        # past ActorCriticPolicy, whose method would extract the critic's features as well
        features: Tensor = super(ActorCriticPolicy, self).extract_features(observation, self.pi_features_extractor)
        return features

    def _predict(  # type: ignore[override]
        self,
        observation: Any,
        lstm_states: tuple[Tensor, Tensor],
        episode_starts: Tensor,
        deterministic: bool = False,
        action_masks: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns actions and the states after them; a state that is NaN is refused.

        Gaussian actions are computed without the distribution object, which takes as long to make as the circuit to
        run.
        """
        check_state(lstm_states[0].shape, self.lstm_hidden_state_shape[2], rows_of(observation), len(episode_starts))
        outputs, states = unroll(self.lstm_actor, self.actor_features(observation), lstm_states, episode_starts)
        latent = self.mlp_extractor.forward_actor(outputs)
        if isinstance(self.action_dist, DiagGaussianDistribution):
            mean = self.action_net(latent)
            actions = mean if deterministic else gaussian.draw(mean, self.log_std.exp())
        else:
            actions = self._get_action_dist_from_latent(latent, action_masks).get_actions(deterministic)
        check_numbers(states[0])
        return actions, states

    def __getstate__(self) -> dict[str, Any]:
        """Returns what a copy or a pickle keeps: all but the graph of the last trained actions, as torch copies none.

        Stock policies lose that graph when they predict; here `predict` makes no distribution.
        """
        actions = copy.copy(self.action_dist)
        for name, value in vars(self.action_dist).items():
            if isinstance(value, Distribution):
                setattr(actions, name, None)
            elif isinstance(value, Tensor):
                setattr(actions, name, value.detach())
        return {**self.__dict__, "action_dist": actions}

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        return {**data, "share_features_extractor": self.share_features_extractor, **self.circuit_kwargs}


def policy_around(
    cell: Cell,
    layers: Sequence[nn.Linear],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    activation: type[nn.Module] = nn.ELU,
) -> NCPPolicy:
    """Returns a policy that acts as a trained circuit and the layers behind it do; its critic is untrained.

    :param cell: the circuit's cell, which is copied
    :param layers: the hidden layers, and the action layer last
    :param observation_space: what the circuit reads
    :param action_space: the space of the actions
    :param activation: the activation after every hidden layer
    """
    hidden = [layer.out_features for layer in layers[:-1]]
    policy = NCPPolicy(
        observation_space, action_space, lambda _: 0.0, {"pi": hidden, "vf": []}, activation_fn=activation,
        critic="shared", wiring=cell.wiring, cell=type(cell), cell_kwargs=cell.config(),
    )  # fmt: skip
    policy.lstm_actor.cell.load_state_dict(cell.state_dict())
    own = [layer for layer in policy.mlp_extractor.actor if isinstance(layer, nn.Linear)]
    for mine, theirs in zip([*own, policy.action_net], layers, strict=True):
        mine.load_state_dict(theirs.state_dict())
    return policy


def rescaled(layer: nn.Linear, factor: Tensor, offset: Tensor) -> nn.Linear:
    """Returns a copy of a layer whose outputs are multiplied by a factor (O,) and moved by an offset (O,)."""
    made = copy.deepcopy(layer)
    made.weight.data *= factor[:, None]
    made.bias.data = factor * made.bias.data + offset
    return made


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
        # -1 stands for no layer after the hidden ones
        self.actor = nn.Sequential(*create_mlp(pi, -1, layers.get("pi", []), activation))
        self.critic = nn.Sequential(*create_mlp(vf, -1, layers.get("vf", []), activation))
        self.latent_dim_pi = layers.get("pi", [])[-1] if layers.get("pi") else pi
        self.latent_dim_vf = layers.get("vf", [])[-1] if layers.get("vf") else vf

    def forward_actor(self, features: Tensor) -> Tensor:
        """Returns the inputs of the action layer."""
        hidden: Tensor = self.actor(features) if len(self.actor) else features
        return hidden

    def forward_critic(self, features: Tensor) -> Tensor:
        """Returns the inputs of the value layer."""
        hidden: Tensor = self.critic(features) if len(self.critic) else features
        return hidden


def two_layers(features: int, units: int) -> nn.Sequential:
    """Makes a critic without memory."""
    return nn.Sequential(nn.Linear(features, units), nn.Tanh(), nn.Linear(units, units), nn.Tanh())
