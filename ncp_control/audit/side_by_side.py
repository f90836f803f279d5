"""Two certificates beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.printed import WIDTH, markdown_of, text_of
from ncp_control.audit.sections import broken, moves_of
from ncp_control.audit.tables import Column, Section, aligned, table

BOX, ABSENT = "observations", "-"


def side_by_side(one: Certificate, other: Certificate, width: int = WIDTH) -> str:
    """Returns two certificates beside each other as text for a terminal."""
    return text_of(sections_of_both(one, other), width)


def side_by_side_markdown(one: Certificate, other: Certificate) -> str:
    """Returns two certificates beside each other in Markdown."""
    return markdown_of(f"{one.agent} beside {other.agent}", sections_of_both(one, other))


def sections_of_both(one: Certificate, other: Certificate) -> list[Section]:
    """Returns what two certificates say in rows that can be compared, and the actions if they are the same ones."""
    found = [part for part in (broken(one), broken(other)) if part is not None]
    header = ("", f"1: {one.agent}", f"2: {other.agent}")
    found.append(Section("compared", header, rows_of(one, other), tuple(differs(one, other)), left=3))
    if [action.name for action in one.actions] == [action.name for action in other.actions]:
        found.append(actions_of_both(one, other))
    return found


def rows_of(one: Certificate, other: Certificate) -> tuple[tuple[str, ...], ...]:
    """Returns a row for each thing that is compared, without those that neither agent has."""
    rows = [(name, tell(one), tell(other)) for name, tell in ROWS]
    rows = [row for row in rows if row[1:] != ("", "") and not (row[0] == BOX and one.box == other.box)]
    return tuple((name, first or ABSENT, second or ABSENT) for name, first, second in rows)


def differs(one: Certificate, other: Certificate) -> Iterable[str]:
    """Says which assumptions differ, so that numbers are compared with care."""
    ends = [[(each.low, each.high) for each in found.observations] for found in (one, other)]
    pairs = [
        ("sensors", one.sensors == other.sensors),
        ("observations", ends[0] == ends[1]),
        ("elapsed times", one.elapsed == other.elapsed),
        ("errors", (one.error, one.error_units) == (other.error, other.error_units)),
        ("shares that count as forgotten", one.epsilon == other.epsilon),
    ]
    names = [name for name, same in pairs if not same]
    if one.box == other.box:
        yield f"Both are certified for these observations: {one.box}."
    if names:
        yield f"The two are certified for different {words.listed(names)}: compare their numbers with care."


def actions_of_both(one: Certificate, other: Certificate) -> Section:
    """Returns a row for each action, with the numbers of both agents."""
    columns: list[Column] = [("action", [action.name for action in one.actions])]
    for number, found in enumerate((one, other), 1):
        columns.append((f"lies from ({number})", aligned(words.span(action.value) for action in found.actions)))
    for name, what in (("moved now", "moved_now"), ("moved always", "moved_always")):
        for number, found in enumerate((one, other), 1):
            columns.append((f"{name} ({number})", moves_of(found, what)))
    sizes = [words.error_of(found) for found in (one, other)]
    size = sizes[0] if sizes[0] == sizes[1] else f"{sizes[0]} (1) and {sizes[1]} (2)"
    return table("actions", columns, [f"Of {one.agent} (1) and {other.agent} (2). Moved: by errors of up to {size}."])


def _circuit(found: Certificate) -> str:
    return "no memory" if found.cell == "none" else found.cell


def _elapsed(found: Certificate) -> str:
    low, high = (words.nearest(end) for end in found.elapsed)
    return low if low == high else f"{low} to {high}"


def _count(condition: str) -> Callable[[Certificate], str]:
    return lambda found: _of_neurons(found, str(sum(one.condition == condition for one in found.neurons)))


def _synapses(condition: str) -> Callable[[Certificate], str]:
    return lambda found: _of_neurons(found, str(sum(one.condition == condition for one in found.synapses)))


def _of_neurons(found: Certificate, text: str) -> str:
    return text if found.neurons else ""


def _states(found: Certificate) -> str:
    if not found.neurons:
        return ""
    return words.at_most(float(np.median([one.state.high - one.state.low for one in found.neurons])))


def _time_constants(found: Certificate) -> str:
    return words.span(words.hull(one.time_constant for one in found.neurons)) if found.neurons else ""


def _forgets(found: Certificate) -> str:
    if found.forgetting is None:
        return ""
    return words.NOT_SHOWN if found.forgetting.steps is None else words.counted(found.forgetting.steps, "step")


def _rate(found: Certificate) -> str:
    return "" if found.forgetting is None else words.share(found.forgetting.rate)


def _never(found: Certificate) -> str:
    return _of_neurons(found, str(sum(one.matters == 0 for one in found.synapses)))


def _worst(what: str) -> Callable[[Certificate], str]:
    """Returns what writes how far the action is moved that is moved furthest."""

    def tell(found: Certificate) -> str:
        values = [getattr(one, what) for one in found.actions]
        if what == "moved_on_path" and set(values) == {None}:
            return ""
        told = moves_of(found, what)
        for vague in (words.NOT_SHOWN, words.WHOLE):
            if vague in told:
                return vague
        return words.at_most(max(values))

    return tell


def _attack(found: Certificate) -> str:
    if found.attack is None:
        return "none"
    held = "held" if found.holds else f"broke {words.counted(len(found.attack.violations), 'claim')}"
    return f"{held}, {words.counted(found.attack.inputs, 'observation')}"


def _tightness(found: Certificate) -> str:
    return "" if found.attack is None else words.nearest(found.attack.tightness)


ROWS: tuple[tuple[str, Callable[[Certificate], str]], ...] = (
    ("SHA-256", lambda found: f"{found.sha256[:16]}..."),
    ("circuit", _circuit),
    ("neurons", lambda found: _of_neurons(found, f"{len(found.neurons):,}")),
    ("synapses", lambda found: _of_neurons(found, f"{len(found.synapses):,}")),
    (BOX, lambda found: found.box),
    ("elapsed time", _elapsed),
    ("width of a state (median)", _states),
    ("time constants", _time_constants),
    ("dead neurons", _count("dead")),
    ("saturated neurons", _count("saturated")),
    ("synapses always open", _synapses("open")),
    ("synapses always closed", _synapses("closed")),
    ("synapses through which nothing moves an action", _never),
    ("an error moves an action now by", _worst("moved_now")),
    ("an error moves an action always by", _worst("moved_always")),
    ("on the recording by", _worst("moved_on_path")),
    ("forgets after", _forgets),
    ("of a difference, left after a step", _rate),
    ("attack", _attack),
    ("certified width over what it reached (median)", _tightness),
)
