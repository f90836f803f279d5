"""The places where jobs run, by their names on the command line."""

from __future__ import annotations

import re

from ncp_control.base.processes import JobPlace, Processes, core_count
from ncp_control.scale.cluster import HERE, Cluster, imported

LOCAL = "local"
ADDRESS = re.compile(r"(ray://)?[\w.\-\[\]:]+:\d+")


def place_of(name: str, workers: int | None = None, shared: bool | None = None) -> JobPlace:
    """Returns the place that a name means.

    :param name: "local", processes of this machine; "ray", a cluster of Ray that is started here; `ray://HOST:PORT`,
        `HOST:PORT` or "auto", a cluster that runs already
    :param workers: how many jobs run at once; by default one for each core
    :param shared: whether all nodes of a cluster see the jobs' folder under its path
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if name == LOCAL:
        if shared is not None:
            raise ValueError("--shared is for a cluster: processes of this machine share its disk")
        return Processes(workers or core_count())
    if name in (HERE, "auto") or ADDRESS.fullmatch(name):
        imported()  # it is missed here, before anything is written
        return Cluster(name, workers or 0, shared)
    raise ValueError(f"there is no place {name!r} to run on: choose local, ray, auto, HOST:PORT or ray://HOST:PORT")
