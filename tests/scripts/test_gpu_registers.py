"""What the script about the GPU kernels reads from their code."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

LISTING = """
        /*0000*/                   LDG.E R1, [R2.64] ;
.L_x_3:
        /*0010*/              @!P0 IADD3 R1, R1, 0x1, RZ ;
.L_x_1:
        /*0020*/                   FADD R1, R1, R2 ;
.L_x_0:
        /*0030*/                   MUFU.EX2 R1, R1 ;
        /*0040*/                   FMUL R1, R1, R1 ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
        /*0060*/                   MUFU.RCP R1, R1 ;
.L_x_2:
        /*0070*/                   FMUL R1, R1, R1 ;
        /*0080*/               @P1 BRA `(.L_x_2) ;
        /*0090*/               @P0 BRA `(.L_x_1) ;
        /*00a0*/               @P0 BRA `(.L_x_3) ;
        /*00b0*/                   EXIT ;
.L_x_4:
        /*00c0*/                   BRA `(.L_x_4);
"""


def test_instructions_of_a_step_are_those_of_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over rows holds one over steps, with two over six solver steps, of three and of two instructions."""
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts"))
    script = importlib.import_module("gpu_registers")
    assert script.instructions_of_step(LISTING, 6) == (1 + 6 * 3 + 1 + 6 * 2 + 1, 6 + 1)
    assert script.instructions_of_step(LISTING, 1) == (8, 2)
