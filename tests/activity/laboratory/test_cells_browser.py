"""Circuits run on the laboratory's page as they do in Python, whole and tuned."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from helpers.browser_page import Page
from helpers.cell_runs import (
    Arrays,
    cells_page_data,
    drawn_inputs,
    greatest_difference,
    run_in_page,
    run_in_python,
)
from helpers.cells import REPRESENTATIVES, WIDE, ZOO, build
from helpers.laboratory_scripts import open_scripts
from helpers.special_cells import SPECIAL
from helpers.tuned_cells import drawn_factors, run_slowed, with_factors
from ncp_control.activity.laboratory.controllers import CIRCUIT_SCRIPTS
from ncp_control.neurons import Cell, Held, without_synapses
from ncp_control.neurons.catalogue import row_of
from ncp_control.neurons.page import cell_data, kind_of, why_not_cut, why_not_held, why_not_slowed

pytestmark = pytest.mark.browser

NAMES = [name for name in ZOO if "dopri5" not in name and row_of(kind_of(build(name))).page]
MOST = [pytest.param(name, marks=() if name in REPRESENTATIVES else pytest.mark.slow) for name in NAMES]
HOLDABLE = [name for name in MOST if why_not_held(build(name.values[0])) is None]
CUTTABLE = [name for name in MOST if why_not_cut(build(name.values[0])) is None]
SLOWABLE = [name for name in MOST if why_not_slowed(build(name.values[0])) is None]
FEW = 60  # steps of a tuned circuit
EXACT = 1e-9  # the greatest difference found is 1e-11, in a time constant of some hundred


def cell_of(name: str) -> Cell:
    return SPECIAL[name]() if name in SPECIAL else build(name, torch.float64, 0.1)


@pytest.fixture(scope="module")
def drawn() -> Arrays:
    return drawn_inputs(wide=5)


@pytest.fixture(scope="module")
def page(browser: Any, drawn: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page with every cell. After the tests, no error may have occurred in it."""
    cells = {name: cell_data(cell_of(name)) for name in [*NAMES, *WIDE, *SPECIAL]}
    names, data = ["makeCell", "unpacked"], cells_page_data(cells, drawn)
    found = open_scripts(browser, tmp_path_factory.mktemp("page"), ["numbers.js", *CIRCUIT_SCRIPTS], names, data)
    yield found
    assert found.errors() == []


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_steps_are_the_same_on_the_page_and_in_python(name: str, page: Page, drawn: Arrays) -> None:
    wanted = run_in_python(cell_of(name), drawn)
    assert np.isfinite(wanted["states"]).all()
    assert greatest_difference(run_in_page(page, name), wanted) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDE)
def test_wide_circuits_are_the_same_too(name: str, page: Page, drawn: Arrays) -> None:
    assert greatest_difference(run_in_page(page, name), run_in_python(cell_of(name), drawn)) < EXACT


@pytest.mark.parametrize("name", list(SPECIAL))
def test_the_page_runs_what_a_cell_computes_from_its_parameters(name: str, page: Page, drawn: Arrays) -> None:
    wanted = run_in_python(cell_of(name), drawn, FEW, "reference")
    assert np.isnan(wanted["states"]).any() == (name == "lost")
    assert greatest_difference(run_in_page(page, name, steps=FEW), wanted) < EXACT


@pytest.mark.parametrize("name", HOLDABLE)
def test_held_neurons_act_as_in_python(name: str, page: Page, drawn: Arrays) -> None:
    cell = cell_of(name)
    values = {0: 0.4, cell.units - 1: -0.3}
    wanted = run_in_python(Held(cell, values), drawn, FEW)
    found = run_in_page(page, name, {"held": list(values.items())}, FEW)
    assert greatest_difference(found, wanted) < EXACT
    assert (found["neurons"][:, -1] == -0.3).all()
    assert cell.units == 1 or (found["neurons"][:, 0] == 0.4).all()


@pytest.mark.parametrize("name", CUTTABLE)
def test_cut_synapses_carry_as_little_as_in_python(name: str, page: Page, drawn: Arrays) -> None:
    cell = cell_of(name)
    wiring, random = cell.wiring, np.random.default_rng(1)
    counts = {"synapses": len(wiring.synapses), "sensory": len(wiring.sensory), "gaps": len(wiring.gap_junctions)}
    kept = {what: random.integers(0, 2, count).astype(float) for what, count in counts.items()}
    wanted = run_in_python(without_synapses(cell, *(np.flatnonzero(each == 0) for each in kept.values())), drawn, FEW)
    found = run_in_page(page, name, {what: each.tolist() for what, each in kept.items()}, FEW)
    assert greatest_difference(found, wanted) < EXACT
    for what, each in kept.items():
        assert np.abs(found[what][:, each == 0]).max(initial=0) < 1e-6


