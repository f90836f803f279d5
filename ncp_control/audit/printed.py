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
LONGEST_NAME = 46
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
    """Returns sections as text, in which characters that a terminal would obey stand as escapes."""
    terms = [row[0] for one in sections if not one.header for row in one.rows or ((one.title,),)]
    term = max(map(len, terms), default=0)
    found = ""
    for before, one in zip([None, *sections], sections, strict=False):
        # What consists of sentences needs no empty lines in between.
        apart = "\n" if before is not None and (before.header or one.header) else ""
        found += apart + "\n".join(_table(one, width) if one.header else _facts(one, width, term)) + "\n"
    return found


def markdown_of(title: str, sections: Sequence[Section]) -> str:
    """Returns sections in Markdown, which shows all names as they are."""
    parts = [f"# {markdown(title)}"]
    for one in sections:
        parts.append(f"## {markdown(one.title[:1].upper() + one.title[1:])}")
        if one.rows:
            parts.append("\n".join(_markdown_table(one)))
        if one.lines:
            mark = "- " if len(one.lines) > 1 else ""
            parts.append("\n".join(f"{mark}{markdown(line)}" for line in one.lines))
    return "\n\n".join(parts) + "\n"


def cut(text: str) -> str:
    """Returns a text for a cell of a table: one line, and not too long."""
    text = shown(text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _table(section: Section, width: int) -> list[str]:
    """Returns a table: words and ranges begin at one place, and other numbers end there."""
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
    """Returns sentences, with what they are about before them."""
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
