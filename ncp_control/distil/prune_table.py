"""The table of a pruning: a row for the unpruned student and one for each round."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ncp_control.base.files import write_atomically

TABLE = "table.csv"


@dataclass(frozen=True)
class PrunedRow:
    """A student of one size.

    :param neurons: the number of its neurons
    :param synapses: the number of all its synapses
    :param sensory: how many of these begin at an input
    :param parameters: the number of parameters of the circuit and of the layer behind it
    :param mean_return: the mean return of its evaluation
    :param std_return: the standard deviation of these returns, with n - 1
    :param min_return: the lowest of these returns
    :param share: the share of the teacher's return that it has
    :param kept: the share of the unpruned student's return that it has
    :param seconds: the time since the pruning began
    """

    neurons: int
    synapses: int
    sensory: int
    parameters: int
    mean_return: float
    std_return: float
    min_return: float
    share: float
    kept: float
    seconds: float

    @property
    def file(self) -> str:
        """The name of the file of a pruned student in the folder of the pruning."""
        return f"{self.synapses:03d}-synapses.safetensors"


COLUMNS = tuple(field.name for field in fields(PrunedRow))


def smallest_of(rows: Sequence[PrunedRow], keep: float) -> PrunedRow:
    """Returns the smallest student that has enough of the unpruned one's return.

    Each round leaves fewer synapses than the one before, and no more neurons. So the row with the fewest synapses is
    also one with the fewest neurons.

    :param rows: the first is that of the unpruned student, which always has enough
    :param keep: the share of the unpruned student's return that is enough
    """
    return [rows[0], *(row for row in rows[1:] if row.kept >= keep)][-1]


def write_rows(path: Path, rows: Sequence[PrunedRow]) -> None:
    """Writes the table."""
    lines = [COLUMNS, *(tuple(vars(row).values()) for row in rows)]
    write_atomically(path, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


def read_rows(path: Path) -> list[PrunedRow]:
    """Reads the table that `write_rows` wrote; none if there is no such file."""
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))
        if not lines or tuple(lines[0]) != COLUMNS or len(lines) < 2:
            raise ValueError("it has other columns, or no rows")
        return [PrunedRow(*map(int, line[:4]), *map(float, line[4:])) for line in lines[1:]]
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"{path} is not the table of a pruning, or was altered ({error}): delete it") from error


def table_text(rows: Sequence[PrunedRow]) -> str:
    """Returns the table as aligned lines for a terminal."""
    heads = ("synapses", "neurons", "parameters", "return", "std", "lowest", "of the teacher", "of the unpruned")
    lines = [heads]
    for row in rows:
        counts = (f"{row.synapses:,}", f"{row.neurons:,}", f"{row.parameters:,}")
        returns = (f"{row.mean_return:,.1f}", f"{row.std_return:,.1f}", f"{row.min_return:,.1f}")
        lines.append((*counts, *returns, f"{row.share:.1%}", f"{row.kept:.1%}"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def smallest_in_words(rows: Sequence[PrunedRow], smallest: PrunedRow, keep: float) -> str:
    """Returns in a sentence which of the rows is the smallest that keeps enough.

    :param rows: all of them
    :param smallest: what `smallest_of` returned
    :param keep: the share of the unpruned student's return that is enough
    """
    if smallest is rows[0]:
        return f"no smaller circuit keeps {keep:.0%} of the unpruned student's return"
    return (
        f"the fewest neurons and synapses that keep {keep:.0%} of the unpruned student's return: "
        f"{smallest.neurons:,} neurons, {smallest.synapses:,} synapses"
    )
