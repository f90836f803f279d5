"""A half-cheetah that MuJoCo draws, if it can."""

import os
import subprocess
import sys

import numpy as np
import pytest

from helpers.recordings import ONE, make_recording
from helpers.videos import SIZE, half_cheetah, read_video
from ncp_control.activity.video import write_video
from ncp_control.activity.video.frame import body_box, pixels


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


def test_no_body_and_no_cheetah_is_refused_where_it_was_asked_for(tmp_path):
    activity = make_recording(ONE)
    with pytest.raises(ValueError, match="no body was recorded"):
        write_video(activity, tmp_path / "video.mp4", renderer="capsules", **SIZE)
    with pytest.raises(ValueError, match="MuJoCo draws only a half-cheetah"):
        write_video(activity, tmp_path / "video.mp4", renderer="mujoco", **SIZE)


def test_mujoco_that_was_asked_for_is_never_replaced(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    with pytest.raises(ValueError, match=r'cannot draw here with MUJOCO_GL=disabled.*set the renderer to "capsules"'):
        write_video(half_cheetah(), tmp_path / "video.mp4", renderer="mujoco", **SIZE)
    assert list(tmp_path.iterdir()) == []
