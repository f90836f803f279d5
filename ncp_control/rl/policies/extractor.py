"""A neural circuit as a features extractor: for every algorithm of Stable-Baselines3, over a window of observations."""

from __future__ import annotations

from typing import Any, cast

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from ncp_control.rl.policies.circuit import CellLike, Circuit, WiringLike, chosen_wiring
from ncp_control.rl.policies.elapsed import KEY


class NCPExtractor(BaseFeaturesExtractor):
    """Runs a circuit over the window of observations that `ncp_envs.History` returns, in one scan.

    The features are the circuit's outputs at the end of the window.

    The state is zero before every window, so the circuit remembers as far back as the window reaches.

    Example::

        env = History(gym.make("ncp_envs:ncp/PendulumNoVel-v0"), window=16)
        policy_kwargs = dict(
            features_extractor_class=NCPExtractor, features_extractor_kwargs=dict(wiring=AutoNCP(40, 16), cell="ltc")
        )
        model = SAC("MultiInputPolicy", env, policy_kwargs=policy_kwargs)

    :param observation_space: the space of an environment wrapped in `History`; if it has the elapsed times, the cell
        gets them
    :param wiring: a plan, also as text, a `Wiring`, or a number of fully connected neurons; its motor neurons are the
        features. None is `AutoNCP(40, 16)`, or 40 neurons for a cell that is always fully connected
    :param cell: the cell's name, or a class of cells of your own
    :param cell_kwargs: the cell's settings
    :param carry: in evaluation mode (when a model acts), continue from the state after the last call if every window
        is the last call's moved on by one step, instead of running the whole window again. The features are the same
        while an episode is no longer than the window; after that the circuit remembers more than it could in training.
        To switch it on in a trained model, set it on the extractor, such as
        `model.policy.actor.features_extractor.carry = True`.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        wiring: WiringLike | str | None = None,
        cell: CellLike = "ltc",
        cell_kwargs: dict[str, Any] | None = None,
        carry: bool = False,
    ) -> None:
        window = window_of(observation_space)
        if window is None:
            raise ValueError(
                "NCPExtractor needs a window of observations and its start flags: wrap the environment as "
                f"ncp_envs.History(env, window=16); it was given {observation_space}"
            )
        timed = KEY in cast("spaces.Dict", observation_space).spaces
        circuit = Circuit(window.shape[1] + timed, chosen_wiring(wiring, cell), cell, cell_kwargs, timed)
        super().__init__(observation_space, circuit.output_size)
        self.circuit, self.timed, self.carry = circuit, timed, carry
        self._last: tuple[Tensor, Tensor] | None = None

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Returns the features (B, O) of windows (B, W, n) with start flags (B, W)."""
        # Stable-Baselines3 has made floats of the flags
        seen, starts = observations["observations"], observations["starts"] != 0
        if self.timed:
            seen = torch.cat([seen, observations[KEY][..., None]], dim=-1)
        before = self._state_before(seen, starts) if self.carry and not self.training else None
        if before is None:
            outputs, state = self.circuit(seen, seen.new_zeros(len(seen), self.circuit.hidden_size), starts)
        else:
            outputs, state = self.circuit(seen[:, -1:], before, starts[:, -1:])
        if self.carry and not self.training:
            self._last = seen.detach(), state.detach()
        features: Tensor = outputs[:, -1]
        return features

    def _state_before(self, seen: Tensor, starts: Tensor) -> Tensor | None:
        """Returns the states that the last call left, from which the last step of every window can be run.

        :param seen: the windows, (B, W, n)
        :param starts: their start flags, (B, W)
        :return: (B, N); None unless every window is the last call's moved on by one step, or its last step begins an
            episode
        """
        if self._last is None or self._last[0].shape != seen.shape:
            return None
        window, state = self._last
        follows = (seen[:, :-1] == window[:, 1:]).all(dim=2).all(dim=1)
        # all rows or none, because those that follow are not run apart from the others
        return state if bool((follows | starts[:, -1]).all()) else None


def window_of(space: spaces.Space[Any]) -> spaces.Box | None:
    """Returns the space of the window, (W, n), in observations as `ncp_envs.History` makes them; None for others."""
    if not isinstance(space, spaces.Dict) or set(space.spaces) - {KEY} != {"observations", "starts"}:
        return None
    window = space["observations"]
    return window if isinstance(window, spaces.Box) and len(window.shape) == 2 else None
