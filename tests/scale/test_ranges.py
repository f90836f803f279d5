"""The ranges of a search, as a file says them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncp_control.scale.ranges import SearchRange, read_ranges

optuna = pytest.importorskip("optuna")


def read(text: str, folder: Path) -> dict[str, SearchRange]:
    (folder / "ranges.yml").write_text(text)
    return read_ranges(folder / "ranges.yml")


def test_every_form_becomes_a_distribution_of_optuna(tmp_path: Path) -> None:
    text = """
    learning_rate: {low: 1e-4, high: 1e-2, log: true}
    n_epochs: {low: 2, high: 10}
    batch_size: {low: 64, high: 256, step: 64}
    gamma: {low: 0.9, high: 0.99, step: 0.03}
    policy_kwargs.cell: [ltc, cfc]
    normalize: [true, false]
    """
    found = {key: own.distribution() for key, own in read(text, tmp_path).items()}
    of = optuna.distributions
    assert found == {
        "learning_rate": of.FloatDistribution(1e-4, 1e-2, log=True),
        "n_epochs": of.IntDistribution(2, 10),
        "batch_size": of.IntDistribution(64, 256, step=64),
        "gamma": of.FloatDistribution(0.9, 0.99, step=0.03),
        "policy_kwargs.cell": of.CategoricalDistribution(("ltc", "cfc")),
        "normalize": of.CategoricalDistribution(("true", "false")),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a range for each key"),
        ("[1, 2]", "must have a range for each key"),
        ("a: 3", "a must be a list of values, or"),
        ("a: {low: 1}", "a must be a list of values, or"),
        ("a: {low: 1, high: 2, lag: 3}", "a must be a list of values, or"),
        ("a: [1]", "a must list at least two values, each once"),
        ("a: [1, 1]", "a must list at least two values, each once"),
        ("a: {low: x, high: 2}", "a: low, high and step are numbers"),
        ("a: {low: .nan, high: 2}", "no setting can be nan"),
        ("a: {low: true, high: 2}", "a: low, high and step are numbers"),
        ("a: {low: 1, high: 2, log: 1}", "a: low, high and step are numbers"),
        ("a: {low: 2, high: 1}", "a: low must be below high"),
        ("a: {low: 0, high: 1, log: true}", "a: low must be below high, above 0 with log"),
        ("a: {low: 1, high: 2, step: 0}", "step above 0"),
        ("a: {low: 1, high: 2, step: 1, log: true}", "not with log"),
        ("a: !!python/name:os.system", "is not YAML of plain values"),
    ],
)
def test_what_is_no_range_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(text, tmp_path)
    assert "\n" not in str(caught.value)
