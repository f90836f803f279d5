"""What has no C form is refused in one sentence, and nothing is written then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from helpers.c_programs import BareController
from helpers.cells import build
from helpers.small_agents import small_agent
from ncp_control.export import export_c
from ncp_control.export.c.write import texts_of
from ncp_control.neurons.code import array, index_array, literal
from ncp_control.rl.monitor import Monitor


@pytest.fixture
def bare() -> BareController:
    return BareController(build("ltc-solitary"))


def with_weight(value: float) -> BareController:
    found = BareController(build("ltc-solitary"), nn.Linear(1, 1))
    nn.init.constant_(found.get_parameter("head.weight"), value)
    return found


CASES: dict[str, tuple[Any, str]] = {
    "solver": (
        lambda: BareController(build("ltc-dopri5")),
        "an agent whose LTC is solved by 'dopri5' has no C form: train one with the solver 'fused' or 'euler' or 'rk4'",
    ),
    "cell": (lambda: BareController(build("mixed-ltc")), "an agent with the cell MixedMemory has no C form: "),
    "layer": (
        lambda: BareController(build("ltc-one"), nn.GELU()),
        "an agent with the layer GELU has no C form: the layers that have one are BatchRenorm1d, ELU, ",
    ),
    "extractor": (
        lambda: BareController(build("ltc-one"), extractor=nn.Linear(1, 1)),
        "an agent with the features extractor Linear has no C form: train one that reads vectors as they are",
    ),
    "nan": (lambda: with_weight(np.nan), "a number of `weight0` is nan, which no float holds"),
    "infinity": (lambda: with_weight(-np.inf), "a number of `weight0` is -inf, which no float holds"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_agent_without_a_c_form_leaves_nothing_behind(case: str, tmp_path: Path) -> None:
    make, message = CASES[case]
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        export_c(make(), tmp_path / "robot")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_constant_beyond_float_is_refused() -> None:
    cell = build("ltc-solitary").double()
    with torch.no_grad():
        cell.vleak[0] = 1e39  # type: ignore[operator, index]
    with pytest.raises(ValueError, match=r"a number of `leak` is .*e\+3., which no float holds"):
        texts_of(BareController(cell))


def test_a_folder_with_files_is_left_alone(bare: BareController, tmp_path: Path) -> None:
    (tmp_path / "robot").mkdir()
    (tmp_path / "robot" / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        export_c(bare, tmp_path / "robot")
    assert [path.name for path in (tmp_path / "robot").iterdir()] == ["mine.txt"]
    with pytest.raises(FileNotFoundError, match="does not exist: create it first"):
        export_c(bare, tmp_path / "absent" / "robot")


def test_a_full_disk_leaves_nothing_behind(
    bare: BareController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def fails(path: Path, text: str, **settings: Any) -> int:
        if path.name == "vectors.csv":
            raise OSError(28, "No space left on device")
        return write(path, text, **settings)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(OSError, match="No space left"):
        export_c(bare, tmp_path / "robot")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"needs a policy that nc.load read from a file of save_policy, not a str"):
        export_c("agent.safetensors", tmp_path / "robot")  # type: ignore[arg-type]


def test_a_monitor_of_another_agent_is_refused(tmp_path: Path) -> None:
    monitor = Monitor([0.0] * 2, [1.0] * 2, [0.0] * 9, [1.0] * 9)
    with pytest.raises(
        ValueError, match="this monitor is for 2 observations and a state of 9, and the agent has 3 and 9"
    ):
        export_c(small_agent("circuit", tmp_path), tmp_path / "robot", monitor)
    with pytest.raises(ValueError, match="a Controller brings its monitor"):
        export_c(BareController(build("ltc-one")), tmp_path / "robot", monitor)
    assert not (tmp_path / "robot").exists()


def test_numbers_are_written_with_digits_for_double() -> None:
    draw = np.random.default_rng(0)
    for value in [
        *draw.standard_normal(200),
        *10.0 ** draw.uniform(-40, 38, 200),
        1e22,
        1e16,
        123456789.0,
        5e-324,
        0.1,
    ]:
        text = literal(value)
        assert text.startswith("REAL(")
        number = text[5:-1]
        assert "." in number or "e" in number  # without, a suffix f would make no float of it
        assert float(number) == (value if abs(value) > 1e-45 else 0)
    assert (literal(np.inf), literal(-np.inf)) == ("INFINITE", "-INFINITE")


def test_whole_numbers_take_the_smallest_type() -> None:
    for largest, kind in ((0, "uint8_t"), (255, "uint8_t"), (256, "uint16_t"), (65535, "uint16_t"), (65536, "int32_t")):
        assert index_array("k", [0, largest]).startswith(f"static const {kind} k[2] = {{")
    assert array("a", [[1.0, 2.0]]) == "static const controller_real a[1][2] = {\n    {REAL(1.0), REAL(2.0)}\n};\n"
