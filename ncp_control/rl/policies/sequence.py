"""The policies of recurrent SAC and TD3: actors and critics whose circuits run over sampled windows of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.common.torch_layers import create_mlp
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor as TD3Actor
from stable_baselines3.td3.policies import TD3Policy
from torch import Tensor, nn

from ncp_control.rl.policies.checks import (
    check_alone,
    check_choice,
    check_names,
    check_numbers,
    check_state,
    choose_extractor,
    rows_of,
)
from ncp_control.rl.policies.circuit import DEFAULT_CELL, CellLike, Circuit, WiringLike, chosen_wiring
from ncp_control.rl.policies.elapsed import TimedExtractor, is_timed
from ncp_control.rl.policies.sequence_extractor import Features, SequenceExtractor, WindowExtractor

CRITICS = ("circuit", "lstm", "mlp", "window")
# The actor's motor neurons go straight to its action layers; the critic has two more layers.
NET_ARCH: dict[str, list[int]] = {"pi": [], "qf": [256, 256]}


class _SequenceSACActor(SACActor):
    """SAC's actor, whose features come from a `SequenceExtractor`."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        features: Tensor = features_extractor(obs)
        return features


class _SequenceTD3Actor(TD3Actor):
    """TD3's actor, whose features come from a `SequenceExtractor`."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        features: Tensor = features_extractor(obs)
        return features


class _SequenceCritic(ContinuousCritic):
    """The critics of SAC and TD3, whose features come from a `SequenceExtractor` or a `WindowExtractor`.

    :param layer_norm: normalise the sums in every hidden layer
    :param settings: the arguments of `ContinuousCritic`
    """

    def __init__(self, *, layer_norm: bool, **settings: Any) -> None:
        super().__init__(**settings)
        if layer_norm:
            size = settings["features_dim"] + get_action_dim(self.action_space)
            arch, activation = settings["net_arch"], settings["activation_fn"]
            for k in range(self.n_critics):
                # ContinuousCritic takes no such layers, and has its networks in a list and as modules qf0, qf1, ...
                layers = create_mlp(size, 1, arch, activation, post_linear_modules=[nn.LayerNorm])
                self.q_networks[k] = nn.Sequential(*layers)
                self.add_module(f"qf{k}", self.q_networks[k])

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        features: Tensor = features_extractor(obs)
        return features

    def forward(self, obs: Any, actions: Tensor) -> tuple[Tensor, ...]:
        """Returns each critic's values (B, 1) of actions (B, A).

        If the actions need gradients, this call is part of the actor's loss, which does not train the critic. The
        critic's features then need no gradients; Stable-Baselines3 computes them all the same, which takes half of the
        backward pass.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not actions.requires_grad):
            features = self.extract_features(obs, self.features_extractor)
        inputs = torch.cat([features, actions], dim=1)
        return tuple(critic(inputs) for critic in self.q_networks)