# The capacitances of a bounded LTC follow from its conductances, in the parameters of Python.
@pytest.mark.parametrize("name", [name for name in CUTTABLE if name.values != ("ltc-bounded",)])
def test_scaled_and_flipped_synapses_are_those_of_other_parameters(name: str, page: Page, drawn: Arrays) -> None:
    cell = cell_of(name)
    factors = drawn_factors(cell)
    wanted = run_in_python(with_factors(cell, factors), drawn, FEW)
    assert greatest_difference(run_in_page(page, name, factors, FEW), wanted) < EXACT


@pytest.mark.parametrize("name", SLOWABLE)
def test_a_slower_neuron_sees_less_time_and_has_a_longer_time_constant(name: str, page: Page, drawn: Arrays) -> None:
    cell = cell_of(name)
    factors = np.random.default_rng(2).choice([1.0, 3.0, 0.7], cell.units).tolist()
    wanted = run_slowed(cell, drawn, FEW, factors)
    found = run_in_page(page, name, {"constants": factors}, FEW)
    assert greatest_difference(found, wanted, ("states", "constants")) < EXACT


def test_all_tunings_act_together_and_each_replaces_every_earlier_one(page: Page, drawn: Arrays) -> None:
    cell = cell_of("ltc-gaps")
    factors, slow = drawn_factors(cell), [2.0] * cell.units
    tuned: Any = with_factors(cell, factors)
    tuned = Held(tuned, {2: 0.1})
    drawn = {**drawn, "elapsed": drawn["elapsed"] / 2}
    wanted = run_in_python(tuned, drawn, FEW)
    found = run_in_page(page, "ltc-gaps", {"held": [[2, 0.1]], **factors, "constants": slow}, FEW)
    for name in ("states", "sensory", "synapses", "gaps"):
        assert greatest_difference(found, wanted, (name,)) < EXACT
    assert np.abs(found["constants"] - 2 * wanted["constants"]).max() < EXACT
    again = page.ask(
        """(() => {
          const whole = lab.makeCell(data.cells["ltc-gaps"]), tuned = lab.makeCell(data.cells["ltc-gaps"]);
          tuned.tune({ held: new Map([[1, 0.5]]), gaps: [0, 0, 0], constants: new Array(tuned.units).fill(2) });
          const changed = tuned.step([1, 2, 3], tuned.initial(), 1);
          tuned.tune({ synapses: new Array(tuned.synapses.count).fill(1) });
          return [changed, tuned.step([1, 2, 3], tuned.initial(), 1), whole.step([1, 2, 3], whole.initial(), 1)]
            .map((state) => [...state]);
        })()"""
    )
    assert again[1] == again[2] != again[0]


@pytest.mark.parametrize("name", MOST)
def test_the_page_says_what_a_cell_cannot_do_and_refuses_it(name: str, page: Page) -> None:
    cell = cell_of(name)
    can = {"hold": why_not_held(cell), "cut": why_not_cut(cell), "constants": why_not_slowed(cell)}
    assert page.ask(f"lab.makeCell(data.cells['{name}']).can") == can
    tunings = {
        "hold": "{ held: new Map([[0, 1]]) }",
        "cut": "{ sensory: new Array(cell.sensory.count).fill(0) }",
        "constants": "{ constants: new Array(cell.units).fill(2) }",
    }
    for what, tuning in tunings.items():
        said = page.ask(
            f"(() => {{ const cell = lab.makeCell(data.cells['{name}']);"
            f" try {{ cell.tune({tuning}); return null; }} catch (error) {{ return error.message; }} }})()"
        )
        assert said == can[what]


@pytest.mark.parametrize(
    ("tuning", "sentence"),
    [
        ("{ held: new Map([[7, 1]]) }", "there is no neuron 7: the circuit has 7"),
        ("{ synapses: [1, 2] }", r"synapses needs \d+ factors, not 2"),
        ("{ constants: [1, 1, 1, 1, 1, 1, 0] }", "the factor of a time constant must be above 0"),
    ],
)
def test_a_tuning_that_cannot_be_is_refused_and_changes_nothing(tuning: str, sentence: str, page: Page) -> None:
    said, same = page.ask(
        f"""(() => {{
          const cell = lab.makeCell(data.cells["ltc-gaps"]), before = cell.step([1, 2, 3], cell.initial());
          let said = "";
          try {{ cell.tune({tuning}); }} catch (error) {{ said = error.message; }}
          return [said, String(cell.step([1, 2, 3], cell.initial())) === String(before)];
        }})()"""
    )
    assert re.fullmatch(sentence, said)
    assert same


