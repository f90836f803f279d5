"""Writing a certificate as one web page, which holds all that it shows and uses no network."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from importlib import resources
from pathlib import Path

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedSynapse
from ncp_control.audit.page.drawing import draw
from ncp_control.audit.page.facts import page_data
from ncp_control.audit.sections import assumptions, sections_of
from ncp_control.audit.tables import Section
from ncp_control.base.files import write_atomically
from ncp_control.base.pages import all_shown, filled, page_head, script_json
from ncp_control.base.text import shown

AT_THE_TOP = ("BROKEN", "what is certified")
MANY = 100  # a longer table is folded
MOST_SYNAPSES = 5000  # more than that, a browser draws too slowly


def write_certificate(certificate: Certificate, path: str | Path) -> None:
    """Writes a certificate as a page: its wiring, in which neurons and synapses can be pointed at, and all its tables.

    :param path: the `.html` file; it is replaced as a whole if it exists
    """
    folder = resources.files("ncp_control.audit.page") / "static"
    drawn = replace(certificate, synapses=most_that_matter(certificate.synapses))
    sections = sections_of(certificate, full=True)
    shorter = sections_of(drawn, full=True)
    body = [
        replace(one, rows=other.rows)
        for one, other in zip(sections, shorter, strict=True)
        if one.title not in AT_THE_TOP
    ]
    title = escape(f"Certificate of {shown(certificate.agent)}")
    picture = draw(drawn)
    left = len(certificate.synapses) - len(drawn.synapses)
    parts = {
        "title": title,
        "verdict": verdict_of(certificate),
        "assumptions": section_of(assumptions(certificate)),
        "picture": picture or "<p>The agent has no memory, so there is no circuit to draw.</p>",
        "has_picture": "" if picture else "hidden",
        "left": f"<p>{left:,} synapses that matter less are not drawn and not listed; --json has them.</p>"
        if left
        else "",
        "sections": "\n".join(map(section_of, body)),
        "head": page_head(title, (folder / "page.css").read_text(encoding="utf-8")),
        "script": (folder / "page.js").read_text(encoding="utf-8"),
        "data": script_json(all_shown(page_data(drawn))),
    }
    page = filled((folder / "page.html").read_text(encoding="utf-8"), parts)
    write_atomically(path, page.encode("utf-8"))


def most_that_matter(synapses: tuple[CertifiedSynapse, ...]) -> tuple[CertifiedSynapse, ...]:
    """Returns as many synapses as a page can show, those that can matter most, in their order."""
    share = [1.0 if one.matters is None else one.matters for one in synapses]
    chosen = sorted(range(len(synapses)), key=lambda k: -share[k])[:MOST_SYNAPSES]
    return tuple(synapses[k] for k in sorted(chosen))


def verdict_of(certificate: Certificate) -> str:
    """Returns in one line whether the certificate was attacked, and whether it held."""
    attack = certificate.attack
    if attack is None:
        return '<p id="verdict">Proved by interval arithmetic; not attacked.</p>'
    inputs = words.counted(attack.inputs, "observation")
    if certificate.holds:
        return f'<p id="verdict" class="holds">Proved by interval arithmetic; an attack of {inputs} broke no claim.</p>'
    broken = "".join(f"<li>{escape(shown(one))}</li>" for one in attack.violations)
    count = words.counted(len(attack.violations), "claim")
    return f'<div id="verdict" class="broken" role="alert">An attack of {inputs} broke {count}:<ul>{broken}</ul></div>'


def section_of(section: Section) -> str:
    """Returns a section as HTML."""
    title = escape(shown(section.title[:1].upper() + section.title[1:]))
    name = re.sub(r"\W+", "-", section.title)
    lines = "".join(f"<p>{escape(shown(one))}</p>" for one in section.lines)
    table = facts = ""
    if section.header:
        table = f'<div class="wide" tabindex="0" role="region" aria-label="{title}">{table_of(section)}</div>'
    elif section.rows:
        pairs = "".join(f"<dt>{escape(shown(name))}</dt><dd>{escape(shown(text))}</dd>" for name, text in section.rows)
        facts = f"<dl>{pairs}</dl>"
    body = facts + table + lines
    if len(section.rows) > MANY:
        body = f"<details><summary>{len(section.rows):,} rows</summary>{table}</details>{lines}"
    return f'<section id="{name}"><h2>{title}</h2>{body}</section>'


def table_of(section: Section) -> str:
    """Returns a table whose columns can be sorted."""
    kinds = ["words" if k < section.left else "number" for k in range(len(section.header))]
    head = "".join(
        f'<th scope="col" class="{kind}"><button type="button">{escape(shown(name))}</button></th>'
        for name, kind in zip(section.header, kinds, strict=True)
    )
    body = "".join(f"<tr>{row_of(row, kinds)}</tr>" for row in section.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def row_of(row: Sequence[str], kinds: Sequence[str]) -> str:
    """Returns the cells of a row; the first one names it."""
    cells = [
        f'<td class="{kind}">{escape(shown(" ".join(cell.split())))}</td>'
        for cell, kind in zip(row[1:], kinds[1:], strict=True)
    ]
    return f'<th scope="row">{escape(shown(row[0]))}</th>' + "".join(cells)
