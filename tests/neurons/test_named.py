"""Cells by their names."""

import pytest

from ncp_control.neurons import NeuralLTC, make_cell


@pytest.mark.parametrize("name", ["NeuralLTC", "neuralltc", "neural_ltc", "neural-LTC"])
def test_cells_are_named_as_people_write_them(name: str) -> None:
    assert type(make_cell(name, 3, 4)) is NeuralLTC
    with pytest.raises(ValueError, match=f"unknown cell '{name}s': choose one of LTC, NeuralLTC"):
        make_cell(f"{name}s", 3, 4)


@pytest.mark.parametrize(
    ("name", "words"),
    [("mlp", "LaggedMLP has no setting 'x': choose from lags"), ("lstm", "LSTM has no setting 'x': it has none")],
)
def test_a_setting_that_a_cell_does_not_have_is_refused_with_those_it_has(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_cell(name, 2, 3, x=1)
