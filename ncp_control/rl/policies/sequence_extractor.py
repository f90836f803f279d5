"""The features extractors of recurrent SAC and TD3, over sampled windows of steps.

`SequenceExtractor` runs a circuit over a window. `WindowExtractor` has no memory: it reads the last few observations
and the actions between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim, preprocess_obs
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from ncp_control.rl.buffers.replay import NextObservations, ReplayWindows
from ncp_control.rl.policies.choices import from_zero
from ncp_control.rl.policies.circuit import Circuit


@dataclass(frozen=True)
class Features:
    """Features (B, O) that are already computed; actors and critics use them as they are."""

    values: Tensor


class SequenceExtractor(BaseFeaturesExtractor):
    """Features with a memory: an extractor for single observations, and a circuit that runs over its features.

    :param observation_space: the environment's observation space
    :param row: extracts features (B, F) from single observations (B, ...)
    :param circuit: reads the features of `row` in order, and its outputs are the features (B, O); None for no memory,
        so that the features are those of `row`
    :param normalize_images: as in Stable-Baselines3
    :param shortcut: append the features of `row` to the circuit's outputs
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
        """Returns the features of whatever an actor or a critic is called with.

        :param observations: one of

            - `ReplayWindows`: gives the features of the trained steps, (B T, O), window by window,
            - `NextObservations`: gives the features of the observation after each trained step, (B T, O),
            - `Features`: gives these features,
            - observations (B, ...), or a dictionary of them: gives (B, O), as at the first step of an episode
        """
        if isinstance(observations, Features):
            return observations.values
        if isinstance(observations, ReplayWindows):
            return self.along(observations)[0]
        if isinstance(observations, NextObservations):
            after, steps = observations.observations, slice(None)
            if self.circuit is None:
                return self.read(after, steps)
            # one step from each state of the windows, in a single batch of B T rows
            return self.step(flat(after, steps), self.along(observations.windows)[1])[0]
        return self.step(observations, None)[0]

    def along(self, windows: ReplayWindows) -> tuple[Tensor, Tensor | None]:
        """Runs over windows, from a state of zero before the burn-in; no gradient flows into the burn-in.

        :return: the features (B T, O) and the states (B T, N) of the trained steps; no states without a circuit
        """
        warm, trained = slice(0, windows.burn_in), slice(windows.burn_in, None)
        features = self.read(windows.observations, trained)
        if self.circuit is None:
            return features, None
        state = None
        if windows.burn_in:
            with torch.no_grad():
                # resets happen within the scan, so a window may begin in another episode
                state = self._scan(self.read(windows.observations, warm), None, windows.starts[:, warm])[1][:, -1]
        outputs, states = self._scan(features, state, windows.starts[:, trained])
        return self._features(outputs.flatten(0, 1), features), states.flatten(0, 1)

    def step(
        self, observations: Any, state: Tensor | None, starts: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Runs over one more observation.

        :param observations: (B, ...), or a dictionary of them
        :param state: (B, N); None is the state before an episode
        :param starts: (B,) bool, true where the state is reset first
        :return: the features (B, O) and the states after the observation (B, N); no states without a circuit
        """
        features = self._read(observations)
        if self.circuit is None:
            return features, None
        outputs, states = self._scan(features, state, None if starts is None else starts[:, None])
        return self._features(outputs[:, 0], features), states[:, 0]

    def read(self, observations: Any, steps: slice) -> Tensor:
        """Returns the features that the circuit reads, (B x steps, F), of some steps of observations (B, W, ...)."""
        return self._read(flat(observations, steps))

    def _read(self, observations: Any) -> Tensor:
        """Returns the features that the circuit reads, (B, F), of observations (B, ...)."""
        space = self._observation_space
        seen: Any = preprocess_obs(from_zero(observations, space), space, normalize_images=self.normalize_images)
        features: Tensor = self.row(seen)
        return features

    def _features(self, outputs: Tensor, features: Tensor) -> Tensor:
        """Returns the features (B, O), made of the circuit's outputs and of what it read."""
        return torch.cat([outputs, features], dim=1) if self.shortcut else outputs

    def _scan(self, features: Tensor, state: Tensor | None, starts: Tensor | None) -> tuple[Tensor, Tensor]:
        """Runs the circuit over features (B T, F) with starts (B, T); without starts T is 1.

        :return: the outputs (B, T, O) and the states (B, T, N)
        """
        assert self.circuit is not None
        batch = len(features) if starts is None else len(starts)
        return self.circuit.run(features.reshape(batch, -1, self.circuit.input_size), state, starts)


def flat(observations: Any, steps: slice) -> Any:
    """Returns some steps of observations (B, W, ...), or of a dictionary of them, as (B x steps, ...)."""
    if isinstance(observations, dict):
        return {key: values[:, steps].flatten(0, 1) for key, values in observations.items()}
    return observations[:, steps].flatten(0, 1)


class WindowExtractor(BaseFeaturesExtractor):
    """The last K observations o and the K - 1 actions a between them, at every step t, as one vector::

        [o_t, o_(t-1), a_(t-1), ..., o_(t-K+1), a_(t-K+1)]

    with zeros for what came before the episode. A few positions and the actions between them can tell nearly everything
    about a body. A critic that reads them then need not learn what to remember.

    :param row: reads the features of single observations, F; a `SequenceExtractor` without a circuit
    :param action_space: the space of the actions
    :param window: K
    """

    circuit = None

    def __init__(self, row: SequenceExtractor, action_space: spaces.Space[Any], window: int) -> None:
        self.window, actions = window, get_action_dim(action_space)
        super().__init__(row._observation_space, window * row.features_dim + (window - 1) * actions)
        self.row = row

    def forward(self, observations: Any) -> Tensor:
        """Returns the features (B T, O) of the trained steps of windows, or of the observations after them."""
        if isinstance(observations, NextObservations):
            windows = observations.windows
            after = self.row.read(observations.observations, slice(None))
            return torch.cat([after, self._past(windows, 0)], dim=1)
        now = self.row.read(observations.observations, slice(observations.burn_in, None))
        return torch.cat([now, self._past(observations, 1)], dim=1)

    def _past(self, windows: ReplayWindows, first: int) -> Tensor:
        """Returns the K - 1 observations before each trained step, or before the one after it, and their actions.

        :param first: how many steps before the trained step the latest of them is
        :return: (B T, (K - 1) (F + actions))
        """
        begun = windows.burn_in
        seen = self.row.read(windows.observations, slice(None)).unflatten(0, windows.starts.shape)
        steps = torch.cat([seen, windows.actions], dim=2)
        present = torch.ones_like(windows.starts[:, begun:])
        pieces = []
        for back in range(first, first + self.window - 1):
            here = slice(begun - back, steps.shape[1] - back)
            # The step after this one must not begin an episode; further back nothing is of this episode, either.
            if back:
                present = present & ~windows.starts[:, begun - back + 1 : steps.shape[1] - back + 1]
            pieces.append(steps[:, here] * present[..., None])
        return torch.cat(pieces, dim=2).flatten(0, 1) if pieces else steps.new_zeros(present.numel(), 0)
