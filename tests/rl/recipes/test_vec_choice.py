"""Where environments are stepped, as users write it."""

from __future__ import annotations

import pytest

from ncp_control.base.processes import core_count
from ncp_control.rl.recipes.vec_choice import read_vec


def test_a_choice_is_a_number_of_worker_processes() -> None:
    assert (read_vec("same"), read_vec("processes=3")) == (0, 3)
    assert read_vec("processes") == core_count() >= 1


@pytest.mark.parametrize(
    ("vec", "sentence"),
    [
        ("process", "there is no vec 'process': choose same, processes or processes=N"),
        ("", "there is no vec ''"),
        ("same=2", "there is no vec 'same=2'"),
        ("processes=0", "vec processes=N takes a whole number N from 1 to 1000, not '0'"),
        ("processes=", "not ''"),
        ("processes=two", "not 'two'"),
        ("processes=-1", "not '-1'"),
        ("processes=1001", "not '1001'"),
    ],
)
def test_other_choices_are_refused(vec: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"vec") as refused:
        read_vec(vec)
    assert sentence in str(refused.value)
