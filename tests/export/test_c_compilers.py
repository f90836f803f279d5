"""The C compiles without a warning, everywhere, and is clean under sanitizers and static analysis."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import ncp_control as nc
from helpers.c_programs import CLEAN, STRICT, BareController, compiled, needs_compiler, written
from helpers.cells import build
from helpers.small_agents import KINDS, small_agent
from ncp_control.export.c.write import texts_of, write_c
from ncp_control.rl import Controller
from ncp_control.rl.monitor import Monitor

pytestmark = [needs_compiler, pytest.mark.system]
AGENT = Path(__file__).parents[2] / "checkpoints" / "halfcheetah.safetensors"
EVEN_STRICTER = ("-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wundef", "-Wcast-qual", "-Wvla")
CELLS = ("ltc-gaps", "ltc-rk4", "neural-ltc-hard_tanh", "cfc-pure", "cfc-backbone-no_gate", "dual", "dual-bare",
         "ct-gru", "lstm", "gru", "lagged-mlp")  # fmt: skip
QUICK = ("ltc-gaps", "cfc-pure", "dual", "choices")  # the slow tests go through all others


def some(names: Sequence[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


def having(name: str) -> str:
    """A tool's name; skips the test on a machine without it."""
    if shutil.which(name) is None:
        pytest.skip(f"this machine has no {name}")
    return name


def folder_of(which: str, folder: Path, name: str = "c") -> Path:
    """The exported files of a cell, of a small agent with a monitor, or of a shipped agent."""
    made = folder / name
    made.mkdir()
    if which in KINDS:
        agent = small_agent(which, folder)
        plain = Controller(agent)
        ends = [[10.0 * sign] * len(plain.sensors) for sign in (-1, 1)]
        states = [[5.0 * sign] * plain.state_size for sign in (-1, 1)]
        write_c(Controller(agent, "reference", Monitor(*ends, *states)), made, agent.name, agent.sha256)
    elif which == "shipped":
        write_c(Controller(nc.load(AGENT), "reference"), made)
    else:
        written(texts_of(BareController(build(which), torch.nn.Sequential(torch.nn.ELU(), torch.nn.SiLU()))), made)
    return made


@pytest.mark.parametrize("which", some([*CELLS, *KINDS]))
def test_it_compiles_without_a_warning_in_both_precisions(which: str, tmp_path: Path) -> None:
    folder = folder_of(which, tmp_path)
    for compiler in filter(shutil.which, ("gcc", "clang")):
        for precision in ([], ["-DCONTROLLER_DOUBLE"]):
            compiled([compiler, *STRICT, *EVEN_STRICTER, *precision, "-O2", "-c", "controller.c", "main.c"], folder)


@pytest.mark.parametrize("which", some([*CELLS, *KINDS]))
def test_it_is_clean_under_the_sanitizers(which: str, tmp_path: Path) -> None:
    folder = folder_of(which, tmp_path)
    compiled(["gcc", *STRICT, "-O1", *CLEAN, "-o", "program", "controller.c", "main.c", "-lm"], folder)
    done = subprocess.run(["./program", "--check", "vectors.csv"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("which", some([*CELLS, *KINDS, "shipped"]))
def test_static_analysis_finds_nothing(which: str, tmp_path: Path) -> None:
    clang, folder = having("clang"), folder_of(which, tmp_path)
    command = [clang, "--analyze", "--analyzer-output", "text", "-std=c99", "controller.c", "main.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only", "-Ofast"])
def test_compilers_that_may_forget_infinity_are_refused(flag: str, tmp_path: Path) -> None:
    folder = folder_of("ltc-one", tmp_path)
    for compiler in filter(shutil.which, ("gcc", "clang")):
        done = subprocess.run([compiler, flag, "-c", "controller.c"], cwd=folder, capture_output=True, text=True)
        assert done.returncode != 0
        assert "compile controller.c without -ffast-math" in done.stderr


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17"])
def test_every_standard_since_c99_takes_it(standard: str, tmp_path: Path) -> None:
    folder = folder_of("circuit", tmp_path)
    compiled(["gcc", *STRICT, f"-std={standard}", "-c", "controller.c", "main.c"], folder)


def test_cpp_calls_it(tmp_path: Path) -> None:
    compiler, folder = having("g++"), folder_of("circuit", tmp_path)
    (folder / "robot.cpp").write_text(
        '#include "controller.h"\n'
        "int main() {\n"
        "    controller_state state;\n"
        "    controller_real observation[CONTROLLER_SENSORS] = {0, 0, 0}, action[CONTROLLER_ACTIONS];\n"
        "    controller_reset(&state);\n"
        "    return controller_step(&state, observation, 1, action);\n"
        "}\n"
    )
    compiled(["gcc", "-std=c99", "-c", "controller.c"], folder)
    compiled([compiler, "-Wall", "-Wextra", "-Werror", "-o", "robot", "robot.cpp", "controller.o", "-lm"], folder)
    assert subprocess.run(["./robot"], cwd=folder).returncode == 0


def test_it_asks_for_nothing_but_mathematics_and_memcpy(tmp_path: Path) -> None:
    folder = folder_of("shipped", tmp_path)
    for precision, suffix in ([], "f"), (["-DCONTROLLER_DOUBLE"], ""):
        compiled(["gcc", "-std=c99", "-O2", "-fno-stack-protector", *precision, "-c", "controller.c"], folder)
        listed = subprocess.run(["nm", "controller.o"], cwd=folder, capture_output=True, text=True, check=True).stdout
        symbols: dict[str, set[Any]] = {}
        for line in listed.splitlines():
            *_, kind, name = line.split()
            symbols.setdefault(kind, set()).add(name)
        assert symbols["U"] - {"_GLOBAL_OFFSET_TABLE_"} == {f"exp{suffix}", f"expm1{suffix}", f"tanh{suffix}", "memcpy"}
        assert symbols["T"] == {"controller_reset", "controller_step"}
        assert symbols.keys() <= {"U", "T", "t", "r", "R"}  # no variable that a step could change


def test_a_microcontroller_holds_the_shipped_agent(tmp_path: Path) -> None:
    compiler, folder = having("arm-none-eabi-gcc"), folder_of("shipped", tmp_path)
    board = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
    compiled([compiler, *board, *STRICT, "-O2", "-fstack-usage", "-c", "controller.c"], folder)
    done = subprocess.run(
        ["arm-none-eabi-size", "controller.o"], cwd=folder, capture_output=True, text=True, check=True
    )
    text, data, bss = map(int, done.stdout.splitlines()[1].split()[:3])
    assert text <= 26_000
    assert data == bss == 0
    stack = sum(int(line.split("\t")[1]) for line in (folder / "controller.su").read_text().splitlines())
    assert stack + 4 * 48 <= 4_000
