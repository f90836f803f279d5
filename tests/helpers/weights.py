"""Weights of two models, or of one model before and after its training."""

from __future__ import annotations

from typing import Any

import torch


def weights(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.equal(value, theirs[name]), name


def moved(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, value in before.items() if not torch.equal(value, after[name])}
