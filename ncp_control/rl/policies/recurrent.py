"""Policies of Stable-Baselines3 whose memory is a neural circuit."""

from __future__ import annotations

from typing import Any, cast

import torch
from gymnasium import spaces
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.distributions import DiagGaussianDistribution
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor, create_mlp
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from ncp_control.rl.policies.argument_names import check_names
from ncp_control.rl.policies.circuit import DEFAULT_WIRING, CellLike, Circuit, WiringLike, unroll
from ncp_control.rl.policies.elapsed import TimedExtractor, is_timed
from ncp_control.rl.policies.predict_checks import check_numbers, check_state, rows_of

CRITICS = ("circuit", "lstm", "mlp", "shared")
HEADS = ("linear", "motor")


class NCPPolicy(RecurrentActorCriticPolicy):
    """An actor that is a circuit, and a critic that may be something else: nobody has to read the judge.

    Example::

        model = RecurrentPPO("NCPPolicy", env, policy_kwargs=dict(cell="ltc", wiring=AutoNCP(40, 16)))

    The other arguments are those of sb3-contrib's recurrent policies. Dictionaries of observations go through
    `CombinedExtractor` unless another extractor is named. An entry `elapsed` of a dictionary, as
    `ncp_envs.IrregularTime(observe_elapsed="apart")` shows it, is the cell's elapsed time.

    :param wiring: the actor's plan, wiring or number of neurons; its motor neurons go to the action head
    :param cell: the name of its cell, or a class of cells of one's own
    :param cell_kwargs: the cell's settings
    :param critic: "circuit", another of the same kind; "lstm"; "mlp", without memory; or "shared", the actor's
        outputs, which the critic does not train
    :param critic_units: of an LSTM or an MLP critic
    :param head: "linear", a linear map from the motor neurons to the actions; or "motor": the motor neurons are the
        mean action themselves, one for each
    :param critic_lr_scale: the critic's learning rate over the actor's
    """

    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        lr_schedule: Schedule,
        net_arch: list[int] | dict[str, list[int]] | None = None,
        *,
        wiring: WiringLike = DEFAULT_WIRING,
        cell: CellLike = "ltc",
        cell_kwargs: dict[str, Any] | None = None,
        critic: str = "circuit",
        critic_units: int = 64,
        head: str = "linear",
        critic_lr_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        check_names(kwargs, NCPPolicy.__init__, super().__init__)
        if critic not in CRITICS:
            raise ValueError(f"unknown critic {critic!r}: choose one of {', '.join(CRITICS)}")
        if head not in HEADS:
            raise ValueError(f"unknown head {head!r}: choose one of {', '.join(HEADS)}")
        if isinstance(observation_space, spaces.Dict):
            kwargs.setdefault("features_extractor_class", CombinedExtractor)
        elif is_image_space(observation_space) and "features_extractor_class" not in kwargs:
            raise ValueError(
                "a circuit reads features, not images: pass policy_kwargs=dict(features_extractor_class=NatureCNN), or "
                f"another extractor, for {observation_space}"
            )
        self.timed = is_timed(observation_space)
        self.circuit_kwargs: dict[str, Any] = {
            "wiring": wiring, "cell": cell, "cell_kwargs": cell_kwargs, "critic": critic, "critic_units": critic_units,
            "head": head, "critic_lr_scale": critic_lr_scale,
        }  # fmt: skip
        # sb3-contrib's own LSTMs are as small as can be, and give way to the circuits
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
        self.lstm_actor: Any = self._made["actor"]
        self.lstm_critic: Any = self._made.get("critic")
        if critic == "mlp":
            self.critic: Any = two_layers(self.features_dim, critic_units)
        del self._made
        sizes = [circuit.hidden_size for circuit in (self.lstm_actor, self.lstm_critic) if circuit is not None]
        self.lstm_hidden_state_shape = (1, 1, max(sizes))
        if head == "motor":
            self.action_net = self._no_head()
        make: Any = self.optimizer_class
        self.optimizer = make(self._groups(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _build_mlp_extractor(self) -> None:
        """Makes the circuits, whose sizes the heads have to fit; called while the policy is built."""
        given = self.circuit_kwargs

        def circuit(wiring: WiringLike, cell: CellLike, cell_kwargs: dict[str, Any] | None = None) -> Circuit:
            return Circuit(self.features_dim, wiring, cell, cell_kwargs, self.timed)

        actor = circuit(given["wiring"], given["cell"], given["cell_kwargs"])
        self._made: dict[str, Circuit] = {"actor": actor}
        outputs = actor.output_size
        if given["critic"] == "circuit":
            self._made["critic"] = circuit(given["wiring"], given["cell"], given["cell_kwargs"])
        elif given["critic"] == "lstm":
            self._made["critic"] = circuit(given["critic_units"], "lstm")
        if given["critic"] in ("lstm", "mlp"):
            outputs = given["critic_units"]
        self.mlp_extractor: Any = Heads(actor.output_size, outputs, self.net_arch, self.activation_fn)

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        """The extractor, with the elapsed time going round it."""
        space = self.observation_space
        if not self.timed:
            found: BaseFeaturesExtractor = super().make_features_extractor()
            found._features_dim = int(found.features_dim)  # of a MultiDiscrete space it is NumPy's, refused by torch
            return found
        return TimedExtractor(cast("spaces.Dict", space), self.features_extractor_class, self.features_extractor_kwargs)

    def _no_head(self) -> nn.Module:
        """The motor neurons as the mean action; refused where there are not as many as actions."""
        actions = getattr(self.action_dist, "action_dim", None) if isinstance(self.action_space, spaces.Box) else None
        motors = self.mlp_extractor.latent_dim_pi
        if actions != motors:
            raise ValueError(
                f'head="motor" needs one motor neuron for each number of a Box action: there are {motors} and the '
                f'actions are {self.action_space}; choose another wiring, or head="linear"'
            )
        return nn.Identity()

    def _groups(self) -> list[dict[str, Any]]:
        """The actor's parameters and the critic's, each with its share of the learning rate."""
        modules = (self.lstm_critic, self.critic, self.mlp_extractor.critic, self.value_net)
        critic = [parameter for module in modules if module is not None for parameter in module.parameters()]
        known = {id(parameter) for parameter in critic}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in known]
        return [{"params": rest}, {"params": critic, "lr_scale": self.circuit_kwargs["critic_lr_scale"]}]

    @staticmethod
    def _process_sequence(  # type: ignore[override]
        features: Tensor, lstm_states: tuple[Tensor, Tensor], episode_starts: Tensor, lstm: Any
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One scan for all sequences (see `unroll`)."""
        return unroll(lstm, features, lstm_states, episode_starts)

    @property
    def device(self) -> torch.device:
        """Where the policy is; told by one layer, as looking for the first parameter takes a while."""
        return self.value_net.weight.device

    def set_training_mode(self, mode: bool) -> None:
        """Training or evaluation mode; walks through the modules only if it changes, which it seldom does."""
        if self.training != mode:
            super().set_training_mode(mode)

    def _predict(  # type: ignore[override]
        self,
        observation: Any,
        lstm_states: tuple[Tensor, Tensor],
        episode_starts: Tensor,
        deterministic: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Actions and the states after them: a Gaussian's without building the distribution, which takes as long as
        the circuit. States that are no numbers are refused: so was an observation, or so are the weights.
        """
        check_state(lstm_states[0].shape, self.lstm_hidden_state_shape[2], rows_of(observation), len(episode_starts))
        if isinstance(self.action_dist, DiagGaussianDistribution):
            features = BasePolicy.extract_features(self, observation, self.pi_features_extractor)
            outputs, states = unroll(self.lstm_actor, features, lstm_states, episode_starts)
            mean = self.action_net(self.mlp_extractor.forward_actor(outputs))
            actions = mean if deterministic else mean + torch.randn_like(mean) * self.log_std.exp()
        else:
            found = super()._predict(observation, lstm_states, episode_starts, deterministic)
            actions, states = cast("tuple[Tensor, tuple[Tensor, Tensor]]", found)
        check_numbers(states[0])
        return actions, states

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        return {**data, "share_features_extractor": self.share_features_extractor, **self.circuit_kwargs}


class Heads(nn.Module):
    """What lies between circuits of different sizes and the action and value layers: nothing, by default.

    :param pi: outputs of the actor
    :param vf: outputs of the critic
    :param net_arch: hidden layers, as in Stable-Baselines3
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
        """What the action layer sees."""
        found: Tensor = self.actor(features)
        return found

    def forward_critic(self, features: Tensor) -> Tensor:
        """What the value layer sees."""
        found: Tensor = self.critic(features)
        return found


def two_layers(features: int, units: int) -> nn.Sequential:
    """A critic without memory."""
    return nn.Sequential(nn.Linear(features, units), nn.Tanh(), nn.Linear(units, units), nn.Tanh())
