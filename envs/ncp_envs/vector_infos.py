"""The infos of a vector environment, to which a wrapper adds entries of its own."""

from __future__ import annotations

from typing import Any

Info = dict[str, Any]


def join_infos(added: Info, inner: Info) -> Info:
    """Returns the infos of a vector environment with the entries that a wrapper adds.

    An inner wrapper may have reported the same entry, as where an action is changed twice. For each environment the
    inner entry takes precedence, as it does in the infos of a single environment.

    :param added: the wrapper's entries, with a mask `_key` for every `key` as Gymnasium makes them
    :param inner: the infos of the vector environment inside
    """
    joined = added | inner
    for key in added.keys() & inner.keys():
        mask, inner_mask = added.get(f"_{key}"), inner.get(f"_{key}")
        if isinstance(added[key], dict) and isinstance(inner[key], dict):
            joined[key] = join_infos(added[key], inner[key])
        elif mask is not None and inner_mask is not None and (missing := mask & ~inner_mask).any():
            joined[key] = inner[key].copy()
            joined[key][missing] = added[key][missing]
            joined[f"_{key}"] = mask | inner_mask
    return joined
