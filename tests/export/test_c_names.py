"""Names that come from files stand in the C as comments and constants, and never as code."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ncp_control as nc
from helpers.c_programs import STRICT, BareController, Stepper, compiled, needs_compiler, written
from helpers.cells import build
from ncp_control.export import export_c
from ncp_control.export.c.header import comment, harmless, numbered_names
from ncp_control.export.c.write import texts_of
from ncp_control.rl import Controller

AGENT = Path(__file__).parents[2] / "checkpoints" / "halfcheetah-positions.safetensors"
HOSTILE = (
    "*/ int evil = 1; /*", "one\\\nint evil;", "trigraph??/\nint evil;", "\r\nint evil;", "#error", "/* nested",
    "// line \\", '"quote', "%s%n", "naïve ünïcode ‮", "\x00\x1b[31m", "@SENSORS@", "int", "9lives", "", "a" * 5000,
    "CONTROLLER_STATE", "x", "X", "good_name",
)  # fmt: skip


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    controller = BareController(build("ltc-solitary"))
    hostile = BareController(None, torch.nn.Linear(len(HOSTILE), len(HOSTILE)), sensors=len(HOSTILE))
    hostile.sensors, hostile.actions = HOSTILE, HOSTILE[::-1]
    assert len(controller.sensors) == 1
    return texts_of(hostile, HOSTILE[0] + HOSTILE[1] + HOSTILE[2], HOSTILE[3])


@needs_compiler
def test_hostile_names_do_not_become_code(texts: dict[str, str], tmp_path: Path) -> None:
    folder = written(texts, tmp_path)
    for standard in ("c99", "gnu99", "c17"):  # c99 and c17 replace trigraphs, gnu99 does not
        compiled(["gcc", *STRICT, f"-std={standard}", "-c", "controller.c"], folder)
    stripped = re.sub(r"/\*.*?\*/", "", texts["controller.h"] + texts["controller.c"], flags=re.DOTALL)
    for word in ("evil", "nested", "quote", "caf", "9lives"):
        assert word not in stripped
    assert Stepper(texts, tmp_path / "steps", double=True).step(torch.ones(len(HOSTILE)).numpy()) == 0


def test_every_file_is_plain_ascii_without_trigraphs(texts: dict[str, str]) -> None:
    for text in texts.values():
        assert text.isascii()
        assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {"\n"}
        assert "??" not in text


def test_names_that_c_can_have_are_constants_with_their_numbers(texts: dict[str, str]) -> None:
    last = len(HOSTILE) - 1
    for name, sensor, action in (("GOOD_NAME", last, 0), ("INT", 12, last - 12)):
        assert f"CONTROLLER_SENSOR_{name} = {sensor},\n" in texts["controller.h"]
        assert f"CONTROLLER_ACTION_{name} = {action},\n" in texts["controller.h"]
    assert "CONTROLLER_SENSOR_X" not in texts["controller.h"]  # x and X would be one constant


def test_choices_are_constants_with_the_numbers_of_their_choice() -> None:
    controller = BareController(None, torch.nn.Linear(1, 3), sensors=1, chooses=True, first=5)
    controller.actions = ("stay", "go left", "right")
    header = texts_of(controller)["controller.h"]
    assert "#define CONTROLLER_CHOICES 3 " in header
    assert "#define CONTROLLER_ACTIONS 1 " in header
    assert (
        "CONTROLLER_CHOICE_STAY = 5,\n    CONTROLLER_CHOICE_GO_LEFT = 6,\n    CONTROLLER_CHOICE_RIGHT = 7,\n" in header
    )


def test_the_header_says_which_agent_it_is(tmp_path: Path) -> None:
    agent = nc.load(AGENT)
    found = (export_c(agent, tmp_path / "robot") / "controller.h").read_text()
    for text in (agent.name, agent.sha256, "DualLTC(time_constants=", "32 inter, 16 command, 16 motor", nc.__version__):
        assert text in found
    assert (tmp_path / "robot" / "controller.c").read_text().startswith(found[: found.index("#ifndef")])


def test_names_are_given_by_the_controller(tmp_path: Path) -> None:
    controller = Controller(nc.load(AGENT), "reference", sensors=[f"angle_{k}" for k in range(8)])
    folder = export_c(copy.deepcopy(controller), tmp_path / "robot")
    assert "CONTROLLER_SENSOR_ANGLE_7 = 7," in (folder / "controller.h").read_text()


@pytest.mark.system
@given(st.text())
def test_no_text_ends_a_comment(text: str) -> None:
    inside = harmless(text)
    assert not set(inside) & set('*/\\?"%@#\n\r\0')
    assert inside.isascii()
    made = comment([text, text])
    assert made.index("*/") == len(made) - 3


@given(st.lists(st.text(), max_size=5))
def test_every_list_of_names_is_an_enumeration_or_comments(given_names: list[str]) -> None:
    made = numbered_names("A", given_names)
    assert re.fullmatch(r"(enum \{\n)?(    (A_\w+ = \d+,|/\* [^*]* \*/)\n)*(\};\n)?|\n", made, flags=re.ASCII), made
