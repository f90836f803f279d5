"""A trained agent as one module from observations to actions, for `torch.export` and for robots."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import CategoricalDistribution, DiagGaussianDistribution
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from torch import Tensor, nn

from ncp_control.ops import check_backend
from ncp_control.rl.files.loaded_policy import LoadedPolicy, Normalizer
from ncp_control.rl.monitor import ELAPSED, NOT_FINITE, OBSERVATION, STATE, Monitor
from ncp_control.rl.policies.circuit import Circuit
from ncp_control.rl.policies.elapsed import KEY, TimedExtractor, is_timed
from ncp_control.rl.policies.numpy_actor import layers_of
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.rnn import RNN


class Controller(nn.Module):
    """An agent's normalisation, circuit and action layers, without critic, noise and Stable-Baselines3::

        z = clip((o - mean) / scale),    y, s' = circuit(z, s),    action = clip(head(y))

    An agent without a memory has a state of size 0, and its head reads z. It holds copies of the agent's weights.

    Exported code cannot refuse an observation. Where an observation, an elapsed time or what follows from them is not
    finite, and where the time is negative, the state stays as it was, an action of numbers is NaN, and with a monitor
    the flag is `NOT_FINITE`.

    Example::

        controller = Controller(nc.load("checkpoints/halfcheetah.safetensors"))
        action, state = controller(observation, controller.initial_state())
        program = torch.export.export(controller, (observation, state))

    :param agent: a policy loaded from a file of `save_policy`, with Box or Discrete actions, whose observations are
        vectors, or dictionaries of one vector and the elapsed time
    :param backend: the backend of the scan, as in `RNN`; with "reference" an exported program consists of torch's own
        operations
    :param monitor: the certified ranges; with one, every step also returns flags
    :param sensors: a name for each number of the observation
    :param actions: a name for each number of the action, or for each choice
    :ivar rnn: the circuit; None for an agent without a memory
    :ivar timed: whether the agent was trained with elapsed times that vary
    """

    low: Tensor
    high: Tensor

    def __init__(
        self,
        agent: LoadedPolicy,
        backend: str = "auto",
        monitor: Monitor | None = None,
        *,
        sensors: Sequence[str] = (),
        actions: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_backend(backend)
        if not isinstance(agent, LoadedPolicy):
            raise TypeError(
                "a Controller needs a policy that nc.load read from a file of save_policy, not a "
                f"{type(agent).__name__}"
            )
        key, seen = read_vector(agent.observation_space)
        acted, policy = agent.action_space, agent.policy
        parts = parts_of(policy)
        self.timed = is_timed(agent.observation_space)
        self.normalize: nn.Module = nn.Identity()
        if agent.normalizer is not None and key in agent.normalizer.scales:
            self.normalize = Normalize(agent.normalizer, key)
        if self.timed and not flattens(parts.extractor):
            raise ValueError(
                "a Controller with elapsed times needs the usual CombinedExtractor, and this agent has "
                f"{type(parts.extractor.inner).__name__}"
            )
        self.extractor = nn.Identity() if flattens(parts.extractor) else copy.deepcopy(parts.extractor)
        self.head = copy.deepcopy(parts.head)
        self.rnn: RNN | None = None if parts.circuit is None else copy.deepcopy(parts.circuit.rnn)
        # a cell without use for elapsed times was trained with them as its last feature
        self.reads_elapsed = self.timed and not (parts.circuit is not None and parts.circuit.timed)
        if self.rnn is not None:
            self.rnn.backend = backend
        self.chooses = isinstance(acted, spaces.Discrete)
        self.first = int(acted.start) if isinstance(acted, spaces.Discrete) else 0
        self.squashes = bool(policy.squash_output)
        low, high = (acted.low, acted.high) if isinstance(acted, spaces.Box) else (0.0, 0.0)
        self.register_buffer("low", torch.as_tensor(low))
        self.register_buffer("high", torch.as_tensor(high))
        self.sensors = names("sensors", sensors, "observation", int(seen.shape[0]))
        what, count = ("choice", int(acted.n)) if isinstance(acted, spaces.Discrete) else ("action", self.low.numel())
        self.actions = names("actions", actions, what, count)
        if monitor is not None:
            monitor.check_fits(len(self.sensors), self.state_size, agent.sha256)
        self.watch = None if monitor is None else Watch(monitor)
        self.eval().requires_grad_(False)

    @property
    def state_size(self) -> int:
        """The size of the state, N."""
        return 0 if self.rnn is None else self.rnn.cell.state_size

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights, in which everything after the normalisation is computed."""
        return next(self.parameters()).dtype

    def initial_state(self, batch: int = 1) -> Tensor:
        """Returns the state before an episode, (B, N)."""
        return torch.zeros(batch, 0, dtype=self.dtype) if self.rnn is None else self.rnn.initial_state(batch)

    def features(self, observation: Tensor, elapsed: float | Tensor = 1.0) -> Tensor:
        """Returns what the circuit reads, (B, F): the normalised observation.

        The elapsed time is its last number in an agent that was trained with elapsed times and whose cell has no use
        for them.
        """
        features: Tensor = self.extractor(self.normalize(observation).to(self.dtype))
        if not self.reads_elapsed:
            return features
        column = torch.as_tensor(elapsed, dtype=features.dtype, device=features.device).expand(features.shape[:1])
        return torch.cat([features, column[:, None]], dim=1)

    def act(self, outputs: Tensor) -> Tensor:
        """Returns the actions for the circuit's outputs (B, O)."""
        return self.acted(self.head(outputs))

    def acted(self, found: Tensor) -> Tensor:
        """Returns the actions that the numbers of the head mean (B, A)."""
        return found.argmax(dim=-1) + self.first if self.chooses else self.limited(found)

    def limited(self, found: Tensor) -> Tensor:
        """Returns what the head has found (B, A) within the limits of the action space."""
        if self.squashes:
            found = self.low + 0.5 * (found + 1) * (self.high - self.low)
        return torch.minimum(torch.maximum(found, self.low), self.high)

    def forward(self, observation: Tensor, state: Tensor, elapsed: float | Tensor = 1.0) -> tuple[Tensor, ...]:
        """Returns the deterministic actions and the state after them.

        :param observation: (B, n), as the environment returns it
        :param state: the state that the last call returned, (B, N)
        :param elapsed: time since the last observation, in steps of the training; a number or (B,)
        :return: the actions, (B, A) for a Box and (B,) for a Discrete space, the state (B, N), and with a monitor the
            flags (B,)
        """
        features = self.features(observation, elapsed)
        if self.rnn is None:
            outputs, after = features, state
        else:
            outputs, after = self.rnn.step(features, state, elapsed)
        raw = self.head(outputs)
        time = torch.as_tensor(elapsed, dtype=state.dtype, device=state.device)
        usable = torch.isfinite(time) & (time >= 0)
        # The state is looked at as well: it can overflow where the observation and the action are finite.
        for numbers in (observation, after, raw):
            usable = usable & torch.isfinite(numbers).all(dim=1)
        # chosen, not branched: an exported program has one path for all values
        action, kept = self.acted(raw), torch.where(usable[:, None], after, state)
        if not self.chooses:
            action = action.where(usable[:, None], torch.nan)
        if self.watch is None:
            return action, kept
        return action, kept, torch.where(usable, self.watch(observation, kept, time), NOT_FINITE)


