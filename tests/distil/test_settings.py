"""The settings of a distillation: what they refuse, the learning rate, and the steps of each iteration."""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncp_control.distil.settings import DistilSettings

COUNTS = ("steps", "batches", "batch", "length", "patience", "envs", "eval_episodes", "handover")
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, f"{name} must be a whole number of at least 1") for name in COUNTS for value in (0, -3, 2.5)),
    *(
        ({name: value}, f"{name} must be a whole number of at least 0")
        for name in ("iterations", "warm_up")
        for value in (-1, 0.5)
    ),
    *(({"disturbance": value}, "disturbance must be a number of at least 0") for value in (-0.1, nan, inf)),
    *(
        ({name: value}, f"{name} is a share from 0 to 1, got {value}")
        for name in ("demonstrations", "teacher_share", "start_share", "handover_at")
        for value in (-0.1, 1.1, nan)
    ),
    (
        {"teacher_share": 0.7, "start_share": 0.4},
        "teacher_share and start_share together are at most 1, got 0.7 and 0.4",
    ),
    ({"optimizer": "sgd"}, "optimizer is adam or muon, not 'sgd'"),
    *(({"synapses": value}, "synapses must be a whole number of at least 1") for value in (0, -300, 2.5)),
    ({"warm_up": 8, "length": 8}, "windows of 8 steps are too short for a warm-up of 8"),
    *(({"calm": value}, f"calm must be a number of at least 0, got {value}") for value in (-0.1, nan, inf)),
    *(
        ({name: value}, f"{name} must be a number above 0")
        for name in ("learning_rate", "max_grad_norm")
        for value in (0.0, -1.0, nan, inf)
    ),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_settings_that_make_no_sense_are_refused_by_their_name(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DistilSettings(**given)


def test_the_defaults_and_the_limits_are_accepted() -> None:
    DistilSettings()
    DistilSettings(
        **dict.fromkeys(COUNTS, 1), iterations=0, warm_up=0, disturbance=0.0, teacher_share=0.0, start_share=0.0
    )
    DistilSettings(demonstrations=1.0, teacher_share=0.5, start_share=0.5, handover_at=1.0)


def test_the_learning_rate_depends_on_the_cell_unless_one_is_given() -> None:
    rates = [DistilSettings().of_cell(cell).learning_rate for cell in ("ltc", "LTC", "lstm", "mlp", "another")]
    assert rates == [0.05, 0.05, 0.003, 0.001, 0.005]
    assert DistilSettings(learning_rate=0.5).of_cell("ltc").learning_rate == 0.5
    assert DistilSettings(optimizer="muon").of_cell("ltc").learning_rate == 0.02


@pytest.mark.parametrize(
    ("cell", "given", "optimizer", "rate"),
    [
        ("ltc", None, "adam", 0.05), ("another", None, "adam", 0.005),
        ("lstm", "muon", "muon", 0.02),
        ("dualltc", None, "muon", 0.01), ("DualLTC", None, "muon", 0.01), ("dual-ltc", None, "muon", 0.01),
        ("dual_ltc", "muon", "muon", 0.01), ("dualltc", "adam", "adam", 0.02),
    ],
)  # fmt: skip
def test_the_optimizer_depends_on_the_cell_unless_one_is_given(
    cell: str, given: str | None, optimizer: str, rate: float
) -> None:
    settings = DistilSettings(optimizer=given).of_cell(cell)
    assert (settings.optimizer, settings.learning_rate) == (optimizer, rate)
    assert DistilSettings(optimizer=given, learning_rate=0.5).of_cell(cell).learning_rate == 0.5
    assert settings.of_cell("ltc") == settings


def test_a_dual_ltc_that_learns_with_few_synapses_learns_faster() -> None:
    assert DistilSettings(synapses=300).of_cell("dualltc").learning_rate == 0.02
    assert DistilSettings(synapses=300, optimizer="adam").of_cell("dualltc").learning_rate == 0.02
    assert DistilSettings(synapses=300).of_cell("cfc").learning_rate == 0.01


def test_the_record_of_a_run_names_the_optimizer_and_synapses_only_if_earlier_versions_did_not_have_them() -> None:
    earlier = DistilSettings().of_cell("ltc").recorded()
    assert "optimizer" not in earlier
    assert "synapses" not in earlier
    assert "calm" not in earlier
    assert DistilSettings(calm=0.1).of_cell("cfc").recorded()["calm"] == 0.1
    assert earlier["learning_rate"] == 0.05
    assert DistilSettings(optimizer="muon").of_cell("ltc").recorded()["optimizer"] == "muon"
    assert DistilSettings().of_cell("dualltc").recorded()["optimizer"] == "muon"
    assert DistilSettings(synapses=300).of_cell("cfc").recorded()["synapses"] == 300


def test_without_a_cell_there_is_no_learning_rate() -> None:
    with pytest.raises(ValueError, match=r"of_cell\(name\) gives the cell's default"):
        DistilSettings().rate(0.5)


def test_the_learning_rate_rises_for_a_tenth_of_the_batches_and_falls_to_a_thousandth() -> None:
    settings = DistilSettings(learning_rate=2.0)
    ends = [settings.rate(done) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
    assert ends == pytest.approx([0.08, 1.04, 2.0, 1.001, 0.002])
    rates = [settings.rate(k / 1000) for k in range(1001)]
    assert rates[:101] == sorted(rates[:101])
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert max(abs(one - other) for one, other in pairwise(rates)) < 0.02  # no jump


@given(steps=st.integers(1, 10**7), iterations=st.integers(0, 60), share=st.floats(0, 1))
def test_the_steps_of_all_iterations_add_up_to_the_steps(steps: int, iterations: int, share: float) -> None:
    settings = DistilSettings(steps=steps, iterations=iterations, demonstrations=share)
    until = [settings.steps_until(iteration) for iteration in range(iterations + 1)]
    assert until == sorted(until)
    assert until[-1] == steps
    assert until[0] == (round(share * steps) if iterations else steps)
    shares = [after - before for before, after in pairwise(until)]
    assert not shares or max(shares) - min(shares) <= 1


def test_the_batches_of_all_iterations_count() -> None:
    assert DistilSettings(batches=7, iterations=3).all_batches == 28
