"""The number of a cell's parameters: counted, by our exact formulas, and by Table S2 of the LTC paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from ncp_control.neurons import CTGRU, CTRNN, GRU, LSTM, LTC, Cell, CfC, MixedMemory, NeuralLTC, NeuralODE
from ncp_control.wiring import Plan, Wiring

MAP_SIZES = {"affine": 2, "linear": 1, "none": 0}  # parameters of an LTC's input and output maps, for each feature
CFC_MAPS = {"default": 4, "no_gate": 4, "pure": 1}


class Sizes(NamedTuple):
    """The sizes that determine the number of parameters.

    :param inputs: inputs, I
    :param units: neurons, k
    :param synapses: synapses among neurons, Sr
    :param sensory: synapses from inputs, Ss
    :param gap_junctions: gap junctions, G
    :param outputs: motor neurons, O
    :param loops: neurons with a synapse onto themselves
    """

    inputs: int
    units: int
    synapses: int
    sensory: int
    gap_junctions: int
    outputs: int
    loops: int

    @classmethod
    def of(cls, wiring: Wiring) -> Sizes:
        """Returns the sizes of a wiring."""
        synapses, sensory, gaps = len(wiring.synapses), len(wiring.sensory), len(wiring.gap_junctions)
        loops = int((np.asarray(wiring.synapses.source) == np.asarray(wiring.synapses.target)).sum())
        return cls(wiring.inputs, wiring.units, synapses, sensory, gaps, wiring.outputs, loops)

    def without_inputs(self) -> Sizes:
        """Returns the sizes without inputs and their synapses."""
        return self._replace(inputs=0, sensory=0)


class Model(NamedTuple):
    """A cell and its formula.

    :param make: makes the cell from the number of inputs and a plan
    :param formula: our exact formula, as text
    :param published: the formula in Table S2 as text and as a function of k, of n layers and of m decay slots; None if
        the table has none
    """

    make: Callable[[int, Plan | Wiring | int], Cell]
    formula: str
    published: tuple[str, Callable[[int, int, int], int]] | None = None


MODELS = {
    "CT-RNN": Model(CTRNN, "Sr + Ss + 2 k", ("n k^2 + 2 n k", lambda k, n, m: n * k**2 + 2 * n * k)),
    "Neural ODE": Model(NeuralODE, "Sr + Ss + k", ("n k^2 + n k", lambda k, n, m: n * k**2 + n * k)),
    "LSTM": Model(LSTM, "4 (k^2 + k I + 2 k)", ("4 n k^2 + 4 n k", lambda k, n, m: 4 * n * k**2 + 4 * n * k)),
    "CT-GRU": Model(
        CTGRU,
        "(2 m + 1) (k^2 + k I + k)",
        ("2 m k^2 + 2 m k + k^2 + k", lambda k, n, m: 2 * m * k**2 + 2 * m * k + k**2 + k),
    ),
    "LTC": Model(
        LTC, "4 (Sr + Ss) + G + 3 k + 2 I + 2 O", ("4 n k^2 + 3 n k", lambda k, n, m: 4 * n * k**2 + 3 * n * k)
    ),
    "NeuralLTC": Model(NeuralLTC, "Sr + Ss + 3 k"),
    "CfC": Model(CfC, "4 (Sr + Ss + 2 k - loops)"),
    "CfC, no_gate": Model(lambda inputs, plan: CfC(inputs, plan, mode="no_gate"), "4 (Sr + Ss + 2 k - loops)"),
    "CfC, pure": Model(lambda inputs, plan: CfC(inputs, plan, mode="pure"), "Sr + Ss + 4 k - loops"),
    "GRU": Model(GRU, "3 (k^2 + k I + 2 k)"),
    "LTC, mixed memory": Model(
        lambda inputs, plan: MixedMemory(LTC(inputs, plan)), "LTC + 4 (k^2 + k I + k)"
    ),
}  # fmt: skip


def counted(cell: Cell) -> int:
    """Counts the numbers in a cell's parameters."""
    return sum(parameter.numel() for parameter in cell.parameters())


def by_formula(cell: Cell, sizes: Sizes | None = None) -> int:
    """Computes the number of parameters from sizes alone.

    :param cell: the cell, whose kind and settings select the formula
    :param sizes: the sizes; by default those of the cell's wiring
    """
    at = sizes or Sizes.of(cell.wiring)
    recurrent, sensory, k, inputs = at.synapses, at.sensory, at.units, at.inputs
    if isinstance(cell, MixedMemory):
        state = cell.cell.state_size
        return by_formula(cell.cell, sizes) + 4 * state * (state + inputs + 1)
    if isinstance(cell, LTC):
        maps = MAP_SIZES[cell.input_map] * inputs + MAP_SIZES[cell.output_map] * at.outputs
        return 4 * (recurrent + sensory) + at.gap_junctions + 3 * k + maps
    if isinstance(cell, NeuralLTC | CTRNN | NeuralODE):
        return recurrent + sensory + {NeuralLTC: 3, CTRNN: 2, NeuralODE: 1}[type(cell)] * k
    if isinstance(cell, CfC):
        maps, own = CFC_MAPS[cell.mode], 2 * k if cell.mode == "pure" else 0
        if cell.backbone_widths:
            widths = [inputs + k, *cell.backbone_widths]
            inside = sum((narrow + 1) * wide for narrow, wide in pairwise(widths))
            return inside + maps * k * (widths[-1] + 1) + own
        return maps * (recurrent + k - at.loops + sensory + k) + own
    if isinstance(cell, CTGRU):
        return (2 * cell.scales + 1) * k * (k + inputs + 1)
    if isinstance(cell, LSTM | GRU):
        return cell.gates * k * (k + inputs + 2)
    raise TypeError(f"there is no formula for a {type(cell).__name__}")


class Reading(NamedTuple):
    """A way to read what a formula counts.

    :param inputs: "none" counts no weights from inputs, "k" those from as many inputs as neurons
    :param maps: whether an LTC's input and output maps count
    :param biases: the bias vectors for each gate of an LSTM; torch has 2
    """

    inputs: str
    maps: bool
    biases: int

    def __str__(self) -> str:
        words = ["weights from inputs left out" if self.inputs == "none" else "as many inputs as neurons"]
        words += [] if self.maps else ["no input and output maps"]
        return ", ".join(words + (["one bias vector a gate"] if self.biases == 1 else []))


def read(model: str, k: int, reading: Reading) -> int:
    """Returns our number for a dense cell of k neurons under a reading."""
    cell = MODELS[model].make(k, k)
    if isinstance(cell, LTC) and not reading.maps:
        cell = LTC(k, k, input_map="none", output_map="none")
    sizes = Sizes.of(cell.wiring)
    number = by_formula(cell, sizes.without_inputs() if reading.inputs == "none" else sizes)
    return number - cell.gates * k if isinstance(cell, LSTM | GRU) and reading.biases == 1 else number


def readings(model: str) -> Iterator[Reading]:
    """Lists the readings that differ for a model, the plainest first."""
    maps = (True, False) if model == "LTC" else (True,)
    biases = (2, 1) if model == "LSTM" else (2,)
    yield from (Reading(*choice) for choice in product(("none", "k"), maps, biases))


def agreeing(model: str, published: Callable[[int, int, int], int], widths: Iterable[int]) -> list[Reading]:
    """Returns the readings under which a published formula gives our number at every width."""
    widths = list(widths)
    return [one for one in readings(model) if all(read(model, k, one) == published(k, 1, 8) for k in widths)]
