"""Where the jobs of a command run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

SELDOM = ("shared",)


@dataclass(frozen=True)
class Where:
    """The options of every command whose work can run on a cluster."""

    on: Annotated[str, tyro.conf.arg(metavar="PLACE")] = "local"
    """local (this machine), ray (start a cluster here), or a running cluster: HOST:PORT, ray://HOST:PORT, auto."""

    workers: int | None = None
    """Number of jobs at a time; by default one for each core."""

    shared: bool = False
    """All nodes of the cluster see the folder under the same path. Otherwise Ray sends the files back."""

    def place(self) -> Any:
        """Returns the place that the options mean."""
        from ncp_control.scale.cluster import place_of

        return place_of(self.on, self.workers, self.shared or None)