class Normalize(nn.Module):
    """A `Normalizer` of vectors as a module of torch. It computes in float64, the type of the statistics.

    :param normalizer: normalises vectors, or the entry `key` of dictionaries
    :param key: the name of the entry, and "" for vectors
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, normalizer: Normalizer, key: str = "") -> None:
        super().__init__()
        self.clip = normalizer.clip
        mean, scale = normalizer.scales[key]
        self.register_buffer("mean", torch.as_tensor(mean))
        self.register_buffer("scale", torch.as_tensor(scale))

    def forward(self, observation: Tensor) -> Tensor:
        """Returns normalised observations, (B, n)."""
        return ((observation - self.mean) / self.scale).clamp(-self.clip, self.clip)


class Watch(nn.Module):
    """Compares what an agent sees and does with the ranges of a monitor."""

    observation_low: Tensor
    observation_high: Tensor
    state_low: Tensor
    state_high: Tensor

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self.elapsed, self.claim = (monitor.elapsed_low, monitor.elapsed_high), monitor.claim
        for name in ("observation_low", "observation_high", "state_low", "state_high"):
            self.register_buffer(name, torch.as_tensor(getattr(monitor, name)))

    def forward(self, observation: Tensor, state: Tensor, elapsed: Tensor) -> Tensor:
        """Returns the flags of a step that could be computed, (B,)."""
        inside = (observation >= self.observation_low) & (observation <= self.observation_high)
        stayed = (state >= self.state_low) & (state <= self.state_high)
        late = (elapsed < self.elapsed[0]) | (elapsed > self.elapsed[1])
        outside = [~is_inside.all(dim=1) for is_inside in (inside, stayed)]
        return OBSERVATION * outside[0].int() + STATE * outside[1].int() + ELAPSED * late.int()


class Parts(NamedTuple):
    """The parts of a policy that act: an extractor, a circuit (or None), and the layers behind it."""

    extractor: Any
    circuit: Circuit | None
    head: Any


def parts_of(policy: Any) -> Parts:
    """Returns the features extractor, the circuit, and the layers from its outputs to the deterministic actions."""
    distributions = (DiagGaussianDistribution, CategoricalDistribution)
    if isinstance(policy, NCPPolicy) and isinstance(policy.action_dist, distributions):
        head = nn.Sequential(policy.mlp_extractor.actor, policy.action_net)
        return Parts(policy.pi_features_extractor, policy.lstm_actor, head)
    if isinstance(policy, TD3SequencePolicy):
        extractor: Any = policy.actor.features_extractor
        return Parts(extractor.row, extractor.circuit, policy.actor.mu)
    if isinstance(policy, SACSequencePolicy):
        actor: Any = policy.actor
        # without noise, an action of SAC is the tanh of its mean
        layers = nn.Sequential(actor.latent_pi, actor.mu, nn.Tanh())
        return Parts(actor.features_extractor.row, actor.features_extractor.circuit, layers)
    plain = layers_of(policy)
    if plain is not None:
        return Parts(nn.Flatten(), None, nn.Sequential(*plain))
    raise ValueError(
        "a Controller needs an NCPPolicy whose actions are Gaussian or one choice, or an MLP with Box actions, and "
        f"this agent has the policy {type(policy).__name__} with actions of {policy.action_space}"
    )


def read_vector(space: spaces.Space[Any]) -> tuple[str, spaces.Box]:
    """Returns the vector of which observations consist, and its key, which is "" unless they are dictionaries."""
    entries: dict[str, Any] = {"": space}
    if is_timed(space) and isinstance(space, spaces.Dict):
        entries = {key: entry for key, entry in space.spaces.items() if key != KEY}
    key, vector = next(iter(entries.items()))
    if len(entries) != 1 or not isinstance(vector, spaces.Box) or len(vector.shape) != 1:
        raise ValueError(
            f"a Controller reads vectors, alone or with the elapsed time, and this agent's observations are {space}"
        )
    return key, vector


def flattens(extractor: Any) -> bool:
    """Whether an extractor returns a vector, or a dictionary's only vector, as it is."""
    inner = extractor.inner if isinstance(extractor, TimedExtractor) else extractor
    return type(inner) in (FlattenExtractor, CombinedExtractor, nn.Flatten)


def names(what: str, given: Sequence[str], default: str, count: int) -> tuple[str, ...]:
    """Returns `count` names, by default numbered ones."""
    if given and len(given) != count:
        raise ValueError(f"{what} must have {count} names, got {len(given)}")
    return tuple(given) or tuple(f"{default}{k}" for k in range(count))
