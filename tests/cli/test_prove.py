"""The command `prove`."""

import json
import re
from pathlib import Path

import pytest

from ncp_control.cli import main

UPRIGHT = Path(__file__).parents[1] / "golden" / "single-pendulum.safetensors"


def test_it_says_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", str(UPRIGHT), "--error", "0.002", "--attack", "2000", "--rests", "50"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "single-pendulum, which sees angle of single-pendulum every 0.05 s" in text
    assert "claim angle in [0, 1] from 0.5 to 1 s: shown" in text
    assert "for ever shown: after" in text
    assert re.search(r"attacked [\d,]+ bodies, [\d,]+ of them beyond the claims: none left", text)
    assert "from anywhere of 50 bodies, 100 % come to rest at angle 0.4192, speed 0 (a rest is proved within " in text


def test_a_page_shows_the_tube_and_the_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = [tmp_path / name for name in ("one.html", "same.html")]
    for page in pages:
        assert main(["prove", str(UPRIGHT), "--error", "0.002", "--html", str(page)]) == 0
    assert capsys.readouterr().out.endswith(f"page: {pages[1]}\n")
    text = pages[0].read_text(encoding="utf-8")
    assert "<h1>single-pendulum and single-pendulum</h1>" in text
    assert text.count('<img alt="Light blue: ') == 2
    taken = re.compile(r"shown, in [\d.]+ s")
    assert taken.sub("", text) == taken.sub("", pages[1].read_text(encoding="utf-8"))
    assert main(["prove", str(UPRIGHT), "--html", str(tmp_path / "none" / "page.html")]) == 2


def test_code_for_a_robot_carries_what_was_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor, robot = tmp_path / "proved.json", tmp_path / "robot"
    assert main(["prove", str(UPRIGHT), "--error", "0.002", "--monitor", str(monitor)]) == 0
    assert capsys.readouterr().out.endswith(f"monitor: {monitor}\n")
    words = ["--to", "c", "--out", str(robot), "--monitor", str(monitor), "--steps", "100"]
    assert main(["export", str(UPRIGHT), *words]) == 0
    assert "The monitor raises flags in 0 of these steps." in capsys.readouterr().out
    readme = " ".join((robot / "README.txt").read_text().split())
    assert "1 is one step of the training, which takes 0.05 s" in readme
    assert re.search(r"0 angle 0\.\d+ to 1\.18\d* ", readme)
    for text in (readme, (robot / "controller.h").read_text()):
        assert "What was proved" in text
        assert "starts: angle in [1, 1.175], speed in [0, 0.2]" in text
        assert "for ever: shown: after " in text
    monitor.unlink()
    assert main(["prove", str(UPRIGHT), "--error", "0.5", "--cells", "4", "--monitor", str(monitor)]) == 1
    assert capsys.readouterr().out.endswith("monitor: not written, for the claims are not shown\n")
    assert not monitor.exists()


def test_what_is_not_shown_has_its_cells_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", str(UPRIGHT), "--error", "0.5", "--cells", "8", "--json"]) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["shown"] is False
    assert found["error"] == 0.5
    assert main(["prove", str(UPRIGHT), "--error", "0.5", "--cells", "8"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "angle in [0, 1] from 0.5 to 1 s: not shown" in text
    assert "not shown, because angle speed angle may leave [0, 1] at " in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--body", "cat"],
            "there is no body 'cat': choose one of single-pendulum, double-pendulum, tora, balanced-cart, weak-",
        ),
        (["--attack", "-1"], "--attack counts bodies, so it is 0 or more, got -1"),
        (["--rests", "-1"], "--rests counts bodies, so it is 0 or more, got -1"),
        (["--error", "2"], "the error of a sensor is a share from 0 to 1, got 2.0"),
        (["--body", "tora"], "ncp/TORA-v0 shows 2 observations and takes 1 actions, and this agent reads 1 and has 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", str(UPRIGHT), *words]) == 2
    assert message in capsys.readouterr().err


def test_training_needs_a_body(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", str(tmp_path / "new.safetensors"), "--train"]) == 2
    assert "--train needs a body: add --body NAME, one of single-pendulum, " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