class SequencePolicy:
    """Gives a policy of SAC or TD3 a memory: its actor is a circuit, and its critics may be other networks.

    Example::

        model = RecurrentSAC("NCPPolicy", env, policy_kwargs=dict(cell="ltc", wiring=AutoNCP(40, 16)))

    The other arguments are the same as in Stable-Baselines3's policies. `net_arch` gives the layers after the circuits:
    by default none for the actor and two layers of 256 for the critics. `features_extractor_class` is applied to every
    observation by itself; dictionaries go through `CombinedExtractor` unless another extractor is named, and an entry
    `elapsed` goes to the cells as the time since the last step. Critics read the extractor's features as well as the
    outputs of their memory.

    :param wiring: the actor's plan, also as text, wiring or number of neurons; its motor neurons go to the action
        layers. None is `AutoNCP(40, 16)`, or 40 neurons for a cell that is always fully connected
    :param cell: the name of its cell, or a class of cells of your own
    :param cell_kwargs: the cell's settings
    :param critic: "circuit", a second circuit of the same kind, which both critics read; "lstm"; "mlp", which has no
        memory; or "window", which reads the last few observations and the actions between them, and whose hidden layers
        are normalised
    :param critic_units: the number of units of an LSTM critic
    :param critic_window: the number of observations that a critic "window" reads
    :param circuit_lr_scale: the circuits' learning rate, divided by that of the actor's other layers
    :param critic_lr_scale: the learning rate of the critics' layers (an LSTM's among them), divided by the same
    """

    actor_class: type[SACActor] | type[TD3Actor]

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
        critic_window: int = 5,
        circuit_lr_scale: float = 1.0,
        critic_lr_scale: float = 1.0,
        share_features_extractor: bool = False,
        **kwargs: Any,
    ) -> None:
        check_names(kwargs, SequencePolicy.__init__, super().__init__)
        check_choice("critic", critic, CRITICS)
        if not isinstance(critic_window, int) or critic_window < 1:
            raise ValueError(f"critic_window is a number of observations, at least 1, got {critic_window!r}")
        if share_features_extractor:
            raise ValueError("actor and critic each need a memory of their own: leave share_features_extractor False")
        choose_extractor(kwargs, observation_space)
        self.circuit_kwargs: dict[str, Any] = {
            "wiring": chosen_wiring(wiring, cell), "cell": cell, "cell_kwargs": cell_kwargs,
            "critic": critic, "critic_units": critic_units, "critic_window": critic_window,
            "circuit_lr_scale": circuit_lr_scale, "critic_lr_scale": critic_lr_scale,
        }  # fmt: skip
        arch = NET_ARCH if net_arch is None else net_arch
        super().__init__(observation_space, action_space, lr_schedule, arch, **kwargs)  # type: ignore[call-arg]

    def _build(self: Any, lr_schedule: Schedule) -> None:
        """Makes all networks as Stable-Baselines3 does, and optimizers in which circuits have their own rate."""
        super()._build(lr_schedule)  # type: ignore[misc]
        for network in (self.actor, self.critic):
            network.optimizer = self.optimizer_class(self._groups(network), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _groups(self, network: nn.Module) -> list[dict[str, Any]]:
        """Returns the parameters of an actor or a critic as two groups: its layers' and its circuit's."""
        extractor: Any = network.features_extractor
        own = isinstance(network, (SACActor, TD3Actor)) or self.circuit_kwargs["critic"] == "circuit"
        circuit = list(extractor.circuit.parameters()) if own else []
        known = {id(parameter) for parameter in circuit}
        layers: dict[str, Any] = {
            "params": [parameter for parameter in network.parameters() if id(parameter) not in known]
        }
        if not isinstance(network, (SACActor, TD3Actor)):
            layers["lr_scale"] = self.circuit_kwargs["critic_lr_scale"]
        scaled = {"params": circuit, "lr_scale": self.circuit_kwargs["circuit_lr_scale"]}
        return [group for group in (layers, scaled) if group["params"]]

    def _sequence_extractor(self: Any, role: str) -> SequenceExtractor | WindowExtractor:
        """Makes the extractor of the "actor" or the "critic"."""
        settings, timed, circuit = self.circuit_kwargs, is_timed(self.observation_space), None
        if timed:
            row: Any = TimedExtractor(
                self.observation_space, self.features_extractor_class, self.features_extractor_kwargs
            )
        else:
            row = super().make_features_extractor()  # type: ignore[misc]
        kind = "circuit" if role == "actor" else settings["critic"]
        if kind == "circuit":
            circuit = Circuit(row.features_dim, settings["wiring"], settings["cell"], settings["cell_kwargs"], timed)
        elif kind == "lstm":
            circuit = Circuit(row.features_dim, settings["critic_units"], "lstm", None, timed)
        # Critics also read the observation itself, so they need their memory only for what the observation lacks.
        made = SequenceExtractor(self.observation_space, row, circuit, self.normalize_images, role == "critic")
        return WindowExtractor(made, self.action_space, settings["critic_window"]) if kind == "window" else made

    def make_actor(self: Any, features_extractor: Any = None) -> Any:
        """Makes an actor with its own circuit."""
        settings = self._update_features_extractor(self.actor_kwargs, self._sequence_extractor("actor"))
        return self.actor_class(**settings).to(self.device)

    def make_critic(self: Any, features_extractor: Any = None) -> Any:
        """Makes the critics, which share one memory."""
        settings = self._update_features_extractor(self.critic_kwargs, self._sequence_extractor("critic"))
        return _SequenceCritic(layer_norm=self.circuit_kwargs["critic"] == "window", **settings).to(self.device)

    def predict(
        self: Any,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Returns actions, and the state to pass with the next observation.

        :param observation: one observation, or a batch with one for each of n environments
        :param state: the state that the last call returned, ((1, n, N),); None is the state before an episode
        :param episode_start: (n,), true where an episode begins, so that the state is reset
        :param deterministic: return the actor's action without exploration noise
        """
        check_alone(observation)
        self.set_training_mode(False)
        seen, several = self.obs_to_tensor(observation)
        if state is not None:
            flags = None if episode_start is None else np.size(episode_start)
            size = self.actor.features_extractor.circuit.hidden_size
            check_state(np.shape(state[0]), size, rows_of(seen), flags)
        with torch.no_grad():
            before = None if state is None else torch.as_tensor(state[0][0], device=self.device)
            starts = None  # without a state, every row is at the beginning of an episode
            if before is not None and episode_start is not None:
                starts = torch.as_tensor(np.asarray(episode_start, dtype=bool).reshape(-1), device=self.device)
            features, after = self.actor.features_extractor.step(seen, before, starts)
            check_numbers(after)
            actions = self._predict(Features(features), deterministic=deterministic)
        actions = actions.cpu().numpy().reshape(-1, *self.action_space.shape)
        actions = self.unscale_action(actions)
        return actions if several else actions[0], (after[None].cpu().numpy(),)

    def set_training_mode(self: Any, mode: bool) -> None:
        """Sets training or evaluation mode; visits the modules only when the mode changes, as `predict` calls this."""
        if self.training != mode:
            super().set_training_mode(mode)  # type: ignore[misc]

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), **self.circuit_kwargs}  # type: ignore[misc]


class SACSequencePolicy(SequencePolicy, SACPolicy):
    """SAC's policy with a memory; see `SequencePolicy`."""

    actor_class = _SequenceSACActor


class TD3SequencePolicy(SequencePolicy, TD3Policy):
    """TD3's policy with a memory; see `SequencePolicy`."""

    actor_class = _SequenceTD3Actor
