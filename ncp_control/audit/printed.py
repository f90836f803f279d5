"""A certificate as text for a terminal and as Markdown, alone or beside another one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.sections import Column, Section, aligned, broken, moves_of, sections_of, table
from ncp_control.base.text import markdown, shown

WIDTH = 110
LONGEST_NAME = 46  # of a cell in a table on a terminal
GAP = "  "
BOX, ABSENT = "observations", "-"


def as_text(certificate: Certificate, width: int = WIDTH) -> str:
    """Returns a certificate for a terminal, about a screen long.

    :param width: how many characters a line of text may have; a table is as wide as it needs to be
    """
    return text_of(sections_of(certificate), width)


def as_markdown(certificate: Certificate) -> str:
    """Returns a certificate in Markdown, with a row for every sensor, neuron and synapse."""
    return markdown_of(f"Certificate of {certificate.agent}", sections_of(certificate, full=True))


def text_of(sections: Sequence[Section], width: int = WIDTH) -> str:
    """Returns sections as text in which control characters are escaped, so that a name cannot command the terminal."""
    terms = [row[0] for section in sections if not section.header for row in section.rows or ((section.title,),)]
    term = max(map(len, terms), default=0)
    text = ""
    for before, section in zip([None, *sections], sections, strict=False):
        # What consists of sentences needs no empty lines in between.
        apart = "\n" if before is not None and (before.header or section.header) else ""
        text += apart + "\n".join(_table(section, width) if section.header else _facts(section, width, term)) + "\n"
    return text


def markdown_of(title: str, sections: Sequence[Section]) -> str:
    """Returns sections in Markdown, which shows all names as they are."""
    parts = [f"# {markdown(title)}"]
    for section in sections:
        parts.append(f"## {markdown(section.title[:1].upper() + section.title[1:])}")
        if section.rows:
            parts.append("\n".join(_markdown_table(section)))
        if section.lines:
            mark = "- " if len(section.lines) > 1 else ""
            parts.append("\n".join(f"{mark}{markdown(line)}" for line in section.lines))
    return "\n\n".join(parts) + "\n"


def cut(text: str) -> str:
    """Returns a text for a cell of a table: one line, and not too long."""
    text = shown(text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _table(section: Section, width: int) -> list[str]:
    """Returns a table: words and ranges are aligned on the left, other numbers on the right."""
    rows = [[cut(cell) for cell in row] for row in (section.header, *section.rows)]
    lines = [""] * len(rows)
    for k, column in enumerate(zip(*rows, strict=True)):
        size, words = max(map(len, column)), k < section.left or any(" to " in cell for cell in column[1:])
        lines = [
            line + GAP * (k > 0) + (cell.ljust(size) if words else cell.rjust(size))
            for line, cell in zip(lines, column, strict=True)
        ]
    return [line.rstrip() for line in lines] + [part for line in section.lines for part in _wrapped(line, width)]


def _facts(section: Section, width: int, term: int) -> list[str]:
    """Returns sentences, each behind the term that it explains."""
    rows = section.rows or tuple((section.title if k == 0 else "", line) for k, line in enumerate(section.lines))
    return [part for name, text in rows for part in _wrapped(text, width, f"{shown(name).ljust(term)}{GAP}")]


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    """Breaks a text into lines, of which the first begins with `lead` and the others below it."""
    # A number stays on one line with its percent sign; what `shown` returns has no such character.
    kept = shown(text).replace(" %", "\0%")
    lines = textwrap.wrap(
        kept, width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def _markdown_table(section: Section) -> list[str]:
    """Returns the lines of a table in Markdown."""
    header = section.header or ("", "")
    marks = ["---" if k < section.left or not section.header else "---:" for k in range(len(header))]
    rows = [[markdown(" ".join(cell.split())) for cell in row] for row in section.rows]
    return [f"| {' | '.join(row)} |" for row in [[markdown(one) for one in header], marks, *rows]]


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
    return (
        words.NOT_PROVED
        if certificate.forgetting.steps is None
        else words.counted(certificate.forgetting.steps, "step")
    )


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
    held = "held" if certificate.holds else f"broke {words.counted(len(certificate.attack.violations), 'claim')}"
    return f"{held}, {words.counted(certificate.attack.inputs, 'observation')}"


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
