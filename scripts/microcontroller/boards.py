"""The boards that QEMU emulates."""

from __future__ import annotations

import shutil
from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """A board that QEMU emulates; the folder of its name has its `board.c` and `board.ld`.

    :param about: its processor
    :param tools: the beginning of the names of its compiler and the like
    :param flags: the compiler's flags for its processor
    :param library: the linker's flags for its C library
    :param emulator: QEMU, and what chooses the board
    :param tick: how many instructions its counter counts as one
    :param packages: of Debian, with compiler, library and emulator
    """

    about: str
    tools: str
    flags: tuple[str, ...]
    library: str
    emulator: tuple[str, ...]
    tick: int
    packages: str

    def missing(self) -> list[str]:
        """Returns the programs that are not installed."""
        needed = (f"{self.tools}-gcc", f"{self.tools}-size", self.emulator[0])
        return [name for name in needed if shutil.which(name) is None]


BOARDS = {
    "cortex_m4f": Board(
        "a Cortex-M4F",
        "arm-none-eabi",
        ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
        "--specs=nano.specs",
        ("qemu-system-arm", "-machine", "mps2-an386", "-semihosting-config", "enable=on,target=native"),
        40,  # nanoseconds, of a clock of 25 MHz
        "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
    ),
    "rv32imafc": Board(
        "a RISC-V of 32 bits (RV32IMAFC)",
        "riscv64-unknown-elf",
        ("-march=rv32imafc", "-mabi=ilp32f"),
        "--specs=picolibc.specs",
        ("qemu-system-riscv32", "-machine", "virt", "-bios", "none"),
        1,
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf qemu-system-misc",
    ),
}
