"""Cells by their names."""

import pytest

from ncp_control.cells import NeuralLTC, make_cell


@pytest.mark.parametrize("name", ["NeuralLTC", "neuralltc", "neural_ltc", "neural-LTC"])
def test_cells_are_named_as_people_write_them(name: str) -> None:
    assert type(make_cell(name, 3, 4)) is NeuralLTC
    with pytest.raises(ValueError, match=f"unknown cell '{name}s': choose one of LTC, NeuralLTC"):
        make_cell(f"{name}s", 3, 4)
