"""The script that ranks policies in a model says how well the model ranks them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ncp_control.cli import evaluate_inside
from scripts import rank_policies


@pytest.mark.parametrize(("true", "correlation"), [((3.0, 2.0, 1.0), -1.0), ((1.0, 2.0, 2.5), 1.0), ((1, 1, 1), None)])
def test_the_ranks_of_the_returns_are_compared(
    true: tuple[float, ...],
    correlation: float | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["a", "b", "c"]

    def foretold(arguments: Any) -> dict[str, Any]:
        place = names.index(str(arguments.policy))
        assert arguments.inside == (Path("model"),)
        returns = {"model_return": 10.0 * place, "model_std": 1.0, "true_return": true[place], "true_std": 1.0}
        return {"checkpoint": str(arguments.policy), **returns}

    monkeypatch.setattr(evaluate_inside, "evaluate", foretold)
    monkeypatch.setattr(sys, "argv", ["rank_policies.py", *names, "--in", "model", "--json"])
    rank_policies.main()
    found = json.loads(capsys.readouterr().out)
    assert [one["checkpoint"] for one in found["policies"]] == ["c", "b", "a"]
    assert found["spearman"] == (None if correlation is None else pytest.approx(correlation))
    monkeypatch.setattr(sys, "argv", ["rank_policies.py", *names, "--in", "model"])
    rank_policies.main()
    assert "Spearman's rank correlation" in capsys.readouterr().out
