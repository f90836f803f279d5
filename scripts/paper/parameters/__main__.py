"""How many parameters has a cell? Table S2 of the LTC paper, against cells that are built and counted.

Every cell of the package is counted, dense and on sparse wirings, and compared with the paper's formulas and with our
exact ones. These have inputs I, neurons k, synapses among neurons Sr (a neuron's loops onto itself included) and from
inputs Ss, gap junctions G, outputs O and decay slots m.

Example: python -m scripts.paper.parameters --out runs/paper/parameters
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from ncp_control.base.pages import new_figure
from ncp_control.base.progress import tracked
from ncp_control.neurons import LSTM, Cell
from ncp_control.wiring import NCP, AutoNCP, FullyConnected, GapJunctions, Plan
from scripts.paper.common.report import Finding, Report, Settings, Value, run_report
from scripts.paper.parameters.counts import MODELS, Sizes, agreeing, by_formula, counted

INPUTS, UNITS, OUTPUTS, GAPS = 17, 32, 8, 12  # the half-cheetah's observations, the paper's width
WIDTHS = (8, 16, 32, 64, 128, 256)
DENSE_ONLY = ("LSTM", "CT-GRU", "GRU")
SPARSE: dict[str, Callable[[int, int], Plan]] = {
    "dense": lambda k, seed: FullyConnected(k, k // 4, seed=seed),
    "AutoNCP": lambda k, seed: AutoNCP(k, k // 4, seed=seed),
    "AutoNCP, sparsity 0.8": lambda k, seed: AutoNCP(k, k // 4, sparsity=0.8, seed=seed),
    "NCP, fan-outs of 2": lambda k, seed: four_layers(k, seed),
    "the same, and k gap junctions": lambda k, seed: GapJunctions(four_layers(k, seed), k, seed=seed),
}
WHY = {
    "CT-RNN": "a weight a synapse, a bias and a time constant a neuron",
    "Neural ODE": "a weight a synapse and a bias a neuron",
    "LSTM": "four gates; torch's LSTM, whose weights fit ours, adds a second bias vector to each gate, 4 k more",
    "CT-GRU": "its read and write gates have a row for every neuron and slot; the formula has no layers n",
    "LTC": "every synapse has w, mu, sigma and E, every neuron a leak, its potential and a capacitance: it counts the "
    "conductance-based cell, not Eq. 1, which has k^2 + 3 k. The maps, a scale and a shift, are 2 I + 2 O more",
}


def four_layers(k: int, seed: int) -> NCP:
    """Plans a neural circuit policy whose fan-outs and fan-in are 2 at every width."""
    command, motor = k // 4, k // 4
    return NCP(
        k - command - motor, command, motor,
        sensory_fanout=2, inter_fanout=2, recurrent_command=2 * command, motor_fanin=2, seed=seed,
    )  # fmt: skip


class Counter:
    """Counts parameters, and remembers the cells for which our formula gives another number."""

    def __init__(self) -> None:
        self.cells = 0
        self.wrong: list[str] = []

    def count(self, cell: Cell) -> int:
        """Counts a cell's parameters."""
        number = counted(cell)
        self.cells += 1
        if number != by_formula(cell):
            self.wrong.append(f"{type(cell).__name__} of {cell.units} neurons")
        return number


def make(settings: Settings) -> Report:
    """Counts the parameters and writes the report."""
    widths = (*WIDTHS, 512) if settings.full else WIDTHS
    counter = Counter()
    with tracked("widths", total=len(widths) + 1, unit="widths") as bar:
        table = rows(counter, settings.seed)
        bar.advance(1)
        dense: dict[str, list[int]] = {model: [] for model in MODELS}
        wired: dict[str, list[int]] = {plan: [] for plan in SPARSE}
        for k in widths:
            for model, numbers in dense.items():
                numbers.append(counter.count(MODELS[model].make(INPUTS, k)))
            for plan, numbers in wired.items():
                numbers.append(counter.count(MODELS["LTC"].make(INPUTS, SPARSE[plan](k, settings.seed))))
            bar.advance(1)
    head = (
        "cell", "Table S2", f"at {UNITS}", "no inputs", f"{INPUTS} inputs",
        f"AutoNCP({UNITS}, {OUTPUTS})", f"{GAPS} gap junctions", "our formula",
    )  # fmt: skip
    findings = [*published(), *growth(widths, dense, wired), formulas(counter)]
    return Report("Parameters of a cell", head, table, findings, NOTES, {"parameters": draw(widths, dense, wired)})


def rows(counter: Counter, seed: int) -> list[list[Value]]:
    """Writes a row for every cell, with 32 neurons."""
    plan = AutoNCP(UNITS, OUTPUTS, seed=seed)
    table: list[list[Value]] = []
    for name, model in MODELS.items():
        cell = model.make(INPUTS, UNITS)
        wired: list[Value] = [None, None]
        if name not in DENSE_ONLY:
            joined = GapJunctions(plan, GAPS, seed=seed)
            wired = [counter.count(model.make(INPUTS, given)) for given in (plan, joined)]
        said: list[Value] = [model.published[0], model.published[1](UNITS, 1, 8)] if model.published else [None, None]
        without = by_formula(cell, Sizes.of(cell.wiring).without_inputs())
        table.append([name, *said, without, counter.count(cell), *wired, model.formula])
    return table


