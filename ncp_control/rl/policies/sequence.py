"""The policies of recurrent SAC and TD3: actors and critics that unroll their circuits over windows of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, CombinedExtractor
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor as TD3Actor
from stable_baselines3.td3.policies import TD3Policy
from torch import Tensor, nn

from ncp_control.rl.buffers.replay import NextWindows, Windows
from ncp_control.rl.policies.argument_names import check_names
from ncp_control.rl.policies.circuit import DEFAULT_WIRING, CellLike, Circuit, WiringLike
from ncp_control.rl.policies.elapsed import TimedExtractor, is_timed
from ncp_control.rl.policies.predict_checks import check_numbers, check_state, rows_of

CRITICS = ("circuit", "lstm", "mlp")
# The actor's motor neurons go straight to its action layers; the critic, which nobody has to read, has two layers more.
NET_ARCH: dict[str, list[int]] = {"pi": [], "qf": [256, 256]}


@dataclass(frozen=True)
class Features:
    """Features (B, O) that are there already; actors and critics take them as they are."""

    values: Tensor


class SequenceExtractor(BaseFeaturesExtractor):
    """Features with a memory: an extractor for each observation, and a circuit that runs over what it gives.

    :param observation_space: of the environment
    :param row: extracts features (B, F) from observations (B, ...)
    :param circuit: reads them in their order, and gives the features (B, O); None for no memory, only `row`
    :param normalize_images: as in Stable-Baselines3
    :param shortcut: add what `row` gives to the circuit's outputs, so that O is the sum of both
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        row: BaseFeaturesExtractor,
        circuit: Circuit | None,
        normalize_images: bool = True,
        shortcut: bool = False,
    ) -> None:
        outputs = 0 if circuit is None else circuit.output_size
        self.shortcut = shortcut or circuit is None
        super().__init__(observation_space, outputs + self.shortcut * row.features_dim)
        self.row, self.circuit, self.normalize_images = row, circuit, normalize_images

    def forward(self, observations: Any) -> Tensor:
        """Features of what an actor or a critic may be shown:

        - `Windows`: of the trained steps, (B T, O), sequence by sequence,
        - `NextWindows`: of what followed each of them, (B T, O),
        - `Features`: themselves,
        - observations (B, ...), or a dictionary of them: (B, O), as at the first step of an episode.
        """
        if isinstance(observations, Features):
            return observations.values
        if isinstance(observations, Windows):
            return self.along(observations)[0]
        if isinstance(observations, NextWindows):
            following, steps = observations.following, slice(None)
            if self.circuit is None:
                return self.read(following, steps)
            return self.step(flat(following, steps), self.along(observations.windows)[1])[0]
        return self.step(observations, None)[0]

    def along(self, windows: Windows) -> tuple[Tensor, Tensor | None]:
        """Features (B T, O) and states (B T, N) of the trained steps; no gradient flows into the burn-in.

        The state is zero before the burn-in.
        """
        warm, trained = slice(0, windows.burn_in), slice(windows.burn_in, None)
        features = self.read(windows.rows, trained)
        if self.circuit is None:
            return features, None
        state = None
        if windows.burn_in:
            with torch.no_grad():
                state = self._scan(self.read(windows.rows, warm), None, windows.starts[:, warm])[1][:, -1]
        outputs, states = self._scan(features, state, windows.starts[:, trained])
        return self._features(outputs.flatten(0, 1), features), states.flatten(0, 1)

    def step(
        self, observations: Any, state: Tensor | None, starts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Features (B, O) and state (B, N) after one more observation (B, ...), from a state (B, N).

        :param state: None is the state before an episode
        :param starts: (B,) bool, true where the state is forgotten first
        """
        features = self._read(observations)
        if self.circuit is None:
            return features, None
        outputs, states = self._scan(features, state, None if starts is None else starts[:, None])
        return self._features(outputs[:, 0], features), states[:, 0]

    def read(self, rows: Any, steps: slice) -> Tensor:
        """What the circuit reads, (B x steps, F), of some of the steps of rows (B, W, ...)."""
        return self._read(flat(rows, steps))

    def _read(self, observations: Any) -> Tensor:
        """What the circuit reads, (B, F), of observations (B, ...)."""
        seen: Any = preprocess_obs(observations, self._observation_space, normalize_images=self.normalize_images)
        found: Tensor = self.row(seen)
        return found

    def _features(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Features (B, O) from the circuit's outputs and the row's features."""
        return torch.cat([outputs, features], dim=1) if self.shortcut else outputs

    def _scan(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Outputs (B, T, O) and states (B, T, N) from features (B T, F) and starts (B, T); without starts T is 1."""
        assert self.circuit is not None
        batch = len(features) if starts is None else len(starts)
        return self.circuit.run(features.reshape(batch, -1, self.circuit.input_size), state, starts)


def flat(rows: Any, steps: slice) -> Any:
    """Some of the steps of rows (B, W, ...), or of a dictionary of them, as (B x steps, ...)."""
    if isinstance(rows, dict):
        return {key: values[:, steps].flatten(0, 1) for key, values in rows.items()}
    return rows[:, steps].flatten(0, 1)


class _SequenceSACActor(SACActor):
    """SAC's actor behind a `SequenceExtractor`."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        found: Tensor = features_extractor(obs)
        return found


class _SequenceTD3Actor(TD3Actor):
    """TD3's actor behind a `SequenceExtractor`."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        found: Tensor = features_extractor(obs)
        return found


class _SequenceCritic(ContinuousCritic):
    """The critics of both behind a `SequenceExtractor`."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Tensor:
        found: Tensor = features_extractor(obs)
        return found

    def forward(self, obs: Any, actions: Tensor) -> tuple[Tensor, ...]:
        """Each critic's values (B, 1) of actions (B, A).

        Actions that need gradients are those of the actor's loss. It does not train the critic, whose features then
        need none: what Stable-Baselines3 computes in vain is half of the backward pass.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not actions.requires_grad):
            features = self.extract_features(obs, self.features_extractor)
        inputs = torch.cat([features, actions], dim=1)
        return tuple(critic(inputs) for critic in self.q_networks)


class SequencePolicy:
    """What gives a policy of SAC or TD3 a memory: an actor that is a circuit, and critics that may be something else.

    Example::

        model = RecurrentSAC("NCPPolicy", env, policy_kwargs=dict(cell="ltc", wiring=AutoNCP(40, 16)))

    The other arguments are those of Stable-Baselines3's policies; `net_arch` is what follows the circuits, by default
    nothing for the actor and two layers of 256 for the critics. `features_extractor_class` is applied to each
    observation by itself; dictionaries go through `CombinedExtractor` unless another one is named, and their entry
    `elapsed`, if there is one, goes to the cells as the time since the last step. Critics see what the extractor gives
    beside their memory.

    :param wiring: the actor's plan, wiring or number of neurons; its motor neurons go to the action layers
    :param cell: the name of its cell, or a class of cells of one's own
    :param cell_kwargs: the cell's settings
    :param critic: "circuit", another of the same kind, which both critics read; "lstm"; or "mlp", without memory
    :param critic_units: of an LSTM critic
    :param circuit_lr_scale: the learning rate of the circuits over that of the other layers (an LSTM critic has theirs)
    """

    actor_class: type[SACActor] | type[TD3Actor]

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
        circuit_lr_scale: float = 1.0,
        share_features_extractor: bool = False,
        **kwargs: Any,
    ) -> None:
        check_names(kwargs, SequencePolicy.__init__, super().__init__)
        if critic not in CRITICS:
            raise ValueError(f"unknown critic {critic!r}: choose one of {', '.join(CRITICS)}")
        if share_features_extractor:
            raise ValueError("actor and critic each need a memory of their own: leave share_features_extractor False")
        if isinstance(observation_space, spaces.Dict):
            kwargs.setdefault("features_extractor_class", CombinedExtractor)
        elif is_image_space(observation_space) and "features_extractor_class" not in kwargs:
            raise ValueError(
                "a circuit reads features, not images: pass policy_kwargs=dict(features_extractor_class=NatureCNN), or "
                f"another extractor, for {observation_space}"
            )
        self.circuit_kwargs: dict[str, Any] = {
            "wiring": wiring, "cell": cell, "cell_kwargs": cell_kwargs, "critic": critic, "critic_units": critic_units,
            "circuit_lr_scale": circuit_lr_scale,
        }  # fmt: skip
        arch = NET_ARCH if net_arch is None else net_arch
        super().__init__(observation_space, action_space, lr_schedule, arch, **kwargs)  # type: ignore[call-arg]

    def _build(self: Any, lr_schedule: Schedule) -> None:
        """Makes all networks, as Stable-Baselines3 does, and optimizers in which circuits have a rate of their own."""
        super()._build(lr_schedule)  # type: ignore[misc]
        for network in (self.actor, self.critic):
            network.optimizer = self.optimizer_class(self._groups(network), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _groups(self, network: nn.Module) -> list[dict[str, Any]]:
        """The parameters of an actor or a critic: those of its layers, and those of its circuit."""
        extractor: Any = network.features_extractor
        own = isinstance(network, (SACActor, TD3Actor)) or self.circuit_kwargs["critic"] == "circuit"
        circuit = list(extractor.circuit.parameters()) if own else []
        known = {id(parameter) for parameter in circuit}
        rest = [parameter for parameter in network.parameters() if id(parameter) not in known]
        scaled = {"params": circuit, "lr_scale": self.circuit_kwargs["circuit_lr_scale"]}
        return [group for group in ({"params": rest}, scaled) if group["params"]]

    def _sequence_extractor(self: Any, role: str) -> SequenceExtractor:
        """The extractor of an "actor" or a "critic"."""
        given, timed, circuit = self.circuit_kwargs, is_timed(self.observation_space), None
        if timed:
            row: Any = TimedExtractor(
                self.observation_space, self.features_extractor_class, self.features_extractor_kwargs
            )
        else:
            row = super().make_features_extractor()  # type: ignore[misc]
        kind = "circuit" if role == "actor" else given["critic"]
        if kind == "circuit":
            circuit = Circuit(row.features_dim, given["wiring"], given["cell"], given["cell_kwargs"], timed)
        elif kind == "lstm":
            circuit = Circuit(row.features_dim, given["critic_units"], "lstm", None, timed)
        # critics judge by the observation itself too, and so need their memory only for what it does not show
        return SequenceExtractor(self.observation_space, row, circuit, self.normalize_images, role == "critic")

    def make_actor(self: Any, features_extractor: Any = None) -> Any:
        """An actor with its own circuit."""
        settings = self._update_features_extractor(self.actor_kwargs, self._sequence_extractor("actor"))
        return self.actor_class(**settings).to(self.device)

    def make_critic(self: Any, features_extractor: Any = None) -> Any:
        """Critics with one memory for all."""
        settings = self._update_features_extractor(self.critic_kwargs, self._sequence_extractor("critic"))
        return _SequenceCritic(**settings).to(self.device)

    def predict(
        self: Any,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Actions, and the state to hand over with the next observation.

        :param observation: one, or those of n environments
        :param state: what the last call returned, ((1, n, N),); None is the state before an episode
        :param episode_start: (n,), true where an episode begins, so that the state is forgotten
        :param deterministic: without noise
        """
        self.set_training_mode(False)
        seen, several = self.obs_to_tensor(observation)
        if state is not None:
            flags = None if episode_start is None else np.size(episode_start)
            size = self.actor.features_extractor.circuit.hidden_size
            check_state(np.shape(state[0]), size, rows_of(seen), flags)
        with torch.no_grad():
            before = None if state is None else torch.as_tensor(state[0][0], device=self.device)
            starts = None
            if before is not None and episode_start is not None:
                starts = torch.as_tensor(np.asarray(episode_start, dtype=bool).reshape(-1), device=self.device)
            features, after = self.actor.features_extractor.step(seen, before, starts)
            check_numbers(after)
            actions = self._predict(Features(features), deterministic=deterministic)
        actions = actions.cpu().numpy().reshape(-1, *self.action_space.shape)
        actions = self.unscale_action(actions)
        return actions if several else actions[0], (after[None].cpu().numpy(),)

    def set_training_mode(self: Any, mode: bool) -> None:
        """Training or evaluation mode; walks through the modules only if it changes, which it seldom does."""
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
