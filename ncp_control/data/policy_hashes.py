"""Hashes that tell whether two policies are the same: of a model's weights, and of a function's code."""

from __future__ import annotations

import hashlib
from types import CodeType
from typing import Any

import numpy as np
import torch

from ncp_control.base.tensors import hash_of_tensors
from ncp_control.data.normalizing import normalization_of


def hash_of_weights(model: Any) -> str | None:
    """Returns the SHA-256 of the names, shapes and bytes of a model's weights and of its observation normalisation;
    None for a model without weights.
    """
    module = getattr(model, "policy", model)
    if not isinstance(module, torch.nn.Module):
        return None
    tensors, normalize = dict(module.state_dict()), normalization_of(model)
    if normalize is not None:
        limits = torch.tensor([normalize["epsilon"], normalize["clip"]], dtype=torch.float64)
        tensors |= normalize["tensors"] | {"normalize.limits": limits}
    return hash_of_tensors(tensors)


def hash_of_function(function: Any) -> str | None:
    """Returns the SHA-256 of a plain function's code, constants, defaults and enclosed variables; None for anything
    else. Global variables that the function reads are not included.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    digest = hashlib.sha256()
    try:
        enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        for part in (code, function.__defaults__, function.__kwdefaults__, enclosed):
            _add(digest, part)
    except (TypeError, ValueError):  # a value of a kind that is not hashed here, or an enclosed variable without one
        return None
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    """Adds a constant or a collection of constants to the digest; raises TypeError for anything else."""
    if isinstance(part, CodeType):
        # without its file and its lines, which change where the function does not
        _add(digest, (part.co_code, part.co_names, part.co_varnames, part.co_freevars, part.co_consts))
    elif isinstance(part, list | tuple):
        digest.update(f"{len(part)}(".encode())  # so that (a, (b)) differs from ((a), b)
        for entry in part:
            _add(digest, entry)
    elif isinstance(part, dict):
        _add(digest, (*part, *part.values()))
    elif isinstance(part, np.ndarray) and part.dtype != object:
        digest.update(f"{part.dtype} {part.shape} ".encode() + part.tobytes())
    elif part is None or part is ... or isinstance(part, int | float | complex | str | bytes):
        digest.update(f"{type(part).__name__} {part!r} ".encode())
    else:
        raise TypeError(type(part).__name__)
