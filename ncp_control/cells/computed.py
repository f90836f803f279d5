"""Parameters that are computed from others: pruned ones, parametrised ones, and those of the older weight_norm."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm


def refresh(module: nn.Module) -> None:
    """Computes pruned and normalised parameters anew from the tensors that stand for them.

    Torch does this in a hook before a module is called. A scan reads a cell's parameters without such a call.
    """
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, BasePruningMethod | WeightNorm | SpectralNorm):
            hook(module, ())
    for part in module._modules.values():
        if part is not None:
            refresh(part)


def value_of(module: nn.Module, name: str) -> Tensor | None:
    """Returns a parameter, None for one that the module does without, or what is computed in its place.

    It is faster than the attribute, which counts in the single step of a controller.
    """
    own = module._parameters
    found: Tensor | None = own[name] if name in own else getattr(module, name)
    return found


def written_class(module: nn.Module) -> type[nn.Module]:
    """Returns the class that somebody wrote: `torch.nn.utils.parametrize` puts a subclass of its own in its place."""
    return type(module).__bases__[0] if "parametrizations" in module._modules else type(module)


def check_plain(module: nn.Module) -> None:
    """Raises a ValueError if a parameter is computed from others, so that a value written into it would not stay."""
    for name, part in module.named_modules():
        where = f"{name}." if name else ""
        found = list(part.parametrizations) if parametrize.is_parametrized(part) else []
        for hook in part._forward_pre_hooks.values():
            if isinstance(hook, BasePruningMethod):
                found.append(hook._tensor_name)
            elif isinstance(hook, WeightNorm | SpectralNorm):
                found.append(hook.name)
        if found:
            raise ValueError(
                f"{where}{found[0]} is pruned or parametrised, so that what is written into it does not stay: make it "
                "a plain parameter first, with torch.nn.utils.prune.remove, parametrize.remove_parametrizations or "
                "remove_weight_norm"
            )
