"""Where the environments of a training are stepped: in the process of the training, or in worker processes."""

from __future__ import annotations

from ncp_control.base.processes import core_count

SAME, PROCESSES = "same", "processes"
MOST_WORKERS = 1000


def read_vec(vec: str) -> int:
    """Returns the number of worker processes that a choice asks for; 0 stands for the process of the training itself.

    :param vec: `same`; `processes`, as many as there are cores; or `processes=N`
    """
    name, equals, count = vec.partition("=")
    if vec == SAME:
        return 0
    if name == PROCESSES and not equals:
        return core_count()
    if name == PROCESSES and count.isdecimal() and 1 <= int(count) <= MOST_WORKERS:
        return int(count)
    if name == PROCESSES:
        raise ValueError(f"vec {PROCESSES}=N takes a whole number N from 1 to {MOST_WORKERS}, not {count!r}")
    raise ValueError(f"there is no vec {vec!r}: choose {SAME}, {PROCESSES} or {PROCESSES}=N")