def published() -> list[Finding]:
    """Says under which reading each formula of the paper is right."""
    found = []
    for name, model in MODELS.items():
        if model.published is None:
            continue
        readings = agreeing(name, model.published[1], (1, 2, 3, 8, 17, UNITS))
        more = counted(model.make(INPUTS, UNITS)) - model.published[1](UNITS, 1, 8)
        read = f"right with {readings[0]}" if readings else "right in no reading tried"
        found.append(
            Finding(
                name, f"{model.published[0]} parameters", bool(readings),
                f"{read}: {WHY[name]}. With {INPUTS} inputs, {UNITS} neurons have {more:,} more than the formula says",
            )
        )  # fmt: skip
    return found


def growth(widths: tuple[int, ...], dense: dict[str, list[int]], wired: dict[str, list[int]]) -> list[Finding]:
    """Compares the statements on layers and on growth with dense and sparse cells."""
    two, formula = counted(LSTM(INPUTS, UNITS)) + counted(LSTM(UNITS, UNITS)), MODELS["LSTM"].published
    assert formula is not None
    said = formula[1](UNITS, 2, 8)
    ltc, lstm = (dense[name][widths.index(UNITS)] for name in ("LTC", "LSTM"))
    powers = {name: doubling(widths, numbers) for name, numbers in (dense | wired).items()}
    slowest, fastest = (choose(powers[name] for name in dense) for choose in (min, max))
    return [
        Finding(
            "Layers", "n layers have n times the parameters of one", two == said,
            f"a layer above another has k inputs, whose weights are left out too: two layers of an LSTM of {UNITS} "
            f"neurons and {INPUTS} inputs have {two:,} parameters, the formula gives {said:,}",
        ),
        Finding(
            "Order", "all grow as k^2", all(1.8 < powers[name] <= 2 for name in dense),
            f"from {widths[-2]} to {widths[-1]} neurons as k to the power of {slowest:.2f} to {fastest:.2f}, dense. On "
            f"an AutoNCP, which keeps a share of all synapses, an LTC grows as k to the power of "
            f"{powers['AutoNCP']:.2f}, to {wired['AutoNCP'][-1]:,} parameters where the dense one has "
            f"{wired['dense'][-1]:,}; with fan-outs of 2 as k to the power of "
            f"{powers['NCP, fan-outs of 2']:.2f}, to {wired['NCP, fan-outs of 2'][-1]:,}",
        ),
        Finding(
            "LTC and LSTM", "an LTC is as complex as an LSTM of as many cells", 0.9 < ltc / lstm < 1.1,
            f"{ltc:,} and {lstm:,} parameters for {UNITS} neurons and {INPUTS} inputs",
        ),
    ]  # fmt: skip


def doubling(widths: tuple[int, ...], numbers: list[int]) -> float:
    """Returns p of `number ~ k^p` between the two largest widths."""
    return math.log(numbers[-1] / numbers[-2]) / math.log(widths[-1] / widths[-2])


def formulas(counter: Counter) -> Finding:
    """Says whether our formulas are right for every cell of this report."""
    found = f"{counter.cells} cells built and counted, {len(counter.wrong)} of them with another number"
    return Finding("Our formulas", "(ours) give what is counted", not counter.wrong, "; ".join([found, *counter.wrong]))


def draw(widths: tuple[int, ...], dense: dict[str, list[int]], wired: dict[str, list[int]]) -> Any:
    """Draws parameters against width: the cells of Table S2, dense, and an LTC on several wirings."""
    figure = new_figure(11, 4.6)
    cells, wirings = figure.subplots(1, 2, sharey=True)
    names = [name for name, model in MODELS.items() if model.published]
    looks = (("o", 9), ("o", 4), ("D", 9), ("s", 5), ("D", 4))  # small marks within large ones: some numbers are close
    for colour, (name, (marker, size)) in enumerate(zip(names, looks, strict=True)):
        formula = MODELS[name].published
        assert formula is not None
        cells.plot(widths, dense[name], marker, color=f"C{colour}", markersize=size, label=name)
        cells.plot(widths, [formula[1](k, 1, 8) for k in widths], "--", color=f"C{colour}", linewidth=1)
    cells.plot([], [], "--", color="grey", linewidth=1, label="Table S2")
    for (plan, numbers), marker in zip(wired.items(), "Dos^v", strict=True):
        wirings.plot(widths, numbers, "-", marker=marker, markersize=5, label=plan)
    cells.set(title=f"cells, dense, {INPUTS} inputs", ylabel="parameters")
    wirings.set(title=f"wirings of an LTC, {INPUTS} inputs")
    for axes in (cells, wirings):
        axes.set(xscale="log", yscale="log", xlabel="neurons k")
        axes.set_xticks(widths, [str(k) for k in widths])
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=8)
    return figure


NOTES = (
    "Every number was counted in a cell that was built, except Table S2's and those without inputs. Only an LTC has "
    "gap junctions; LSTM, GRU and CT-GRU have no sparse form; 8 decay slots.",
    "Without inputs: our formula with I = 0 and Ss = 0; the LTC's still has the map of its 32 outputs.",
    "The paper's ODE-RNN is our Neural ODE that reads its inputs. A CfC gives every neuron a weight for its own state, "
    "whether or not the wiring has that loop.",
)


if __name__ == "__main__":
    sys.exit(run_report("parameters", __doc__, Settings, make))
