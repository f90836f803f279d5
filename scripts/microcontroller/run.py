"""Runs an exported agent on an emulated microcontroller: is it right, does it fit, how many instructions is a step?

The agent is exported as C and compiled by a cross-compiler. QEMU runs it with the recorded steps of the export,
`vectors.csv`, and the actions are compared with those of the agent in double precision. Then this is told:

- flash: what the linker puts there for `controller_step`, `controller_reset` and what they need of the mathematical
  library: instructions, constants, and the first values of variables. The steps that are compared do not count;
- RAM: the state, the arrays for an observation and an action, variables of the library, and the greatest depth of the
  stack in `controller_step`. The stack is painted before every step, and what has lost its paint was used;
- instructions a step: QEMU lets a nanosecond of the board's time pass for each, and a counter of the board reads this
  time. It is checked with a loop of two million instructions first. A real processor takes one cycle or more for an
  instruction, and more for divisions and for what it loads from slow flash.
"""

from __future__ import annotations

import csv
import json
import struct
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from boards import BOARDS, Board
from numpy.typing import NDArray

HERE = Path(__file__).parent
WARNINGS = ("-Wall", "-Wextra", "-std=c99", "-O2", "-ffunction-sections", "-fdata-sections")
QEMU = ("-icount", "shift=0", "-display", "none", "-monitor", "none", "-serial", "stdio")
# What the names of sections begin with.
IN_FLASH, IN_RAM = (".text", ".rodata", ".srodata", ".ARM.exidx", ".data", ".sdata"), (".data", ".bss")
LOOP = 2_000_000  # instructions
NOT_FINITE = 1
CLOCK = 100e6  # of the processor whose shortest time is told

Array = NDArray[np.float64]


@dataclass
class Arguments:
    """Run an exported agent on an emulated microcontroller.

    Example: python scripts/microcontroller/run.py checkpoints/halfcheetah.safetensors
    """

    checkpoint: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The .safetensors file of a policy."""

    board: str = "cortex_m4f"
    """The board: cortex_m4f or rv32imafc."""

    json: bool = False
    """Print one JSON object instead of sentences."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a controller on the board.

    :param steps: how many steps were run
    :param difference: the greatest difference of an action from the agent's; for choices, how many were different
    :param flash: bytes, of which `library` belong to the mathematical library
    :param library: bytes
    :param state: bytes of the state
    :param arrays: bytes of the arrays for an observation and an action
    :param variables: bytes of variables of the library
    :param stack: bytes, at the deepest
    :param instructions: of a step, on average
    :param most_instructions: of the longest step, to within a tick
    """

    steps: int
    difference: float
    flash: int
    library: int
    state: int
    arrays: int
    variables: int
    stack: int
    instructions: float
    most_instructions: int

    @property
    def ram(self) -> int:
        """All bytes of RAM together."""
        return self.state + self.arrays + self.variables + self.stack


@dataclass(frozen=True)
class Vectors:
    """Recorded steps of an agent.

    :param observations: (T, n)
    :param elapsed: (T,)
    :param resets: whether the state is reset before the step, (T,)
    :param actions: (T, A), or (T, 1) for choices
    :param chooses: whether the action is a choice
    """

    observations: Array
    elapsed: Array
    resets: NDArray[np.bool_]
    actions: Array
    chooses: bool


def read_vectors(path: Path) -> Vectors:
    """Reads the recorded steps of an export; an action without a point is a choice."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))

    def columns(name: str) -> list[list[str]]:
        return [[text for title, text in row.items() if title.startswith(name)] for row in rows]

    actions = columns("action")
    return Vectors(
        observations=np.array(columns("observation"), dtype=np.float64),
        elapsed=np.array(columns("elapsed"), dtype=np.float64)[:, 0],
        resets=np.array(columns("reset"))[:, 0] == "1",
        actions=np.array(actions, dtype=np.float64),
        chooses=actions[0][0].lstrip("-").isdigit(),
    )


