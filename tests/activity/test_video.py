"""Videos of recorded rollouts, read back frame by frame."""

import os
import subprocess
import sys
from pathlib import Path

import imageio_ffmpeg as ffmpeg
import numpy as np
import pytest

from helpers.recordings import ONE, WORM, make_activity
from ncp_control.activity.figures.draw import activity_colours, limits
from ncp_control.activity.video import write as video
from ncp_control.activity.video.write import Scene, camera_path, capsule_outlines, tick_distance, write_video
from ncp_control.wiring import AutoNCP, FullyConnected, Wiring

SIZE = {"width": 480, "height": 270, "progress": False}
# Its names stand beside the neurons, so that the middle of a neuron has the neuron's colour.
NAMED = Wiring.from_edges(
    ["touch"], inter=["the left one", "the right one"], motor=["the muscle"], sensory=[(0, 0), (0, 1)],
    synapses=[(0, 2), (1, 2, -1)],
)  # fmt: skip


def with_body(tmp_path: Path, wiring=WORM, steps: int = 12, starts=(0,), **changed):
    """A recording of a body of two capsules that moves to the right."""
    x = 0.5 * np.arange(steps)[:, None, None]
    ends = np.zeros((steps, 2, 2, 2)) + np.array([[[-0.4, 0.5], [0.4, 0.5]], [[0.3, 0.5], [0.3, 0.1]]])
    ends[..., 0] += x
    return make_activity(
        tmp_path, wiring, steps, starts=starts, body_ends=ends, body_radii=np.array([0.1, 0.05]), **changed
    )


def half_cheetah(tmp_path: Path, steps: int = 4):
    seen = np.zeros((steps, 17))
    seen[:, 8] = 2.0
    return with_body(tmp_path, steps=steps, seen=seen, about={"env": "HalfCheetah-v5", "dt": 0.05})


def read(path: Path) -> tuple[dict, np.ndarray]:
    """What the file says of itself, and its frames, (n, height, width, 3)."""
    frames = ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


def node_pixels(scene: Scene) -> np.ndarray:
    """(2, N): rows and columns of the middles of all neurons."""
    axes = next(axes for axes in scene.figure.axes if any(one.get_gid() == "neurons" for one in axes.collections))
    discs = next(one for one in axes.collections if one.get_gid() == "neurons")
    middles = [(path.vertices.min(0) + path.vertices.max(0)) / 2 for path in discs.get_paths()]
    columns, rows = axes.transData.transform(middles).T
    return np.stack([scene.figure.bbox.height - rows, columns]).astype(int)


@pytest.mark.parametrize(("suffix", "tolerance"), [(".mp4", 20), (".gif", 25)])
def test_a_video_has_every_step_and_the_colours_of_its_neurons(tmp_path, suffix, tolerance):
    activity = with_body(tmp_path, NAMED)
    path = tmp_path / f"video{suffix}"
    path.write_text("an older one")
    sentence = write_video(activity, path, start=2, steps=8, **SIZE)
    assert sentence.startswith("8 frames, 10 a second; the body is drawn from its capsules")
    about, frames = read(path)
    assert frames.shape == (8, 270, 480, 3)
    assert about["fps"] == pytest.approx(10)
    assert about["duration"] == pytest.approx(0.8, abs=0.02)
    rows, columns = node_pixels(Scene(activity, 2, 10, 480, 270, None, True))
    for step in (2, 5, 9):
        expected = 255 * activity_colours(activity.neurons[step], limits(activity).state)[:, :3]
        np.testing.assert_allclose(frames[step - 2, rows, columns], expected, atol=tolerance)
    assert sorted(tmp_path.iterdir()) == sorted([path, tmp_path / "activity.npz"])


@pytest.mark.parametrize("wiring", [ONE, FullyConnected(9, 2).build(3), AutoNCP(20, 4).build(4)])
def test_any_circuit_without_a_body(tmp_path, wiring):
    unbounded = np.tile([[-np.inf], [np.inf]], wiring.units)
    activity = make_activity(tmp_path, wiring, 3, about={"dt": None}, state_bounds=unbounded)
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "no body is drawn" in sentence
    about, frames = read(tmp_path / "video.mp4")
    assert (len(frames), about["fps"]) == (3, 20)


def test_frames_change_with_the_body_and_the_cursor(tmp_path):
    scene = Scene(with_body(tmp_path, steps=300, starts=(0, 150)), 0, 300, 640, 360, None, True)
    first = scene.frame(0).copy()
    assert first.shape == (360, 640, 4)
    assert (first != scene.frame(1)).any()
    assert (first == scene.frame(0)).all()
    # Far on is another page of the raster; turning back gives the first again.
    assert (first != scene.frame(299)).any()
    assert scene.page == range(180, 300)
    assert (first == scene.frame(0)).all()


