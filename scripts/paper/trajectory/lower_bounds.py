"""Theorems 4 and 5 of the LTC paper: lower bounds of the length of a latent path, up to an unknown constant."""

from __future__ import annotations

import math

# Solver steps a sample with hard-tanh, Table 2 of the paper.
PUBLISHED_DEPTHS = {"neural_ode": 0.61, "ct_rnn": 4.05, "ltc": 81.01}
CIRCLE = 2 * math.pi  # the length of the input


def base(weight_variance: float, bias_variance: float, width: float, leaky: bool = False) -> float:
    """Returns the base of the power in Eq. 7 and 9, whose exponent is layers times solver steps::

        sigma_w sqrt(k) / sqrt(sigma_w^2 + sigma_b^2 + k sqrt(sigma_w^2 + sigma_b^2))

    :param leaky: the base in Eq. 8, of a CT-RNN, with `sigma_w - sigma_b` in place of the first `sigma_w`
    """
    total = weight_variance + bias_variance
    scale = math.sqrt(weight_variance) - (math.sqrt(bias_variance) if leaky else 0.0)
    return scale * math.sqrt(width) / math.sqrt(total + width * math.sqrt(total))


def lower_bound(
    kind: str,
    weight_variance: float,
    bias_variance: float,
    width: float,
    layer: int,
    depth: float,
    norm: float = 0.0,
    step: float = 1.0,
) -> float:
    """Returns the right-hand side of Eq. 7 (Neural ODE), 8 (CT-RNN) or 9 (LTC) without its constant.

    Eq. 9 has the extra factor of the appendix (S119), `sigma_w + |z| / min(dt, L)`. Where sigma_b exceeds sigma_w,
    Eq. 8 gives no bound; the result is 0.

    :param layer: the layer d, from 1
    :param depth: L, solver steps for a sample of the input
    :param norm: the norm of the latent state, |z|
    :param step: the time between two samples of the input
    """
    power = layer * depth
    found: float = max(base(weight_variance, bias_variance, width, leaky=kind == "ct_rnn"), 0.0) ** power * CIRCLE
    return found * (math.sqrt(weight_variance) + norm / min(step, depth)) if kind == "ltc" else found
