"""The settings of a fit."""

import pytest

from ncp_control.dynamics import FitSettings


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"learning_rate": 0.0}, "must be positive"),
        ({"schedule": "steps"}, "constant or cosine"),
        ({"loss": "l1"}, "raw or normalised"),
        ({"average": 1.0}, "share from 0 up to 1"),
        ({"robust": -1.0}, "must not be negative"),
        ({"forced": 1.5}, "forced is a weight from 0 to 1, got 1.5"),
        ({"horizon": 40}, "does not fit into windows of 32"),
        ({"horizon": -1}, "0 for the usual one, got -1"),
        ({"optimizer": "sgd"}, "adam or muon"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        FitSettings(**wrong)  # type: ignore[arg-type]


def test_the_schedule_goes_up_and_down() -> None:
    settings = FitSettings(learning_rate=1.0, schedule="cosine")
    rates = [settings.rate(k / 100) for k in range(101)]
    assert max(rates) == pytest.approx(settings.rate(0.05)) == pytest.approx(1.0)
    assert rates[0] < 0.05
    assert rates[-1] == pytest.approx(0.01)
    assert FitSettings(learning_rate=0.2).rate(0.7) == 0.2
    assert [FitSettings(epochs=10, horizon=6).horizon_at(k) for k in (0, 4, 9)] == [2, 6, 6]


def test_a_record_leaves_out_what_earlier_versions_did_not_know() -> None:
    assert "forced" not in FitSettings().recorded()
    assert FitSettings(forced=0.9).recorded()["forced"] == 0.9
    assert "optimizer" not in FitSettings().recorded()
    assert FitSettings(optimizer="muon").recorded()["optimizer"] == "muon"
    assert FitSettings().recorded()["horizon"] == 0
    assert [FitSettings(length=length).ahead for length in (8, 32)] == [8, 20]
    assert FitSettings(horizon=1).ahead == 1
