"""The planner finds what can be computed by hand."""

import numpy as np
import pytest

from ncp_control.dynamics import Planner, PlanSettings

LOW, HIGH = np.full(2, -1.0), np.full(2, 1.0)


def test_a_plan_for_a_known_body_comes_near_the_best_one() -> None:
    # x' = x + a / 10, reward -(x - 1)^2: full speed for ten steps, then no action at all
    planner, x = Planner(LOW[:1], HIGH[:1], PlanSettings(horizon=15, plans=200, best=20, iterations=5)), 0.0
    course = []
    for _ in range(20):

        def returns(plans: np.ndarray, x: float = x) -> np.ndarray:
            return -np.square(x + np.cumsum(plans[..., 0], axis=1) / 10 - 1).sum(axis=1)

        action = planner.act(returns)
        assert action.shape == (1,)
        x += float(action[0]) / 10
        course.append(x)
    best = np.minimum(np.arange(1, 21) / 10, 1.0)
    assert np.abs(np.array(course) - best).max() < 0.1


def test_the_same_seed_gives_the_same_actions_and_another_one_others() -> None:
    def actions(seed: int) -> np.ndarray:
        planner = Planner(LOW, HIGH, PlanSettings(horizon=4, plans=10, best=2, iterations=2), seed)
        return np.array([planner.act(lambda plans: plans.sum(axis=(1, 2))) for _ in range(3)])

    assert np.array_equal(actions(1), actions(1))
    assert not np.array_equal(actions(1), actions(2))
    assert (np.abs(actions(1)) <= 1).all()


def test_plans_that_end_in_no_number_are_never_kept() -> None:
    planner = Planner(LOW, HIGH, PlanSettings(horizon=3, plans=50, best=5, iterations=3))
    found = planner.act(lambda plans: np.where(plans[:, 0, 0] > 0, np.nan, plans[:, 0, 0]))
    assert -1 <= found[0] <= 0


@pytest.mark.parametrize("horizon", [1, 2, 9, 16])
@pytest.mark.parametrize("colour", [0.0, 1.0, 2.5])
def test_noise_has_the_colour_that_was_asked_for(horizon: int, colour: float) -> None:
    drawn = Planner(LOW, HIGH, PlanSettings(horizon=horizon, colour=colour)).noise(20000)
    assert drawn.shape == (20000, horizon, 2)
    assert drawn.var(axis=0) == pytest.approx(np.ones((horizon, 2)), abs=0.06)  # five standard deviations
    power = np.square(np.abs(np.fft.rfft(drawn, axis=1))).mean(axis=(0, 2))
    shares = power / power[0]  # frequency 0 counts as the lowest of the others
    assert shares[1:] == pytest.approx(np.arange(1, len(shares)) ** -colour, rel=0.06)


def test_a_search_counts_what_it_imagines_and_keeps_its_best_plan() -> None:
    planner, asked = Planner(LOW, HIGH, PlanSettings(horizon=3, plans=10, best=4, iterations=3)), []

    def returns(plans: np.ndarray) -> np.ndarray:
        asked.append(plans)
        return plans.sum(axis=(1, 2))

    first = planner.act(returns)
    tried = np.concatenate(asked)
    assert [len(plans) for plans in asked] == [10, 8, 6 + 1]
    assert np.array_equal(first, tried[tried.sum(axis=(1, 2)).argmax(), 0])
    best = tried[tried.sum(axis=(1, 2)).argmax()]
    planner.act(returns)
    assert [len(plans) for plans in asked[3:]] == [10 + 1, 8, 6 + 1]
    assert np.array_equal(asked[3][-1], best[[1, 2, 2]])  # shifted by a step
    assert planner.imagined == 3 * sum(map(len, asked))
    planner.reset()
    planner.act(returns)
    assert len(asked[6]) == 10


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"plans": 5, "best": 6}, "of 5 plans the best 6 cannot be kept"),
        ({"colour": -1.0}, "colour must not be negative"),
        ({"spread": 0.0}, "spread must be positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PlanSettings(**given)  # type: ignore[arg-type]
