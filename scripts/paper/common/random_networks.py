"""Random continuous-time networks of several layers, as the LTC paper draws them (section 5.1, S4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
KINDS = {"neural_ode": "Neural ODE", "ct_rnn": "CT-RNN", "ltc": "LTC"}
TAUS = ("rate", "tau")


def _sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0.0),
    "hard_tanh": lambda x: np.clip(x, -1.0, 1.0),
}


@dataclass(frozen=True)
class Layer:
    """The weights of a layer of k neurons: of its m inputs (k, m), recurrent (k, k), bias, leak 1 / tau and A (k,)."""

    weights: Array
    recurrent: Array
    bias: Array
    leak: Array
    A: Array


@dataclass(frozen=True)
class RandomNetwork:
    """n layers of k neurons each, all integrated together::

        f = act(W x_below + W_r x + b)          x_below: the inputs I(t), or the state of the layer below
        Neural ODE  dx/dt = f
        CT-RNN      dx/dt = -x / tau + f
        LTC         dx/dt = -(1 / tau + f) x + f A

    The three kinds share their f: from the same seed they have the same W, W_r and b.
    """

    kind: str
    activation: str
    layers: tuple[Layer, ...]

    @property
    def width(self) -> int:
        """Neurons of a layer, k."""
        return len(self.layers[0].bias)

    def rate_and_drive(self, inputs: Array, states: Array) -> tuple[Array, Array]:
        """Returns `rate` and `drive` of `dx/dt = drive - rate x`, both (n, k).

        :param inputs: the inputs, (m,)
        :param states: the states of all layers, (n, k)
        """
        act = ACTIVATIONS[self.activation]
        rate, drive = np.zeros_like(states), np.empty_like(states)
        below = inputs
        for d, layer in enumerate(self.layers):
            f = act(layer.weights @ below + layer.recurrent @ states[d] + layer.bias)
            below = states[d]
            drive[d] = f * layer.A if self.kind == "ltc" else f
            if self.kind != "neural_ode":
                rate[d] = layer.leak + f if self.kind == "ltc" else layer.leak
        return rate, drive

    def slope(self, inputs: Array, states: Array) -> Array:
        """Returns `dx/dt`, (n, k)."""
        rate, drive = self.rate_and_drive(inputs, states)
        return drive - rate * states


def draw_network(
    kind: str,
    activation: str,
    seed: int,
    *,
    layers: int = 1,
    width: int = 100,
    weight_variance: float = 2.0,
    bias_variance: float = 1.0,
    leak: str = "rate",
    inputs: int = 2,
) -> RandomNetwork:
    """Draws a network with `W ~ N(0, sigma_w^2 / k)`, `b ~ N(0, sigma_b^2)` and `A ~ N(0, sigma_w^2)`.

    :param leak: what is drawn as `|N(0, sigma_b^2)|`: "rate" for 1 / tau, as in the appendix' proof (S4.2), or "tau",
        as in its list of symbols (S4.1), which makes some neurons very fast
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of network {kind!r}: choose one of {', '.join(KINDS)}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
    if leak not in TAUS:
        raise ValueError(f"leak says what is drawn, 'rate' or 'tau', not {leak!r}")
    if layers < 1 or width < 2:
        raise ValueError(f"a network needs a layer and two neurons, got {layers} layers of {width}")
    if weight_variance < 0 or bias_variance < 0:
        raise ValueError(f"variances must not be negative, got {weight_variance} and {bias_variance}")
    rng = np.random.default_rng([seed, 21])
    drawn = []
    for d in range(layers):
        below = inputs if d == 0 else width
        scale = np.sqrt(weight_variance / width)
        weights, recurrent = rng.normal(size=(width, below)) * scale, rng.normal(size=(width, width)) * scale
        bias = rng.normal(size=width) * np.sqrt(bias_variance)
        folded = np.abs(rng.normal(size=width)) * np.sqrt(bias_variance)
        target = rng.normal(size=width) * np.sqrt(weight_variance)
        drawn.append(Layer(weights, recurrent, bias, folded if leak == "rate" else 1 / folded, target))
    return RandomNetwork(kind, activation, tuple(drawn))
