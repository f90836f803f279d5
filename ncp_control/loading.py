"""Loads a file of this package: a network, an agent, or a model of the dynamics or of series."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncp_control.base.kinds import Kind, kind_of
from ncp_control.checkpoint import load as load_network

if TYPE_CHECKING:
    import torch

    from ncp_control.neurons import Cell


def load(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> Any:
    """Loads a checkpoint without running code from it; a truncated, altered or foreign file is refused.

    :param path: the file
    :param device: the device of the networks
    :param backend: the backend of networks and models, as in `RNN`
    :param cells: your own classes of cells that the file may name
    :return: an `RNN` from a file of `save`; a `LoadedPolicy`, with `predict`, from one of `ncp_control.rl.save_policy`;
        a `DynamicsModel` or an `Ensemble` from one of `ncp_control.dynamics.save_model`; a `SeriesModel` from one of
        `ncp_control.series.save_series_model`
    """
    kind = kind_of(path)
    if kind is Kind.POLICY:
        from ncp_control.rl.files.policy_file import load_policy

        return load_policy(path, device, cells)
    if kind is Kind.DYNAMICS:
        from ncp_control.dynamics.model_file import load_model

        return load_model(path, device, backend, cells)
    if kind is Kind.SERIES:
        from ncp_control.series.model_file import load_series_model

        return load_series_model(path, device, backend, cells)
    return load_network(path, device, backend, cells)
