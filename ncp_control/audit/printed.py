"""A certificate as text for a terminal and as Markdown, alone or beside another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.sections import broken, moves_of, sections_of
from ncp_control.base.sections import WIDTH, Column, Section, aligned, markdown_of, table, text_of
from ncp_control.base.text import counted

BOX, ABSENT = "observations", "-"


def as_text(certificate: Certificate, width: int = WIDTH) -> str:
    """Returns a certificate for a terminal, about a screen long.

    :param width: how many characters a line of text may have; a table is as wide as it needs to be
    """
    return text_of(sections_of(certificate), width)


def as_markdown(certificate: Certificate) -> str:
    """Returns a certificate in Markdown, with a row for every sensor, neuron and synapse."""
    return markdown_of(f"Certificate of {certificate.agent}", sections_of(certificate, full=True))


def side_by_side(first: Certificate, second: Certificate, width: int = WIDTH) -> str:
    """Returns two certificates beside each other as text for a terminal."""
    return text_of(sections_of_both(first, second), width)


def side_by_side_markdown(first: Certificate, second: Certificate) -> str:
    """Returns two certificates beside each other in Markdown."""
    return markdown_of(f"{first.agent} beside {second.agent}", sections_of_both(first, second))


def sections_of_both(first: Certificate, second: Certificate) -> list[Section]:
    """Returns what two certificates say side by side, and the actions if both agents have the same."""
    sections = [section for section in (broken(first), broken(second)) if section is not None]
    header = ("", f"1: {first.agent}", f"2: {second.agent}")
    sections.append(Section("compared", header, rows_of(first, second), tuple(differs(first, second)), left=3))
    if [action.name for action in first.actions] == [action.name for action in second.actions]:
        sections.append(actions_of_both(first, second))
    return sections


def rows_of(first: Certificate, second: Certificate) -> tuple[tuple[str, ...], ...]:
    """Returns a row for each fact that is compared, without facts that neither agent has."""
    rows = [(name, tell(first), tell(second)) for name, tell in ROWS]
    rows = [row for row in rows if row[1:] != ("", "") and not (row[0] == BOX and first.box == second.box)]
    return tuple((name, left or ABSENT, right or ABSENT) for name, left, right in rows)


def differs(first: Certificate, second: Certificate) -> Iterable[str]:
    """Says which assumptions differ, so that numbers are compared with care."""
    ends = [[(each.low, each.high) for each in certificate.observations] for certificate in (first, second)]
    pairs = [
        ("sensors", first.sensors == second.sensors),
        ("observations", ends[0] == ends[1]),
        ("elapsed times", first.elapsed == second.elapsed),
        ("errors", (first.error, first.error_units) == (second.error, second.error_units)),
        ("shares that count as forgotten", first.epsilon == second.epsilon),
    ]
    names = [name for name, same in pairs if not same]
    if first.box == second.box:
        yield f"Both are certified for these observations: {first.box}."
    if names:
        yield f"The two are certified for different {words.listed(names)}: compare their numbers with care."


def actions_of_both(first: Certificate, second: Certificate) -> Section:
    """Returns a row for each action, with the numbers of both agents."""
    columns: list[Column] = [("action", [action.name for action in first.actions])]
    for number, certificate in enumerate((first, second), 1):
        columns.append((f"lies from ({number})", aligned(words.span(action.value) for action in certificate.actions)))
    for name, what in (("moved in 1 step", "moved_in_step"), ("moved in an episode", "moved_in_episode")):
        for number, certificate in enumerate((first, second), 1):
            columns.append((f"{name} ({number})", moves_of(certificate, what)))
    sizes = [words.error_of(certificate) for certificate in (first, second)]
    size = sizes[0] if sizes[0] == sizes[1] else f"{sizes[0]} (1) and {sizes[1]} (2)"
    return table(
        "actions", columns, [f"Of {first.agent} (1) and {second.agent} (2). Moved: by errors of up to {size}."]
    )


def _circuit(certificate: Certificate) -> str:
    return "no memory" if certificate.cell == "none" else certificate.cell


def _elapsed(certificate: Certificate) -> str:
    low, high = (words.nearest(end) for end in certificate.elapsed)
    return low if low == high else f"{low} to {high}"


def _count(condition: str) -> Callable[[Certificate], str]:
    return lambda certificate: _of_neurons(
        certificate, str(sum(one.condition == condition for one in certificate.neurons))
    )


def _synapses(condition: str) -> Callable[[Certificate], str]:
    return lambda certificate: _of_neurons(
        certificate, str(sum(one.condition == condition for one in certificate.synapses))
    )


def _of_neurons(certificate: Certificate, text: str) -> str:
    return text if certificate.neurons else ""


def _states(certificate: Certificate) -> str:
    if not certificate.neurons:
        return ""
    return words.at_most(float(np.median([one.state.high - one.state.low for one in certificate.neurons])))


def _time_constants(certificate: Certificate) -> str:
    return words.span(words.hull(one.time_constant for one in certificate.neurons)) if certificate.neurons else ""


def _forgets(certificate: Certificate) -> str:
    if certificate.forgetting is None:
        return ""
    return words.NOT_PROVED if certificate.forgetting.steps is None else counted(certificate.forgetting.steps, "step")


def _rate(certificate: Certificate) -> str:
    return "" if certificate.forgetting is None else words.share(certificate.forgetting.rate)


def _never(certificate: Certificate) -> str:
    return _of_neurons(certificate, str(sum(one.matters == 0 for one in certificate.synapses)))


def _worst(what: str) -> Callable[[Certificate], str]:
    """Returns a function that writes how far errors move the action that they move furthest."""

    def tell(certificate: Certificate) -> str:
        values = [getattr(one, what) for one in certificate.actions]
        if what == "moved_on_path" and set(values) == {None}:
            return ""
        moves = moves_of(certificate, what)
        for vague in (words.NOT_PROVED, words.WHOLE):
            if vague in moves:
                return vague
        return words.at_most(max(values))

    return tell


def _attack(certificate: Certificate) -> str:
    if certificate.attack is None:
        return "none"
    held = "held" if certificate.holds else f"broke {counted(len(certificate.attack.violations), 'claim')}"
    return f"{held}, {counted(certificate.attack.inputs, 'observation')}"


def _tightness(certificate: Certificate) -> str:
    return "" if certificate.attack is None else words.nearest(certificate.attack.tightness)


ROWS: tuple[tuple[str, Callable[[Certificate], str]], ...] = (
    ("SHA-256", lambda certificate: f"{certificate.sha256[:16]}..."),
    ("circuit", _circuit),
    ("neurons", lambda certificate: _of_neurons(certificate, f"{len(certificate.neurons):,}")),
    ("synapses", lambda certificate: _of_neurons(certificate, f"{len(certificate.synapses):,}")),
    (BOX, lambda certificate: certificate.box),
    ("elapsed time", _elapsed),
    ("width of a state (median)", _states),
    ("time constants", _time_constants),
    ("dead neurons", _count("dead")),
    ("saturated neurons", _count("saturated")),
    ("synapses always open", _synapses("open")),
    ("synapses always closed", _synapses("closed")),
    ("synapses through which nothing moves an action", _never),
    ("an error in one step moves an action by", _worst("moved_in_step")),
    ("errors in every step move an action by", _worst("moved_in_episode")),
    ("on the recording by", _worst("moved_on_path")),
    ("forgets after", _forgets),
    ("of a difference, left after a step", _rate),
    ("attack", _attack),
    ("certified width over what it reached (median)", _tightness),
)
