"""What MuJoCo draws is where the body was, also of files of earlier versions."""

from pathlib import Path

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from helpers.pendulum_agents import pendulum_agent  # noqa: E402
from helpers.recordings import ONE, make_recording  # noqa: E402
from ncp_control.activity import Activity, record  # noqa: E402
from ncp_control.activity.video.geometry import geometry, has_geometry  # noqa: E402
from ncp_control.activity.video.rendered import scene_of  # noqa: E402


def recorded(task: str, folder: Path) -> Activity:
    env = gym.make(f"ncp_envs:{task}")
    return record(pendulum_agent(env=env), env, folder / "run.npz", 30, progress=False)


def as_earlier(activity: Activity) -> Activity:
    """Makes a recording one that an earlier version wrote: with capsules, and without geometry in space."""
    activity.about.pop("body")
    for name in ("body_places", "body_shapes"):
        activity.extras.pop(name)
    return activity


@pytest.mark.parametrize("task", ["ncp/HalfCheetahNoVel-v0", "HalfCheetah-v5"])
def test_a_half_cheetah_of_an_earlier_version_is_where_it_was(task: str, tmp_path: Path) -> None:
    activity = recorded(task, tmp_path)
    wanted = geometry(activity)
    earlier = as_earlier(Activity.load(tmp_path / "run.npz"))
    assert has_geometry(earlier)
    found = geometry(earlier)
    np.testing.assert_allclose(found.shapes, wanted.shapes, atol=1e-6)
    if task == "HalfCheetah-v5":  # where it is follows from its speed, from 0 on
        found.places[..., 0] += wanted.places[:, :1, 0] - found.places[:, :1, 0]
    np.testing.assert_allclose(found.places, wanted.places, atol=1e-5)
    assert (found.is_flat, found.flat.ground, found.flat.above) == (True, 0.0, False)
    if task != "HalfCheetah-v5":
        np.testing.assert_allclose(found.flat.ends, wanted.flat.ends, atol=1e-5)


def test_velocities_alone_are_no_pose_in_a_file_of_an_earlier_version(tmp_path: Path) -> None:
    activity = recorded("ncp/HalfCheetahNoPos-v0", tmp_path)
    assert has_geometry(activity)
    assert not has_geometry(as_earlier(activity))


def test_a_body_that_is_no_half_cheetah_has_geometry_only_if_it_was_recorded(tmp_path: Path) -> None:
    activity = recorded("ncp/Walker2dNoVel-v0", tmp_path)
    assert has_geometry(activity)
    assert not has_geometry(as_earlier(activity))
    assert not has_geometry(make_recording(ONE))


@pytest.mark.parametrize(
    ("task", "elevation"), [("ncp/HopperNoVel-v0", -6), ("ncp/AntNoVel-v0", -25), ("ncp/SwimmerNoVel-v0", -90)]
)
def test_the_camera_looks_at_the_body(task: str, elevation: float, tmp_path: Path) -> None:
    body = geometry(activity := recorded(task, tmp_path))
    scene = scene_of(activity, body, (320, 160))
    assert scene["elevation"] == elevation
    away = np.abs(scene["look"] - body.places[:, :, :3].mean(axis=1)).max()
    assert away < 0.5 * scene["tall"]
    reach = np.abs(body.places[:, :, :3] - scene["look"][:, None]).max(axis=(0, 1))
    assert 2 * reach[0] < 2 * scene["tall"]


def test_geometry_that_nobody_could_draw_is_cut_to_what_one_can(tmp_path: Path) -> None:
    activity = recorded("ncp/HopperNoVel-v0", tmp_path)
    shapes, places = activity.extras["body_shapes"], activity.extras["body_places"]
    shapes[0, 0], shapes[1, 1], shapes[2, 2], shapes[3, 4] = 99, np.inf, -1, np.nan
    places[3, 1], places[4, 2] = np.nan, 1e30
    found = geometry(activity)
    assert len(found.shapes) == 3
    assert found.shapes[:, 1:4].min() > 0
    for values in (found.shapes, found.places):
        assert np.isfinite(values).all()
        assert np.abs(values).max() <= 1e6
    shapes[:, 0] = 99
    assert not has_geometry(activity)
