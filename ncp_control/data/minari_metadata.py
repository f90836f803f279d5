"""What Minari's users expect to know of a dataset: its algorithm, author, versions, reference scores and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ncp_control.data.rollout import Rollout
from ncp_control.data.scores import ENDS, scale_in

REQUIRED = ("ncp-control", "gymnasium", "mujoco")  # what makes the environment again
# Minari's names of entries, and the names that they have in `Rollouts.about`.
KEPT = {"algorithm_name": "algorithm", "description": "description", "code_permalink": "code_link"}


def fields_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments of Minari's `create_dataset_from_buffers`.

    :param record: the record of a collection. Its `controller` and `versions` are always read; `description`,
        `algorithm`, `author`, `author_email`, `code_link` and `references` (see `References`) where they are known
    """
    versions = record.get("versions", {})
    fields = {
        "algorithm_name": str(record.get("algorithm") or record.get("controller", {}).get("name", "unknown")),
        "description": str(record.get("description", "")),
        "requirements": [f"{name}=={versions[name]}" for name in REQUIRED if name in versions],
        "author": record.get("author"),
        "author_email": record.get("author_email"),
        "code_permalink": record.get("code_link"),
    }
    if references := record.get("references"):
        fields |= dict(zip(ENDS, (references["random"], references["expert"]), strict=True))
        fields["num_episodes_average_score"] = references["episodes"]
    return fields


def statistics_of(rollouts: Sequence[Rollout]) -> list[dict[str, float]]:
    """Returns what Minari's own collector notes of every episode's rewards."""
    kinds = ("sum", "mean", "std", "max", "min")
    return [{f"rewards_{kind}": float(getattr(rollout.rewards, kind)()) for kind in kinds} for rollout in rollouts]


def about_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of a dataset's metadata, whoever wrote them, that belong into `Rollouts.about`."""
    about: dict[str, Any] = {name: text for key, name in KEPT.items() if isinstance(text := metadata.get(key), str)}
    authors, parts = metadata.get("author"), metadata.get("combined_datasets")
    if isinstance(authors, list | set) and authors:
        about["author"] = ", ".join(sorted(map(str, authors)))
    if isinstance(parts, list) and parts:
        about["combined_from"] = [str(part) for part in parts]
    scale = scale_in(metadata)
    return about if scale is None else about | dict(zip(ENDS, scale, strict=True))
