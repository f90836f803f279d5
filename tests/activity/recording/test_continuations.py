"""What a recorded model predicts open loop, beside what really happened."""

from pathlib import Path

import numpy as np
import pytest
import torch

gym = pytest.importorskip("gymnasium")

from helpers.oscillators import oscillators  # noqa: E402
from helpers.recordings import WORM, make_recording, write_recording  # noqa: E402
from ncp_control import AutoNCP  # noqa: E402
from ncp_control.activity import Activity, ActivityError, record_model  # noqa: E402
from ncp_control.activity.continued import Continued, continued_of  # noqa: E402
from ncp_control.data import Rollout, Rollouts  # noqa: E402
from ncp_control.dynamics import DynamicsModel  # noqa: E402
from ncp_control.dynamics.open_loop import open_loop  # noqa: E402
from ncp_envs import observation_names  # noqa: E402


def model_of(rollouts: Rollouts, cell: str = "ltc") -> DynamicsModel:
    torch.manual_seed(0)
    wiring = AutoNCP(12, 4, seed=1) if cell == "ltc" else 6
    return DynamicsModel.of(rollouts, cell, wiring, reads="observations+actions")


def predicted(model: DynamicsModel, rollout: Rollout, start: int, horizon: int) -> np.ndarray:
    """Returns what a model predicts from a step on, (H, n), after it has read all observations before it."""
    stop = start + horizon
    assert rollout.actions is not None
    parts = [rollout.observations[:start], rollout.actions[: stop - 1]]
    if rollout.elapsed is not None:
        parts.append(rollout.elapsed[1:stop])
    history, *rest = (torch.as_tensor(part, dtype=torch.float32)[None] for part in parts)
    return model.predict(history, horizon, *rest)[0].numpy()


@pytest.mark.parametrize("cell", ["ltc", "mlp"])
def test_a_continuation_is_what_the_model_predicts(cell: str, tmp_path: Path) -> None:
    rollouts = oscillators(actions=True, elapsed=cell == "ltc")
    model, first = model_of(rollouts, cell), rollouts[0]
    record_model(model, first, tmp_path / "run.npz", ahead=25)
    activity = Activity.load(tmp_path / "run.npz")
    found = continued_of(activity)
    assert found is not None
    assert found.starts.tolist() == [10, 20, 30, 40, 50, 60, 70]
    assert found.ends is None
    spread = first.observations.std(0)
    for start, values, errors in zip(found.starts, found.values, found.errors, strict=True):
        known = min(25, activity.steps - start)
        np.testing.assert_allclose(values[:known], predicted(model, first, start, known), rtol=1e-4, atol=1e-4)
        real = first.observations[start : start + known]
        wanted = np.mean(((values[:known] - real) / spread) ** 2, axis=1)
        np.testing.assert_allclose(errors[:known], wanted, rtol=1e-4)
        assert np.isnan(values[known:]).all()
        assert np.isnan(errors[known:]).all()
    np.testing.assert_array_equal(activity.real_observations, activity.observations)


def test_its_errors_are_those_of_evaluate(tmp_path: Path) -> None:
    rollouts = oscillators(actions=True)
    model = model_of(rollouts)
    found = continued_of(record_model(model, rollouts[0], tmp_path / "run.npz", ahead=20))
    assert found is not None
    wanted = open_loop(model, rollouts[:1], horizon=20, warm_up=10, every=10**9)
    np.testing.assert_allclose(found.errors[0], wanted.errors[0], rtol=1e-4)


