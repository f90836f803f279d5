"""The file of a recorded rollout, and what it says about itself."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.recordings import WORM, make_recording, with_unknown_currents, write_recording
from ncp_control import LTC, RNN, AutoNCP
from ncp_control.activity import Activity, ActivityError, record_network
from ncp_control.wiring import Wiring

PLAN = AutoNCP(12, 4, seed=1)


@pytest.mark.parametrize("damage", ["text", "cut", "foreign", "shape", "missing", "pickle", "version"])
def test_files_that_are_not_recordings_are_refused(damage: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = tmp_path / "run.npz"
    record_network(RNN(LTC(3, PLAN)), torch.randn(9, 3), path)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    if damage == "text":
        path.write_text("not a recording")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    else:
        if damage == "foreign":
            arrays = {"x": np.zeros(3)}
        elif damage == "shape":
            arrays["neurons"] = arrays["neurons"][:, :-1]
        elif damage == "missing":
            del arrays["currents"]
        elif damage == "pickle":
            arrays["about"] = np.array([{"format": "x"}], dtype=object)
        else:
            arrays["about"] = np.array(str(arrays["about"]).replace('"version": 1', '"version": 7'))
        np.savez(path, **arrays)
    with pytest.raises(ActivityError, match=r"run\.npz"):
        Activity.load(path)
    with pytest.raises(FileNotFoundError, match="no recorded rollout"):
        Activity.load(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    ("name", "wrong", "shape"),
    [
        ("body_places", np.zeros((5, 3, 7)), r"\(5, 2, 7\), not \(5, 3, 7\)"),
        ("body_places", np.zeros((5, 2, 6)), r"\(5, 2, 7\), not \(5, 2, 6\)"),
        ("body_places", np.zeros((4, 2, 7)), r"\(5, 2, 7\), not \(4, 2, 7\)"),
        ("body_shapes", np.zeros((2, 7)), r"\(2, 8\), not \(2, 7\)"),
    ],
)
def test_a_body_whose_arrays_do_not_fit_together_is_refused(
    name: str, wrong: np.ndarray, shape: str, tmp_path: Path
) -> None:
    activity = make_recording(WORM, 5, body_places=np.zeros((5, 2, 7)), body_shapes=np.zeros((2, 8)))
    whole = Activity.load(write_recording(activity, tmp_path / "run.npz"))
    assert whole.extras["body_places"].shape == (5, 2, 7)
    with np.load(tmp_path / "run.npz") as file:
        arrays = {key: file[key] for key in file.files}
    np.savez(tmp_path / "run.npz", **{**arrays, name: wrong})
    with pytest.raises(ActivityError, match=f"{name} should have shape {shape}"):
        Activity.load(tmp_path / "run.npz")


def test_currents_are_known_unless_all_of_a_kind_are_nan() -> None:
    activity = make_recording(WORM)
    assert activity.currents_are_known
    activity.currents[3:] = np.nan  # such as after an overflow
    assert activity.currents_are_known
    activity.gap_currents[:] = np.nan
    assert not activity.currents_are_known
    assert not with_unknown_currents(make_recording(WORM)).currents_are_known
    unconnected = Wiring.from_edges(1, motor=1, sensory=[(0, 0)])  # has no gap junctions, so none that are unknown
    assert make_recording(unconnected).currents_are_known


def test_time_constants_are_known_unless_all_are_nan() -> None:
    activity = make_recording(WORM)
    activity.time_constants[:, 1:] = np.nan
    assert activity.time_constants_are_known
    assert activity.known_time_constants.tolist() == [k == 0 for k in range(WORM.units)]
    activity.time_constants[:] = np.nan
    assert not activity.time_constants_are_known
    activity.time_constants[:] = np.inf
    assert activity.time_constants_are_known


def test_episodes_are_the_steps_between_starts() -> None:
    activity = make_recording(WORM, 10, starts=(0, 4, 7))
    assert activity.episodes == [slice(0, 4), slice(4, 7), slice(7, 10)]
    assert make_recording(WORM, 10, starts=()).episodes == [slice(0, 10)]


@pytest.mark.parametrize(("dt", "seconds"), [(0.05, 0.05), (2, 2.0), (None, None), (0, None), ("fast", None)])
def test_the_length_of_a_step_is_a_number_or_not_known(dt: object, seconds: float | None) -> None:
    assert make_recording(WORM, 3, about={"dt": dt}).seconds_per_step == seconds
