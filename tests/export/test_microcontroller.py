"""The exported C on emulated microcontrollers: right, small, and measured by instruments that are right themselves."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sb3_contrib")

from helpers.small_agents import KINDS, small_agent
from ncp_control.export import export_c
from ncp_control.rl import load_policy

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "microcontroller" / "run.py"


def loaded() -> Any:
    sys.path.insert(0, str(SCRIPT.parent))  # as when Python runs the script
    spec = importlib.util.spec_from_file_location("microcontroller_run", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    sys.path.remove(str(SCRIPT.parent))
    return module


script = loaded()
MISSING = {name: board.missing() for name, board in script.BOARDS.items()}
BOARDS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"))
    for name, missing in MISSING.items()
]
on_every_board = pytest.mark.parametrize("board", BOARDS)

# A controller that takes a known number of instructions, bytes of stack, of flash and of variables.
KNOWN = """
#include "controller.h"
#include <stdint.h>
static const uint32_t table[250] = {[0 ... 249] = 7};
static uint32_t counter[25];
void controller_reset(controller_state *state) { state->values[0] = 0; }
int controller_step(controller_state *state, const controller_real *observation, controller_real elapsed,
                    controller_real *action) {
    volatile uint32_t room[200];
    uint32_t turns = 10000;
    for (int i = 0; i < 200; i++) room[i] = table[i];
#ifdef __riscv
    __asm volatile("1: addi %0, %0, -1\\n\\tbnez %0, 1b" : "+r"(turns));
#else
    __asm volatile("1: subs %0, %0, #1\\n\\tbne 1b" : "+r"(turns) : : "cc");
#endif
    counter[(int)elapsed] += room[3] + table[(int)observation[1]];
    state->values[0] += (controller_real)counter[(int)elapsed];
    action[0] = 2 * observation[0];
    return 0;
}
"""
HEADER = """
#define CONTROLLER_STATE 1
typedef float controller_real;
typedef struct { controller_real values[1]; } controller_state;
void controller_reset(controller_state *state);
int controller_step(controller_state *state, const controller_real *observation, controller_real elapsed,
                    controller_real *action);
"""
STEPS = "reset,elapsed,observation0,observation1,action0,state0\n1,1.0,1.5,2,3.0,0\n0,1.0,-0.25,4,-0.5,0\n"


@on_every_board
def test_the_instruments_find_what_is_known(board: str, tmp_path: Path) -> None:
    (tmp_path / "controller.c").write_text(KNOWN)
    (tmp_path / "controller.h").write_text(HEADER)
    (tmp_path / "vectors.csv").write_text(STEPS)
    found = script.measure(tmp_path, board)
    assert (found.steps, found.difference, found.state, found.arrays) == (2, 0, 4, 12)
    assert 20000 + 3 * 200 <= found.instructions <= 20000 + 10 * 200
    assert 0 <= found.most_instructions - found.instructions <= 2 * script.BOARDS[board].tick
    assert 800 <= found.stack <= 800 + 100
    assert found.variables == 100
    assert 1000 <= found.flash <= 1000 + 250
    (tmp_path / "vectors.csv").write_text(STEPS.replace("-0.5", "-0.625"))
    assert script.measure(tmp_path, board).difference == 0.125


@on_every_board
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_agent_acts_on_the_board_as_it_was_recorded(kind: str, board: str, tmp_path: Path) -> None:
    agent = small_agent(kind, tmp_path)
    folder = export_c(agent, tmp_path / "out")
    vectors = script.read_vectors(folder / "vectors.csv")
    assert vectors.chooses == (kind == "choices")
    assert len({tuple(row) for row in vectors.actions}) > 1
    found = script.measure(folder, board)
    assert found.steps == len(vectors.actions) >= 100
    assert found.difference <= (0 if kind == "choices" else 1e-5)


@on_every_board
def test_the_shipped_circuit_fits_a_small_microcontroller(board: str, tmp_path: Path) -> None:
    agent = load_policy(ROOT / "checkpoints" / "halfcheetah-positions.safetensors")
    folder = export_c(agent, tmp_path / "out")
    found = script.measure(folder, board)
    assert found.difference < 1e-4
    assert found.flash <= 26_000
    assert found.ram <= 4_000
    with (folder / "vectors.csv").open() as file:
        assert found.steps == len(list(csv.reader(file))) - 1


@on_every_board
def test_the_script_prints_the_figures(
    board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_agent("circuit", tmp_path)

    def said(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["run.py", str(tmp_path / "circuit.safetensors"), "--board", board, *words])
        script.main()
        return capsys.readouterr().out

    words, figures = said(), json.loads(said("--json"))
    assert f"flash:  {figures['flash']:,} bytes" in words
    assert f"RAM:    {figures['ram']:,} bytes" in words
    assert f"{figures['instructions']:,.0f} instructions" in words


def test_the_script_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for words, sentence in (
        ((), r"arm-none-eabi-gcc.*qemu-system-arm: not installed; on Debian, apt-get install gcc-arm-none-eabi"),
        (("--board", "rv32imafc"), "qemu-system-riscv32: not installed; on Debian, apt-get install gcc-riscv64"),
        (("--board", "z80"), "--board takes cortex_m4f or rv32imafc, not 'z80'"),
    ):
        monkeypatch.setattr(sys, "argv", ["run.py", "any.safetensors", *words])
        with pytest.raises(SystemExit, match=sentence):
            script.main()