def measure(folder: Path, name: str = "cortex_m4f") -> Measured:
    """Compiles the controller of an export, runs its recorded steps on a board and compares the actions.

    :param folder: holds `controller.h`, `controller.c` and `vectors.csv`
    :param name: one of `BOARDS`
    """
    vectors, board = read_vectors(folder / "vectors.csv"), BOARDS[name]
    compiler, script = f"{board.tools}-gcc", HERE / name / "board.ld"
    compile_flags = (*board.flags, board.library, *WARNINGS)
    link_flags = (*board.flags, board.library, "-nostartfiles", "-Wl,--gc-sections", "-T", script)
    with tempfile.TemporaryDirectory() as place:
        build = Path(place)
        (build / "steps.h").write_text(steps_in_c(vectors))
        controller, whole, alone = build / "controller.o", build / "whole.elf", build / "alone.elf"
        call(compiler, *compile_flags, "-c", folder / "controller.c", "-o", controller)
        for source in (HERE / "measure.c", HERE / name / "board.c"):
            includes = ("-I", HERE, "-I", folder, "-I", build)
            call(compiler, *compile_flags, *includes, "-c", source, "-o", build / f"{source.stem}.o")
        call(compiler, *link_flags, build / "measure.o", build / "board.o", controller, "-lm", "-o", whole)
        entry = ("-Wl,-e,controller_step", "-Wl,-u,controller_reset")
        call(compiler, *link_flags, *entry, controller, "-lm", "-o", alone)
        sections, own_sections = (sizes_of(file, f"{board.tools}-size") for file in (alone, controller))
        printed = call(*board.emulator, *QEMU, "-kernel", whole)
    flash, own_flash = total(sections, IN_FLASH), total(own_sections, IN_FLASH)
    loop, steps, state = read_lines(printed)
    if abs(loop * board.tick - LOOP) > max(2 * board.tick, 50):
        raise SystemExit(
            f"the emulator counts {loop * board.tick} instructions in a loop of {LOOP}: nothing can be told"
        )
    if len(steps) != len(vectors.actions):
        raise SystemExit(f"the board ran {len(steps)} of {len(vectors.actions)} steps")
    if any(step[0] & NOT_FINITE for step in steps):
        raise SystemExit("the board took an observation for a NaN or infinity")
    form = "i" if vectors.chooses else "f"
    found = np.array([[struct.unpack(f">{form}", bits.to_bytes(4, "big"))[0] for bits in step[3:]] for step in steps])
    apart = np.abs(found - vectors.actions)
    numbers = vectors.observations.shape[1] + vectors.actions.shape[1]
    return Measured(
        steps=len(steps),
        difference=float((apart > 0).sum() if vectors.chooses else apart.max()),
        flash=flash,
        library=flash - own_flash,
        state=state,
        arrays=4 * numbers,
        variables=total(sections, IN_RAM),
        stack=max(step[2] for step in steps),
        instructions=board.tick * float(np.mean([step[1] for step in steps])),
        most_instructions=board.tick * max(step[1] for step in steps),
    )


def call(*command: str | Path) -> str:
    """Runs a program and returns what it prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}:\n{done.stderr or done.stdout}")
    return done.stdout


def steps_in_c(vectors: Vectors) -> str:
    """Writes the steps as constant arrays, and what `measure.c` must know of the actions."""
    count, width = vectors.observations.shape

    def row(values: Array) -> str:
        return "{" + ", ".join(f"(controller_real){value:.9g}" for value in values) + "}"

    observations = ",\n".join(row(values) for values in vectors.observations)
    return f"""#define STEPS {count}
#define ACTION_NUMBERS {vectors.actions.shape[1]}
typedef {"int" if vectors.chooses else "controller_real"} action_type;
static const controller_real observations[STEPS][{width}] = {{
{observations}
}};
static const controller_real elapsed[STEPS] = {row(vectors.elapsed)};
static const unsigned char resets[STEPS] = {{{", ".join(str(int(one)) for one in vectors.resets)}}};
"""


def sizes_of(file: Path, tool: str) -> dict[str, int]:
    """Returns the bytes of every section of a compiled file."""
    lines = call(tool, "-A", file).splitlines()
    return {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 3 and words[1].isdigit()}


def total(sections: dict[str, int], kinds: tuple[str, ...]) -> int:
    """Returns the bytes of all sections of some kinds."""
    return sum(size for name, size in sections.items() if name.startswith(kinds))


def read_lines(printed: str) -> tuple[int, list[list[int]], int]:
    """Returns what the board printed: the ticks of the loop, the numbers of every step, and the bytes of the state."""
    lines = [(words[0], [int(word, 16) for word in words[1:]]) for words in map(str.split, printed.splitlines())]
    named = {name: numbers[0] for name, numbers in lines if name != "step"}
    return named["loop"], [numbers for name, numbers in lines if name == "step"], named["state"]


def show(name: str, found: Measured, chooses: bool, board: Board) -> None:
    """Prints the figures in words."""
    apart = (
        f"{found.difference:.0f} choices differ"
        if chooses
        else f"the greatest difference of an action is {found.difference:.2g}"
    )
    print(
        f"{name} on {board.about}, compiled by {board.tools}-gcc -O2, emulated by QEMU\n"
        f"  right:  {found.steps} recorded steps, {apart} (float on the board, double in the recording)\n"
        f"  flash:  {found.flash:,} bytes, of which the mathematical library has {found.library:,}\n"
        f"  RAM:    {found.ram:,} bytes: state {found.state}, arrays of observation and action {found.arrays}, stack "
        f"{found.stack}, variables of the library {found.variables}\n"
        f"  a step: {found.instructions:,.0f} instructions, at most {found.most_instructions:,}: no less than "
        f"{1e3 * found.instructions / CLOCK:.2f} ms at {CLOCK / 1e6:.0f} MHz"
    )


def main() -> None:
    """Exports the agent, measures it and prints the figures."""
    arguments = tyro.cli(Arguments)
    if arguments.board not in BOARDS:
        raise SystemExit(f"--board takes {' or '.join(BOARDS)}, not {arguments.board!r}")
    board = BOARDS[arguments.board]
    if missing := board.missing():
        raise SystemExit(f"{', '.join(missing)}: not installed; on Debian, apt-get install {board.packages}")
    from ncp_control.export import export_c
    from ncp_control.rl import load_policy

    agent = load_policy(arguments.checkpoint)
    with tempfile.TemporaryDirectory() as place:
        folder = export_c(agent, Path(place) / "exported")
        found = measure(folder, arguments.board)
        chooses = read_vectors(folder / "vectors.csv").chooses
    if arguments.json:
        print(json.dumps({"checkpoint": str(arguments.checkpoint), **asdict(found), "ram": found.ram}))
    else:
        show(arguments.checkpoint.name, found, chooses, board)


if __name__ == "__main__":
    main()
