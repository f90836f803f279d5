"""Bodies that MuJoCo draws, if it can."""

import os
import subprocess
import sys

import numpy as np
import pytest

from helpers.pendulum_agents import pendulum_agent
from helpers.recordings import ONE, make_recording
from helpers.videos import SIZE, half_cheetah, read_video
from ncp_control.activity import record
from ncp_control.activity.video import write_video
from ncp_control.activity.video.frame import body_box, pixels
from ncp_control.activity.video.rendered import mujoco_pictures

pytestmark = pytest.mark.system


def test_without_opengl_capsules_are_drawn_and_the_sentence_says_so(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    activity = half_cheetah()
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "drawn from its capsules: MuJoCo cannot draw here with MUJOCO_GL=disabled" in sentence
    assert len(read_video(tmp_path / "video.mp4")[1]) == 4


def egl_works() -> bool:
    program = "import mujoco; mujoco.GLContext(8, 8).make_current()"
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    return not subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, timeout=60
    ).returncode


def test_mujoco_draws_where_egl_works(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    if not egl_works():
        pytest.skip("EGL does not work here")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    activity = half_cheetah()
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "the body is drawn by MuJoCo (MUJOCO_GL=egl)" in sentence
    _, rendered = read_video(tmp_path / "video.mp4")
    write_video(activity, tmp_path / "capsules.mp4", renderer="capsules", **SIZE)
    _, capsules = read_video(tmp_path / "capsules.mp4")
    width, height = pixels(body_box(480, 270), 270)
    # The floor is checkered, and all but the body's panel is as it was.
    panel = rendered[:, 60 : 20 + height, 20:width]
    assert panel.std() > 30
    difference = np.abs(rendered.astype(int) - capsules)
    assert difference[:, 130:].mean() < 3 < difference[:, 60 : 20 + height, 20:width].mean()


@pytest.mark.parametrize("task", ["Hopper", "Walker2d", "Swimmer", "Ant"])
def test_mujoco_draws_the_whole_body_of_an_agent_that_sees_positions_only(task, tmp_path, monkeypatch):
    gym = pytest.importorskip("gymnasium")
    pytest.importorskip("mujoco")
    if not egl_works():
        pytest.skip("EGL does not work here")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    env = gym.make(f"ncp_envs:ncp/{task}NoVel-v0")
    activity = record(pendulum_agent(env=env), env, tmp_path / "run.npz", 20, progress=False)
    with mujoco_pictures(activity, 0, 20, (200, 100)) as (next_picture, backend):
        assert backend == "egl"
        pictures = np.stack([next_picture() for _ in range(20)]).astype(int)
    # The limbs are the colour of sand, and the floor and the sky are grey.
    limbs = pictures[..., 0] - pictures[..., 2] > 30
    assert (limbs.mean(axis=(1, 2)) > 0.005).all()
    assert limbs.mean() < 0.5
    for edge in (limbs[:, 0], limbs[:, -1], limbs[:, :, 0], limbs[:, :, -1]):
        assert not edge.any()
    assert (limbs[0] != limbs[-1]).any()


def test_a_body_far_away_looks_as_it_did_at_home(monkeypatch):
    pytest.importorskip("mujoco")
    if not egl_works():
        pytest.skip("EGL does not work here")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    pictures = []
    for away in (0.0, 10_000.0):
        ends = np.tile([[away - 0.4, 0.5], [away + 0.4, 0.5]], (3, 1, 1, 1))
        places = np.tile([away, 0.0, 0.5, 0.5**0.5, 0.0, 0.5**0.5, 0.0], (3, 1, 1))
        activity = make_recording(
            ONE, 3, body_ends=ends, body_radii=[0.1], body_places=places,
            body_shapes=[[3, 0.1, 0.4, 0, 0.8, 0.6, 0.4, 1]],
            about={"body": {"seen_from": "side", "flat": True, "ground": 0.0}},
        )  # fmt: skip
        with mujoco_pictures(activity, 0, 3, (200, 100)) as (next_picture, _):
            pictures.append(next_picture().astype(int))
    assert pictures[0].std() > 20
    assert np.abs(pictures[0] - pictures[1]).mean() < 1


def test_no_body_and_no_cheetah_is_refused_where_it_was_asked_for(tmp_path):
    activity = make_recording(ONE)
    with pytest.raises(ValueError, match="no body was recorded"):
        write_video(activity, tmp_path / "video.mp4", renderer="capsules", **SIZE)
    with pytest.raises(ValueError, match="MuJoCo draws a body whose geometry was recorded"):
        write_video(activity, tmp_path / "video.mp4", renderer="mujoco", **SIZE)


def test_mujoco_that_was_asked_for_is_never_replaced(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    with pytest.raises(ValueError, match=r'cannot draw here with MUJOCO_GL=disabled.*set the renderer to "capsules"'):
        write_video(half_cheetah(), tmp_path / "video.mp4", renderer="mujoco", **SIZE)
    assert list(tmp_path.iterdir()) == []
