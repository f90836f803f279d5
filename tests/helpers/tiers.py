"""Which tier a test's cases belong to: the marks in its code, then a rule that thins out combinations.

Most tests are run for many cells, backends, types and options at once. Of these combinations

- the fast tier has every value once, of the cells those of `REPRESENTATIVES` only;
- the system tier adds cases until every cell and every other value has been there;
- the slow tier has all the rest.

So of two arguments with five values each, a tier has five of the 25 combinations, in which the values take turns.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import torch

from helpers.cells import REPRESENTATIVES, WIDE, ZOO

KINDS = ("browser", "cluster")  # what needs one of them is in the system tier
WITHOUT_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
PLAIN = (str, int, float, bool, tuple, type(None))


def assign(items: Iterable[pytest.Item]) -> None:
    """Marks cases as `system` and `slow`. Those on a GPU are all kept, and skip where there is none."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker("system")
            item.add_marker(WITHOUT_GPU)
        elif not any(item.get_closest_marker(mark) for mark in ("slow", "clients")):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        rare = [item for item in cases if is_rare(item)]
        seen = Counter[Any]()
        others = thinned([item for item in cases if item not in rare], seen)
        for item in (*rare, *others):
            item.add_marker("system")
        for item in thinned([*rare, *others], seen):
            item.add_marker("slow")


def clusters_first(items: list[pytest.Item]) -> None:
    """Begins with the tests of clusters: they wait for processes to start, while other workers compute."""
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)


def is_rare(item: pytest.Item) -> bool:
    """Whether a case is marked as `system`, or of a cell whose like another cell of the fast tier represents."""
    if any(item.get_closest_marker(mark) for mark in ("system", *KINDS)):
        return True
    cells = [value for _, value in parameters(item) if isinstance(value, str) and (value in ZOO or value in WIDE)]
    return any(cell not in REPRESENTATIVES for cell in cells)


def thinned(cases: list[pytest.Item], seen: Counter[Any]) -> list[pytest.Item]:
    """Takes cases of one test for a tier until each value was there, and returns those that are left.

    :param seen: how often each value was there; those of the taken cases are added
    """
    left = [(item, [(name, key(value)) for name, value in parameters(item)]) for item in cases]
    while left:
        best = max(left, key=lambda case: (sum(not seen[one] for one in case[1]), -sum(seen[one] for one in case[1])))
        if best[1] and all(seen[one] for one in best[1]):
            break
        seen.update(best[1])
        left.remove(best)
    return [item for item, _ in left]


def parameters(item: pytest.Item) -> list[tuple[str, Any]]:
    """Returns the parameters of a case."""
    return list(item.callspec.params.items()) if hasattr(item, "callspec") else []


def key(value: Any) -> Any:
    """Returns what only equal values of a parameter share."""
    return repr(value) if isinstance(value, PLAIN) else id(value)