def test_the_camera_follows_and_starts_anew_with_an_episode(tmp_path):
    activity = with_body(tmp_path, steps=60, starts=(0, 30))
    x = np.concatenate([np.arange(30.0), np.arange(30.0)])
    path = camera_path(activity, x)
    assert np.abs(path - x)[[15, 45]].max() < 1e-9
    assert path[29] > 20
    assert path[30] < 10


def test_capsules_are_as_long_and_as_thick_as_they_were():
    found = capsule_outlines(np.array([[[0.0, 1.0], [2.0, 1.0]]]), np.array([0.5]))[0]
    np.testing.assert_allclose([found.min(0), found.max(0)], [[-0.5, 0.5], [2.5, 1.5]], atol=1e-12)


@pytest.mark.parametrize(("about", "distance"), [(0.9, 0.5), (1.0, 1), (1.9, 1), (4.0, 2), (70, 50)])
def test_ticks_are_round_numbers_apart(about, distance):
    assert tick_distance(about) == pytest.approx(distance)


def test_without_opengl_capsules_are_drawn_and_it_is_said(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MUJOCO_GL", "disabled")
    activity = half_cheetah(tmp_path)
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "drawn from its capsules: MuJoCo cannot draw here with MUJOCO_GL=disabled" in sentence
    assert len(read(tmp_path / "video.mp4")[1]) == 4


def test_mujoco_that_was_asked_for_is_never_replaced(tmp_path, monkeypatch):
    def fails(*_):
        raise video.RendererError("MuJoCo cannot draw here")

    monkeypatch.setattr(video, "mujoco_frames", fails)
    activity = half_cheetah(tmp_path)
    with pytest.raises(ValueError, match='cannot draw here; set the renderer to "capsules"'):
        write_video(activity, tmp_path / "other.mp4", renderer="mujoco", **SIZE)
    assert not (tmp_path / "other.mp4").exists()


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
    activity = half_cheetah(tmp_path)
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "the body is drawn by MuJoCo (MUJOCO_GL=egl)" in sentence
    _, rendered = read(tmp_path / "video.mp4")
    write_video(activity, tmp_path / "capsules.mp4", renderer="capsules", **SIZE)
    _, capsules = read(tmp_path / "capsules.mp4")
    width, height = video.pixels(video.body_box(480, 270), 270)
    # The floor is checkered, and all but the body's panel is as it was.
    panel = rendered[:, 60 : 20 + height, 20:width]
    assert panel.std() > 30
    difference = np.abs(rendered.astype(int) - capsules)
    assert difference[:, 130:].mean() < 3 < difference[:, 60 : 20 + height, 20:width].mean()


def test_no_body_and_no_cheetah_is_refused_where_it_was_asked_for(tmp_path):
    activity = make_activity(tmp_path, ONE)
    with pytest.raises(ValueError, match="no body was recorded"):
        write_video(activity, tmp_path / "video.mp4", renderer="capsules", **SIZE)
    with pytest.raises(ValueError, match="MuJoCo draws a half-cheetah"):
        write_video(activity, tmp_path / "video.mp4", renderer="mujoco", **SIZE)


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("video.avi", {}, "a video is a .mp4 or .gif file"),
        ("video.mp4", {"start": 12}, "step 12 was not recorded"),
        ("video.mp4", {"start": -1}, "step -1 was not recorded"),
        ("video.mp4", {"steps": 0}, "at least 1 step"),
        ("video.mp4", {"fps": 0.0}, "fps must be above 0"),
        ("video.mp4", {"width": 481}, "the width must be an even number"),
        ("video.mp4", {"height": 20}, "the height must be an even number of at least"),
        ("video.mp4", {"renderer": "opengl"}, "the renderer is auto, mujoco or capsules"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, name, changed, message):
    with pytest.raises(ValueError, match=message):
        write_video(with_body(tmp_path), tmp_path / name, **{**SIZE, **changed})
    assert [path.name for path in tmp_path.iterdir()] == ["activity.npz"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_video(with_body(tmp_path), tmp_path / "missing" / "video.mp4", **SIZE)


def test_without_ffmpeg_the_message_says_what_to_install(tmp_path, monkeypatch):
    def missing():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(ValueError, match="imageio-ffmpeg, or name one in"):
        write_video(with_body(tmp_path), tmp_path / "video.mp4", **SIZE)


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_ctrl_c_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"video{suffix}"
    path.write_text("an older one")
    draw = Scene.frame

    def interrupted(scene, step):
        if step == 5:
            raise KeyboardInterrupt
        return draw(scene, step)

    monkeypatch.setattr(Scene, "frame", interrupted)
    activity = with_body(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        write_video(activity, path, **SIZE)
    assert path.read_text() == "an older one"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["activity.npz", path.name]


def test_states_that_are_no_numbers_are_drawn_grey(tmp_path):
    states = np.zeros((3, 3))
    states[1] = np.nan
    scene = Scene(make_activity(tmp_path, NAMED, 3, neurons=states), 0, 3, 480, 270, None, False)
    rows, columns = node_pixels(scene)
    np.testing.assert_allclose(scene.frame(1)[rows, columns, :3], 153, atol=2)
