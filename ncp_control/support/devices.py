"""The device that torch computes on, by name, and the number of its threads."""

from __future__ import annotations

import torch


def pick_device(device: str | torch.device) -> torch.device:
    """Returns the device of a name; "auto" is a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}: choose cpu, cuda or auto") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no GPU that torch can use here: choose device cpu, or auto")
    return found


def use_threads(threads: int) -> None:
    """Sets how many threads torch computes with from now on."""
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    torch.set_num_threads(threads)
