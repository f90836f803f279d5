"""One call for every file of ours: networks, agents, models of the dynamics."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncp_control.checkpoint import load as load_network
from ncp_control.storage.safe_tensors import read_kind

if TYPE_CHECKING:
    import torch

    from ncp_control.cells import Cell


def load(
    path: str | Path, device: str | torch.device = "cpu", backend: str = "auto", cells: Iterable[type[Cell]] = ()
) -> Any:
    """Reads what a checkpoint holds, and runs no code from it; a file that is truncated, altered or foreign is refused.

    An `RNN` from a file of `save`, a `LoadedPolicy` (with `predict`) from one of `ncp_control.rl.save_policy`, and a
    `DynamicsModel` or an `Ensemble` from one of `ncp_control.dynamics.save_model`.

    :param path: the file
    :param device: where the networks go
    :param backend: of networks and models, as in `RNN`
    :param cells: classes of your own that the file may name
    """
    kind = read_kind(path)
    if kind == "ncp_control.policy":
        from ncp_control.rl.files.policy_file import load_policy

        return load_policy(path, device, cells)
    if kind == "ncp_control.dynamics":
        from ncp_control.dynamics.model_file import load_model

        return load_model(path, device, backend, cells)
    return load_network(path, device, backend, cells)
