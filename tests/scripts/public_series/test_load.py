"""The table of public sets."""

import re
from pathlib import Path

import pytest

from scripts.public_series.sets import PUBLIC, load_public

PAPER = {"gesture", "occupancy", "har", "smnist", "traffic", "power", "ozone", "person-1", "person-2"}


def test_every_set_of_the_paper_is_there_and_names_its_files(tmp_path: Path) -> None:
    assert set(PUBLIC) == PAPER | {"digits"}
    for name in PUBLIC:
        with pytest.raises(FileNotFoundError, match="which have these names in "):
            load_public(name, tmp_path)
        with pytest.raises(FileNotFoundError, match=r"does not exist: it should hold \S+"):
            load_public(name, tmp_path / "no")


def test_an_unknown_set_and_a_stride_that_has_no_use_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("there is no public set 'mnist': choose one of gesture, occupancy")):
        load_public("mnist", tmp_path)
    for name in ("smnist", "digits", "person-2"):
        with pytest.raises(ValueError, match=re.escape(f"the series of {name} are fixed: leave the stride out")):
            load_public(name, tmp_path, stride=8)
