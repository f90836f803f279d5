"""The one table of neurons: all that it names is there, and the few places that cannot read it say the same."""

from __future__ import annotations

import re
from importlib import resources

import pytest

import ncp_control as nc
from helpers.cells import REPRESENTATIVES, build
from helpers.docs_pages import ROOT
from ncp_control import neurons as cells
from ncp_control.cli import main
from ncp_control.neurons.catalogue import NEURONS, UNKNOWN, Neuron, row_named, row_of, words

of_rows = pytest.mark.parametrize("row", NEURONS, ids=lambda row: row.name)
SCRIPTS = resources.files("ncp_control.neurons")


@of_rows
def test_a_row_finds_its_class_by_every_name(row: Neuron) -> None:
    assert row.kind.__name__ == row.name
    assert row_of(row.kind) is row
    assert getattr(cells, row.name) is row.kind
    if row.named:
        assert row_named(row.name) is row_named(row.word.upper()) is row_named(f"-{row.name}_") is row
    else:
        assert row_named(row.name) is UNKNOWN
    assert (getattr(nc, row.name, None) is row.kind) == row.public


@of_rows
def test_everything_that_a_row_names_is_there(row: Neuron) -> None:
    for file in ("ranges", "code", "page"):
        assert getattr(row, file) is None or callable(row.part(file))
    if row.page:
        assert row.scripts, f"{row.name} has a page and no script"
        assert f"CELL_KINDS.{row.name} = " in (SCRIPTS / row.scripts[-1]).read_text(encoding="utf-8")


def test_a_subclass_and_a_name_that_nobody_has_stand_in_no_row() -> None:
    assert row_of(type("LTC", (nc.LTC,), {})) is UNKNOWN
    assert row_named("another") is row_named("") is UNKNOWN


@of_rows
def test_every_neuron_is_among_the_cells_of_the_tests(row: Neuron) -> None:
    found = [name for name in REPRESENTATIVES if type(build(name)) is row.kind]
    assert found, f"add circuits of {row.name} to ZOO in tests/helpers/cells.py, and one to REPRESENTATIVES"


@of_rows
def test_a_sparse_neuron_says_which_parameters_belong_to_its_synapses(row: Neuron) -> None:
    assert row.kind.always_dense or not row.named or {"synapses", "sensory"} <= set(row.kind.belongs)


@pytest.mark.parametrize("command", ["fit", "distil"])
def test_the_help_names_every_neuron(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert words() in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_the_guide_has_a_row_for_every_neuron() -> None:
    lines = (ROOT / "docs" / "guides" / "circuits.md").read_text(encoding="utf-8").splitlines()
    names = {
        row.name: f"`nc.{row.name}`" if row.public else f"`{row.name}` of `ncp_control.neurons`" for row in NEURONS
    }
    expected = [f"| {names[row.name]} | {row.about} | {row.bounded} |" for row in NEURONS]
    start = lines.index("| cell | dynamics | what is bounded |") + 2
    assert lines[start : start + len(NEURONS)] == expected


def test_type_checkers_see_every_neuron() -> None:
    for path, module in (("ncp_control/neurons/__init__.py", ""), ("ncp_control/__init__.py", "ncp_control.neurons")):
        text = (ROOT / path).read_text(encoding="utf-8")
        rows = [row for row in NEURONS if row.public or not module]
        lines = [f"    from {module or row.home} import {row.name} as {row.name}\n" for row in rows]
        assert [f"{path} lacks {line.strip()}" for line in lines if line not in text] == []
