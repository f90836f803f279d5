"""Cells by their names."""

import pytest

from helpers.cells import ZOO, build
from ncp_control.cells import CELLS, NeuralLTC, make_cell
from ncp_control.cells.named import SHORT_NAMES
from ncp_control.cli import main


@pytest.mark.parametrize("name", ["NeuralLTC", "neuralltc", "neural_ltc", "neural-LTC"])
def test_cells_are_named_as_people_write_them(name: str) -> None:
    assert type(make_cell(name, 3, 4)) is NeuralLTC
    with pytest.raises(ValueError, match=f"unknown cell '{name}s': choose one of LTC, NeuralLTC"):
        make_cell(f"{name}s", 3, 4)


def test_every_named_cell_is_in_the_zoo_and_in_the_help_of_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert {type(build(name)) for name in ZOO} >= set(CELLS)
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    words = capsys.readouterr().out
    names = {kind: kind.__name__.lower() for kind in CELLS} | {kind: name for name, kind in SHORT_NAMES.items()}
    assert [name for name in names.values() if name not in words] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("mlp", "LaggedMLP has no setting 'x': choose from lags"), ("lstm", "LSTM has no setting 'x': it has none")],
)
def test_a_setting_that_a_cell_does_not_have_is_refused_with_those_it_has(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_cell(name, 2, 3, x=1)
