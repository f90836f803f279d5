"""A neural circuit as a features extractor: for every algorithm of Stable-Baselines3, over a window of observations."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from ncp_control.rl.circuit import DEFAULT_WIRING, Circuit, WiringLike


class NCPExtractor(BaseFeaturesExtractor):
    """Unrolls a circuit over the window that `ncp_envs.History` shows, in one scan; the features are its outputs at the
    end of it.

    The state starts at zero with every window, so the circuit remembers as far back as the window reaches.

    Example::

        env = History(gym.make("ncp_envs:ncp/PendulumNoVel-v0"), window=16)
        policy_kwargs = dict(
            features_extractor_class=NCPExtractor, features_extractor_kwargs=dict(wiring=AutoNCP(40, 16), cell="ltc")
        )
        model = SAC("MultiInputPolicy", env, policy_kwargs=policy_kwargs)

    :param observation_space: of an environment inside of `History`
    :param wiring: a plan, a `Wiring`, or a number of fully connected neurons; its motor neurons are the features
    :param cell: the cell's name
    :param cell_kwargs: the cell's settings
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        wiring: WiringLike = DEFAULT_WIRING,
        cell: str = "ltc",
        cell_kwargs: dict[str, Any] | None = None,
    ) -> None:
        window = window_of(observation_space)
        if window is None:
            raise ValueError(
                "NCPExtractor needs a window of observations and its start flags: wrap the environment as "
                f"ncp_envs.History(env, window=16); it was given {observation_space}"
            )
        circuit = Circuit(window.shape[1], wiring, cell, cell_kwargs)
        super().__init__(observation_space, circuit.output_size)
        self.circuit = circuit

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Features (B, O) of windows (B, W, n) with start flags (B, W)."""
        seen, starts = observations["observations"], observations["starts"] != 0
        outputs, _ = self.circuit(seen, seen.new_zeros(len(seen), self.circuit.hidden_size), starts)
        features: Tensor = outputs[:, -1]
        return features


def window_of(space: spaces.Space[Any]) -> spaces.Box | None:
    """The window, (W, n), of observations that have the form of `ncp_envs.History`; None for others."""
    if not isinstance(space, spaces.Dict) or set(space.spaces) != {"observations", "starts"}:
        return None
    window = space["observations"]
    return window if isinstance(window, spaces.Box) and len(window.shape) == 2 else None
