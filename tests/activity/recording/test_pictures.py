"""An environment without a MuJoCo body is shown in a video as it draws itself, or the video says why it is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium.envs.classic_control.pendulum import PendulumEnv  # noqa: E402

from helpers.pendulum_agents import pendulum_agent  # noqa: E402
from helpers.videos import SIZE, read_video  # noqa: E402
from ncp_control.activity import Activity, record  # noqa: E402
from ncp_control.activity.recording.activity import ActivityError  # noqa: E402
from ncp_control.activity.recording.pictures import pictures_of  # noqa: E402
from ncp_control.activity.video import write_video  # noqa: E402
from ncp_control.cli.trained_in import make_drawing  # noqa: E402
from ncp_envs import RandomActionOverwrite  # noqa: E402

STEPS = 7


class Painted(PendulumEnv):  # type: ignore[misc]
    """A pendulum whose pictures have a colour that says the number of the step."""

    metadata: Any = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def reset(self, **options: Any) -> Any:
        self.count = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.count += 1
        return super().step(action)

    def render(self) -> Any:
        return np.full((500, 600, 3), (30 * self.count, 0, 200), np.uint8)


class Blind(Painted):
    """A pendulum that cannot be drawn."""

    metadata: Any = {"render_modes": []}  # noqa: RUF012


class Failing(Painted):
    """A pendulum that lacks what it draws with."""

    def render(self) -> Any:
        raise gym.error.DependencyNotInstalled("pygame is not installed, run `pip install pygame`")


class Fixed(Painted):
    """A pendulum that draws, and takes no render mode."""

    def __init__(self) -> None:
        super().__init__()


for kind in (Painted, Blind, Failing, Fixed):
    gym.register(f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=200)


def recorded(name: str, folder: Path) -> Activity:
    """Records an agent where commands would record it."""
    env = make_drawing(f"{name}-v0", {"env_wrapper": [{"RandomActionOverwrite": {"probability": 0.1}}]})
    assert isinstance(env, RandomActionOverwrite)
    return record(pendulum_agent(env=env), env, folder / "run.npz", STEPS, progress=False)


def test_a_video_shows_what_the_environment_draws(tmp_path: Path) -> None:
    activity = recorded("Painted", tmp_path)
    pictures = list(pictures_of(activity, 0, STEPS))
    assert pictures[0].shape == (250, 300, 3)  # every second row and column of 500 and 600
    assert [picture[0, 0].tolist() for picture in pictures] == [[30 * k, 0, 200] for k in range(STEPS)]
    assert "the pictures are those that the environment draws" in write_video(
        activity, tmp_path / "run.mp4", start=2, **SIZE
    )
    _, frames = read_video(tmp_path / "run.mp4")
    # near the middle of the box in which bodies are drawn
    np.testing.assert_allclose(frames[:, 65, 110], [[30 * k, 0, 200] for k in range(2, STEPS)], atol=20)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Blind", 'Blind-v0 has no render mode "rgb_array"'),
        ("Failing", "Failing-v0 cannot draw itself: pygame is not installed, run `pip install pygame`"),
        ("Fixed", 'Fixed-v0 was made without render_mode="rgb_array"'),
    ],
)
def test_a_recording_and_its_video_say_why_there_are_no_pictures(name: str, reason: str, tmp_path: Path) -> None:
    activity = recorded(name, tmp_path)
    assert activity.about["pictures"] == {"reason": reason}
    assert reason in write_video(activity, tmp_path / "run.mp4", **SIZE)


def test_pictures_that_were_altered_are_refused(tmp_path: Path) -> None:
    activity = recorded("Painted", tmp_path)
    activity.extras["pictures"][5:] = 0
    with pytest.raises(ActivityError, match="the picture of step 0 is damaged"):
        next(pictures_of(activity, 0, 1))
    activity.about["pictures"] = {"size": [1, 10**9]}
    with pytest.raises(ActivityError, match="have no size"):
        next(pictures_of(activity, 0, 1))
