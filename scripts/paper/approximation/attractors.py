"""Two autonomous systems for circuits to follow: one settles on a limit cycle, the other is chaotic.

Points are arrays (..., n); slopes have their shape, Jacobians (..., n, n).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MU = 1.0
SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3


@dataclass(frozen=True)
class System:
    """A system `dx/dt = slope(x)`, the starts of its rollouts, and a unit to count time in.

    :param name: its name in tables and pictures
    :param coordinates: the names of its coordinates
    :param slope: the right-hand side F
    :param jacobian: its derivative dF/dx
    :param box: the lowest and the highest coordinates of a start
    :param settling: the time before a rollout begins, so that it begins on the attractor; 0 begins in the box
    :param sample: the time between two samples
    :param horizon: samples of a rollout, the T of Theorem 3
    :param clock: the unit to count time in: a period, or a Lyapunov time
    :param clock_name: the name of the unit, in the plural
    """

    name: str
    coordinates: tuple[str, ...]
    slope: Callable[[Array], Array]
    jacobian: Callable[[Array], Array]
    box: tuple[tuple[float, ...], tuple[float, ...]]
    settling: float
    sample: float
    horizon: int
    clock: float
    clock_name: str


class Data(NamedTuple):
    """Rollouts of a system in standardised coordinates, (B, samples + 1, n).

    :param system: the system
    :param train: rollouts to fit, as long as the horizon
    :param valid: rollouts to validate with, as long
    :param test: rollouts to test with, several clocks long
    :param orbit: one rollout on the attractor, one clock long
    :param mean: means of the coordinates of the training rollouts, (n,)
    :param std: their standard deviations, (n,)
    """

    system: System
    train: Array
    valid: Array
    test: Array
    orbit: Array
    mean: Array
    std: Array

    def slopes(self) -> Array:
        """Returns the slope at every point of the training rollouts, in these coordinates and the system's time."""
        points = self.train.reshape(-1, len(self.mean))
        return self.system.slope(points * self.std + self.mean) / self.std


def rollouts(system: System, start: Array, samples: int, substeps: int = 10) -> Array:
    """Computes rollouts (..., samples + 1, n) from starts (..., n), by the classical Runge-Kutta method."""
    h, at, path = system.sample / substeps, start, [start]
    for _ in range(samples):
        for _ in range(substeps):
            k1 = system.slope(at)
            k2 = system.slope(at + h / 2 * k1)
            k3 = system.slope(at + h / 2 * k2)
            at = at + h / 6 * (k1 + 2 * k2 + 2 * k3 + system.slope(at + h * k3))
        path.append(at)
    return np.stack(path, axis=-2)


def draw_starts(system: System, rows: int, random: np.random.Generator) -> Array:
    """Draws points (rows, n) of the compact set in which rollouts begin."""
    low, high = system.box
    drawn = random.uniform(low, high, (rows, len(low)))
    return rollouts(system, drawn, math.ceil(system.settling / system.sample), substeps=5)[..., -1, :]


def make_data(system: System, train: int, held_out: int, clocks: int, random: np.random.Generator) -> Data:
    """Draws rollouts: `train` to fit, `held_out` to validate, and `held_out` more, `clocks` long, to test."""
    fitted = rollouts(system, draw_starts(system, train + held_out, random), system.horizon)
    clock = math.ceil(system.clock / system.sample)
    test = rollouts(system, draw_starts(system, held_out, random), clocks * clock)
    # After the test rollout and two clocks more it is on the attractor.
    orbit = rollouts(system, rollouts(system, test[:1, -1], 2 * clock)[:, -1], clock)
    mean, std = fitted[:train].mean(axis=(0, 1)), fitted[:train].std(axis=(0, 1))
    fitted, test, orbit = ((part - mean) / std for part in (fitted, test, orbit))
    return Data(system, fitted[:train], fitted[train:], test, orbit, mean, std)


def time_scales(system: System, points: Array) -> Array:
    """Returns `1 / |Re lambda|` of the Jacobian's eigenvalues at points (..., n), in rising order, (..., n)."""
    rates = np.abs(np.linalg.eigvals(system.jacobian(points)).real)
    with np.errstate(divide="ignore"):
        scales: Array = np.sort(1 / rates, axis=-1)
    return scales


def _matrix(rows: tuple[tuple[Array | float, ...], ...]) -> Array:
    """Builds matrices (..., n, n) from entries (...)."""
    entries = np.broadcast_arrays(*[np.asarray(entry, dtype=np.float64) for row in rows for entry in row])
    return np.stack(entries, axis=-1).reshape(*entries[0].shape, len(rows), len(rows))


def _van_der_pol(points: Array) -> Array:
    x, y = points[..., 0], points[..., 1]
    return np.stack([y, MU * (1 - x**2) * y - x], axis=-1)


def _van_der_pol_jacobian(points: Array) -> Array:
    x, y = points[..., 0], points[..., 1]
    return _matrix(((0.0, 1.0), (-2 * MU * x * y - 1, MU * (1 - x**2))))


def _lorenz(points: Array) -> Array:
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=-1)


def _lorenz_jacobian(points: Array) -> Array:
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    return _matrix(((-SIGMA, SIGMA, 0.0), (RHO - z, -1.0, -x), (y, x, -BETA)))


# Every start but the origin winds onto one limit cycle.
VAN_DER_POL = System(
    "van der Pol",
    ("x", "y"),
    _van_der_pol,
    _van_der_pol_jacobian,
    box=((-2.0, -2.0), (2.0, 2.0)),
    settling=0.0,
    sample=0.1,
    horizon=70,
    clock=6.6633,
    clock_name="periods",
)
# Chaotic: its largest Lyapunov exponent is 0.906.
LORENZ = System(
    "Lorenz",
    ("x", "y", "z"),
    _lorenz,
    _lorenz_jacobian,
    box=((-10.0, -10.0, 15.0), (10.0, 10.0, 35.0)),
    settling=5.0,
    sample=0.02,
    horizon=50,
    clock=1 / 0.906,
    clock_name="Lyapunov times",
)