def test_a_model_that_stops_looking_has_one_continuation_to_the_end(tmp_path: Path) -> None:
    rollouts = oscillators(actions=True)
    model, first = model_of(rollouts), rollouts[0]
    activity = record_model(model, first, tmp_path / "run.npz", warm_up=15, steps=60)
    found = continued_of(activity)
    assert found is not None
    assert found.starts.tolist() == [15]
    np.testing.assert_allclose(found.values[0], predicted(model, first, 15, 45), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.values[0], activity.observations[15:], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(activity.real_observations, first.observations[:60], rtol=1e-6)


@pytest.mark.parametrize(("looks", "steps"), [(None, 1), (None, 10), (0, 1), (20, 10)])
def test_where_nothing_follows_there_is_no_continuation(looks: int | None, steps: int, tmp_path: Path) -> None:
    rollouts = oscillators(actions=True)
    activity = record_model(model_of(rollouts), rollouts[0], tmp_path / "run.npz", warm_up=looks, steps=steps)
    assert continued_of(activity) is None


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "ncp_envs:ncp/HalfCheetahNoVel-v0"])
def test_the_predicted_half_cheetah_runs_as_fast_as_predicted(task: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    from ncp_envs.body import half_cheetah_capsules

    names = tuple(observation_names(gym.make(task)))
    random = np.random.default_rng(0)
    some = [Rollout(random.normal(size=(15, len(names))), actions=random.uniform(-1, 1, (14, 6))) for _ in range(3)]
    rollouts = Rollouts(tuple(some), observation_names=names)
    activity = record_model(model_of(rollouts, "gru"), rollouts[0], tmp_path / "run.npz", warm_up=4)
    found = continued_of(activity)
    assert found is not None
    assert found.ends is not None
    # The body of a run that is real until step 3, and predicted from step 4 on.
    whole = half_cheetah_capsules(np.concatenate([activity.real_observations[:4], found.values[0]]))
    np.testing.assert_allclose(found.ends[0], whole.ends[4:], atol=1e-4)
    np.testing.assert_allclose(
        activity.get("body_ends"), half_cheetah_capsules(activity.real_observations).ends, atol=1e-5
    )


def test_they_part_at_the_first_step_whose_error_is_above_a_half() -> None:
    errors = np.array([[0.1, 0.6, 0.2, 0.9], [0.1, 0.5, 0.2, np.nan], [np.inf, 0.0, 0.0, np.nan]])
    found = Continued(np.array([10, 40, 50]), np.zeros((3, 4, 1)), errors, None)
    assert found.parted == [11, None, 50]
    assert found.together.tolist() == [1, 3, 0]
    assert [found.first_shown(first) for first in (0, 41, 60)] == [1, 2, 2]


def test_the_longest_prediction_that_can_be_seen_is_shown_first() -> None:
    starts, together = np.array([0, 40, 50, 60, 70]), [20, 2, 5, 9, 9]
    errors = np.array([[0.1] * steps + [0.9] * (20 - steps) for steps in together])
    found = Continued(starts, np.zeros((5, 20, 1)), errors, None)
    assert found.together.tolist() == together
    assert found.first_shown() == 3, "before the first one the model has seen nothing"
    assert found.first_shown(65) == 4
    assert found.first_shown(0, 63) == 2, "of the longer one only 3 steps would be seen"


def test_files_without_continuations_are_read_as_before(tmp_path: Path) -> None:
    activity = Activity.load(write_recording(make_recording(WORM), tmp_path / "old.npz"))
    assert continued_of(activity) is None
    np.testing.assert_array_equal(activity.real_observations, activity.observations)


@pytest.mark.parametrize(
    ("name", "values"),
    [("continuation_starts", [1, 2]), ("continuation_starts", [0.5]), ("continuation_starts", [40]),
     ("continuation_errors", [1.0]), ("continuations", np.zeros((1, 3, 7))),
     ("continuation_ends", np.zeros((1, 2, 4, 2, 2)))],
)  # fmt: skip
def test_continuations_that_do_not_fit_are_refused(name: str, values: object, tmp_path: Path) -> None:
    arrays = {"continuation_starts": [5], "continuations": np.zeros((1, 3, WORM.inputs)),
              "continuation_errors": np.zeros((1, 3)), "continuation_ends": np.zeros((1, 3, 4, 2, 2))}  # fmt: skip
    Activity.load(write_recording(make_recording(WORM, body=True, **arrays), tmp_path / "right.npz"))
    wrong = make_recording(WORM, body=True, **arrays | {name: values})
    with pytest.raises(ActivityError, match="the file was altered"):
        Activity.load(write_recording(wrong, tmp_path / "wrong.npz"))