@pytest.mark.parametrize("name", MOST)
def test_a_step_changes_nothing_that_it_is_given(name: str, page: Page) -> None:
    same = page.ask(
        f"""(() => {{
          const cell = lab.makeCell(data.cells["{name}"]), x = new Float64Array(cell.inputs).fill(0.5);
          if (!cell.can.hold) cell.tune({{ held: new Map([[0, 0.7]]) }});
          const before = new Float64Array(cell.stateSize).fill(0.2), after = cell.step(x, before, 1);
          const kept = String(after);
          for (let k = 0; k < 3; k++) {{
            cell.step(x, after, 1);
            cell.currents(x, before, after);
            cell.timeConstants(x, before);
            cell.neurons(after).fill(9);
            cell.motor(after).fill(9);
          }}
          return [x.every((value) => value === 0.5), before.every((value) => value === 0.2), String(after) === kept];
        }})()"""
    )
    assert same == [True, True, True]


@pytest.mark.parametrize(
    "name", ["ltc-gaps", "neural-ltc-sigmoid", "cfc-default", "dual", "gru", "ct-gru", "lagged-mlp"]
)
def test_a_number_that_is_lost_spreads_as_in_python(name: str, page: Page, drawn: Arrays) -> None:
    inputs = drawn["inputs"].copy()
    inputs[3:, 1] = np.nan
    cell = cell_of(name)
    wanted = run_in_python(cell, {**drawn, "inputs": inputs}, 6, "reference")
    assert np.isnan(wanted["states"][-1]).any()
    assert np.isfinite(wanted["states"][2]).all()
    states = page.ask(
        f"""(() => {{
          const cell = lab.makeCell(data.cells["{name}"]), inputs = lab.unpacked(data.inputs), found = [];
          const elapsed = lab.unpacked(data.elapsed);
          let state = cell.initial();
          for (let k = 0; k < 6; k++) {{
            const x = inputs.slice(5 * k, 5 * k + cell.inputs);
            if (k >= 3) x[1] = NaN;
            found.push([...(state = cell.step(x, state, elapsed[k]))].map(String));
          }}
          return found;
        }})()"""
    )
    found = {"states": np.array(states, dtype=np.float64)}
    assert greatest_difference(found, wanted, ("states",)) < EXACT


@pytest.mark.parametrize("elapsed", ["0", "1e-300", "1e9", "1e300", "Infinity"])
@pytest.mark.parametrize(
    "name", ["ltc-gaps", "neural-ltc-relu", "ctrnn-fused", "cfc-default", "cfc-pure", "dual", "ct-gru"]
)
def test_a_step_of_any_length_is_that_of_python(name: str, elapsed: str, page: Page) -> None:
    cell = copy.deepcopy(cell_of(name))
    with torch.no_grad():
        inputs = torch.full((1, cell.inputs), 0.5, dtype=torch.float64)
        wanted = cell.step(inputs, cell.initial_state(1) + 0.2, float(elapsed))[0].numpy()
    found = page.ask(
        f"""(() => {{
          const cell = lab.makeCell(data.cells["{name}"]), state = new Float64Array(cell.stateSize).fill(0.2);
          return [...cell.step(new Float64Array(cell.inputs).fill(0.5), state, {elapsed})].map(String);
        }})()"""
    )
    np.testing.assert_allclose(np.array(found, dtype=np.float64), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", HOLDABLE)
def test_a_neuron_held_in_the_middle_of_a_run_is_at_its_value_at_once(name: str, page: Page) -> None:
    cell = cell_of(name)
    held = Held(cell, {0: 0.7})
    inputs = torch.full((1, cell.inputs), 0.5, dtype=torch.float64)
    before = torch.full((1, cell.state_size), 0.2, dtype=torch.float64)
    with torch.no_grad():
        after = held.step(inputs, before)
        currents = held.currents(inputs, before, after)
        constants = held.time_constants(inputs, before)
    assert currents is not None
    wanted = [held.initial_state(1), after, *currents, constants]
    found = page.ask(
        f"""(() => {{
          const cell = lab.makeCell(data.cells["{name}"]), x = new Float64Array(cell.inputs).fill(0.5);
          const before = new Float64Array(cell.stateSize).fill(0.2);
          cell.tune({{ held: new Map([[0, 0.7]]) }});
          const after = cell.step(x, before, 1), {{ sensory, synapses, gaps }} = cell.currents(x, before, after);
          return [cell.initial(), after, sensory, synapses, gaps, cell.timeConstants(x, before)]
            .map((row) => [...row].map(String));
        }})()"""
    )
    for row, values in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.array(row, dtype=np.float64), values[0].numpy(), rtol=EXACT, atol=EXACT)
