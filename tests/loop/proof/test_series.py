"""Taylor series of intervals contain what they are series of."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from ncp_control.base.intervals import Interval, point
from ncp_control.loop.proof.series import Maths, PowerSeries, bends_of, sine_of, slopes_of, solution, variables
from ncp_envs.equations import BODIES


def test_coefficients_are_those_of_known_series() -> None:
    # y' = y and y' = 1 / y, from 1: the exponential, and the root of 1 + 2 t
    start = variables(point(np.ones((1, 2))))
    found = solution(
        lambda state, _, maths: (state[0], 1.0 * state[1] * 0 + state[0] / state[0] / state[1]), start, [], 4
    )
    for power, both in enumerate(zip([1, 1, 1 / 2, 1 / 6, 1 / 24], [1, 1, -1 / 2, 1 / 2, -5 / 8], strict=True)):
        for number, value in zip(found[power], both, strict=True):
            assert number.low[0, 0] <= value <= number.high[0, 0]
            assert number.width[0, 0] < 1e-9


@pytest.mark.parametrize("turned", [(0.0, np.sin), (np.pi / 2, np.cos)])
def test_a_sine_has_its_range(turned: tuple[float, Callable[[np.ndarray], np.ndarray]]) -> None:
    ahead, function = turned
    random = np.random.default_rng(0)
    low = random.uniform(-20, 20, 500)
    high = low + random.exponential(1.0, 500)
    found = sine_of(Interval(low, high), ahead)
    inside = function(np.linspace(low, high, 400))
    assert (found.low <= inside.min(axis=0)).all()
    assert (inside.max(axis=0) <= found.high).all()
    assert (inside.min(axis=0) - found.low).max() < 1e-3
    assert (found.high - inside.max(axis=0)).max() < 1e-3


@pytest.mark.parametrize("name", BODIES)
def test_coefficients_over_a_box_contain_those_at_points_and_their_slopes(name: str) -> None:
    body, random = BODIES[name], np.random.default_rng(2)
    low = np.array([*body.low, *[-1.0] * body.actions])
    high = np.array([*body.high, *[1.0] * body.actions])
    m = len(body.names)
    every = variables(Interval(low[None], high[None]))
    whole = solution(body.slope, every[:m], every[m:], 4)
    for _ in range(20):
        at = random.uniform(low, high)
        numbers = variables(point(at[None]))
        own = solution(body.slope, numbers[:m], numbers[m:], 4)
        for wide, narrow in zip(whole, own, strict=True):
            for one, other in zip(wide, narrow, strict=True):
                assert (one.low <= other.low + 1e-9).all()
                assert (other.high <= one.high + 1e-9).all()
        h = 0.002
        precise = solve_ivp(
            lambda _, state, held=at[m:]: body.slope(tuple(state), tuple(held), np), (0, h), at[:m],
            method="DOP853", rtol=1e-13, atol=1e-14,
        )  # fmt: skip
        summed = [sum(h**k * power[number].middle[0, 0] for k, power in enumerate(own)) for number in range(m)]
        np.testing.assert_allclose(summed, precise.y[:, -1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", BODIES)
def test_second_derivatives_are_those_of_the_first(name: str) -> None:
    body, random = BODIES[name], np.random.default_rng(4)
    m, count, small = len(body.names), len(body.names) + body.actions, 1e-6

    def powers(at: np.ndarray) -> list[list[Interval]]:
        numbers = variables(point(at[None]))
        return solution(body.slope, numbers[:m], numbers[m:], 4)

    at = random.uniform(-1, 1, count)
    here = powers(at)
    for k, unit in enumerate(small * np.eye(count)):
        for own, ahead, behind in zip(here, powers(at + unit), powers(at - unit), strict=True):
            for i in range(m):
                rising = (slopes_of(ahead[i]).middle - slopes_of(behind[i]).middle) / (2 * small)
                np.testing.assert_allclose(bends_of(own[i]).middle[:, k], rising, rtol=1e-5, atol=1e-6)


def test_a_number_can_stand_before_and_behind_every_sign() -> None:
    (x,) = variables(point(np.array([[2.0]])))
    series = PowerSeries(lambda _: x)
    one = 0 * series + 1
    for found, value, slope, bend in [
        (1 + series, 3, 1, 0), (1 - series, -1, -1, 0), (3 * series, 6, 3, 0), (series / 4, 0.5, 0.25, 0),
        (series - 1, 1, 1, 0), (series * series, 4, 4, 2), (one / series, 0.5, -0.25, 0.25), (-series, -2, -1, 0),
        (Maths.sin(series), np.sin(2), np.cos(2), -np.sin(2)), (Maths.cos(series), np.cos(2), -np.sin(2), -np.cos(2)),
    ]:  # fmt: skip
        np.testing.assert_allclose(found[0].middle, [[value, slope, bend]], rtol=0, atol=1e-11)
