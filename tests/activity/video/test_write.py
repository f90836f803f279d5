"""Videos of recorded rollouts, read back frame by frame."""

import imageio_ffmpeg as ffmpeg
import numpy as np
import pytest

from helpers.recordings import ONE, make_recording, with_continuations, with_unknown_currents
from helpers.videos import NAMED, SIZE, neuron_pixels, read_video, with_body
from ncp_control.activity.body import flat_body
from ncp_control.activity.figures.style import activity_colours, limits
from ncp_control.activity.video import write_video
from ncp_control.activity.video.scene import Scene
from ncp_control.wiring import AutoNCP, FullyConnected


@pytest.mark.system
@pytest.mark.parametrize(("suffix", "tolerance"), [(".mp4", 20), (".gif", 25)])
def test_a_video_has_every_step_and_the_colours_of_its_neurons(tmp_path, suffix, tolerance):
    activity = with_body(NAMED)
    path = tmp_path / f"video{suffix}"
    path.write_text("an older one")
    sentence = write_video(activity, path, start=2, steps=8, **SIZE)
    assert sentence.startswith("8 frames, 10 a second; the body is drawn from its capsules")
    about, frames = read_video(path)
    assert frames.shape == (8, 270, 480, 3)
    assert about["fps"] == pytest.approx(10)
    assert about["duration"] == pytest.approx(0.8, abs=0.02)
    rows, columns = neuron_pixels(Scene(activity, 2, 10, 480, 270, None, flat_body(activity)))
    for step in (2, 5, 9):
        expected = 255 * activity_colours(activity.neurons[step], limits(activity).state)[:, :3]
        np.testing.assert_allclose(frames[step - 2, rows, columns], expected, atol=tolerance)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("wiring", [ONE, FullyConnected(9, 2).build(3), AutoNCP(20, 4).build(4)])
def test_any_circuit_has_a_video_without_a_body(tmp_path, wiring):
    unbounded = np.tile([[-np.inf], [np.inf]], wiring.units)
    activity = make_recording(wiring, 3, about={"dt": None}, state_bounds=unbounded)
    sentence = write_video(activity, tmp_path / "video.mp4", **SIZE)
    assert "no body is drawn" in sentence
    about, frames = read_video(tmp_path / "video.mp4")
    assert (len(frames), about["fps"]) == (3, 20)


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
def test_arguments_of_which_no_video_can_be_made_are_refused(tmp_path, name, changed, message):
    with pytest.raises(ValueError, match=message):
        write_video(with_body(), tmp_path / name, **{**SIZE, **changed})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"):
        write_video(with_body(), tmp_path / "missing" / "video.mp4", **SIZE)


def test_without_ffmpeg_the_message_says_what_to_install(tmp_path, monkeypatch):
    def missing():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(ValueError, match="imageio-ffmpeg, or name one in"):
        write_video(with_body(), tmp_path / "video.mp4", **SIZE)


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
    activity = with_body()
    with pytest.raises(KeyboardInterrupt):
        write_video(activity, path, **SIZE)
    assert path.read_text() == "an older one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.system
def test_it_says_that_currents_are_not_known(tmp_path):
    sentence = write_video(with_unknown_currents(with_body(steps=3)), tmp_path / "video.mp4", **SIZE)
    assert sentence.endswith("no currents are drawn, because they are not known")
    assert len(read_video(tmp_path / "video.mp4")[1]) == 3
    assert "not known" not in write_video(with_body(steps=3), tmp_path / "video.mp4", **SIZE)


def test_the_sentence_says_from_which_step_on_a_model_predicts(tmp_path):
    activity = with_continuations(with_body(steps=80))
    sentence = write_video(activity, tmp_path / "video.mp4", start=50, steps=2, **SIZE)
    assert sentence.endswith("the predicted body is drawn over the real one, open loop from step 60 on")
    assert "from step 10 on" in write_video(activity, tmp_path / "video.mp4", steps=2, look=10, **SIZE)
    with pytest.raises(ValueError, match="no prediction was recorded from step 12 on: the nearest begins at step 10"):
        write_video(activity, tmp_path / "video.mp4", look=12, **SIZE)
    with pytest.raises(ValueError, match="this recording has no predictions ahead"):
        write_video(with_body(), tmp_path / "video.mp4", look=10, **SIZE)
