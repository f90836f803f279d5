"""What a certificate says, as tables and sentences that a terminal and Markdown show."""

from __future__ import annotations

import math

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.circuit_sections import FEW, forgetting, neurons, synapses
from ncp_control.audit.tables import Column, Section, aligned, table

WIDE = 64  # a matrix with a column for each action may be that wide
MOST_BROKEN = 10  # how many broken claims are listed
NEVER = "."


def sections_of(certificate: Certificate, full: bool = False) -> list[Section]:
    """Returns the sections of a certificate.

    :param full: with a row for every sensor, neuron and synapse
    """
    found = [
        broken(certificate),
        assumptions(certificate),
        actions(certificate),
        sensors(certificate) if full else None,
        neurons(certificate, full),
        paths(certificate, full),
        forgetting(certificate),
        synapses(certificate, full),
        attack(certificate),
        notes(certificate),
    ]
    return [one for one in found if one is not None]


def broken(certificate: Certificate) -> Section | None:
    """Says first of all that an attack broke claims."""
    if certificate.attack is None or certificate.holds:
        return None
    count = words.counted(len(certificate.attack.violations), "claim")
    lead = f"An attack broke {count} about {certificate.agent}, so this certificate is wrong:"
    lines = [lead, *certificate.attack.violations[:MOST_BROKEN]]
    if len(certificate.attack.violations) > MOST_BROKEN:
        lines.append(f"and {len(certificate.attack.violations) - MOST_BROKEN:,} more, which --json lists.")
    return Section("BROKEN", lines=tuple(lines))


def assumptions(certificate: Certificate) -> Section:
    """Says what was certified, and when it holds."""
    low, high = (words.nearest(one) for one in certificate.elapsed)
    times = f"{low} before every step" if low == high else f"from {low} to {high}, another one before every step"
    pairs = zip(certificate.sensors, certificate.observations, strict=True)
    free = [name for name, one in pairs if not math.isfinite(one.high - one.low)]
    took = f"{certificate.seconds:,.1f} s"
    cell = "no memory" if certificate.cell == "none" else certificate.cell
    rows = (
        ("agent", f"{certificate.agent} (SHA-256 {certificate.sha256[:16]}...), audited in {took}"),
        ("circuit", f"{cell}; {words.counts_of(certificate)}"),
        ("observations", certificate.box + (f"; without limits for {words.listed(free)}" if free else "")),
        ("elapsed time", f"{times}, in steps of the training"),
        ("holds for", "every sequence of such observations, however long, from the start of an episode; ranges with "
         "the rounding of float32, and what moves, forgets or matters in exact arithmetic. Bounds are rounded outward"),
    )  # fmt: skip
    return Section("what is certified", rows=rows)


def actions(certificate: Certificate) -> Section:
    """Says what every action can be, and how far errors of observations move it."""
    every, chooses = certificate.actions, certificate.chooses
    limited = chooses or any((one.raw.low, one.raw.high) != (one.value.low, one.value.high) for one in every)
    columns: list[Column] = [("choice" if chooses else "action", [one.name for one in every])]
    if chooses:
        columns.append(("ever made", ["yes" if one.possible else "never" for one in every]))
    columns.append(
        ("exceeds the others by" if chooses else "lies from", aligned(words.span(one.value) for one in every))
    )
    if limited:
        columns.append(("its value" if chooses else "before limits", aligned(words.span(one.raw) for one in every)))
    if any(one.raw.found_low is not None for one in every):
        columns.append(("attack reached", aligned(words.found(one.raw) for one in every)))
    columns.append(("moved now", moves_of(certificate, "moved_now")))
    columns.append(("moved always", moves_of(certificate, "moved_always")))
    if any(one.moved_on_path is not None for one in every):
        columns.append(("on recording", moves_of(certificate, "moved_on_path")))
    if any(one.found_moved is not None for one in every):
        columns.append(
            ("attack moved", [f"{words.nearest(one.found_moved)}, {words.nearest(one.found_always)}" for one in every])
        )
    path = ", and in the same step on the recording" if any(one.moved_on_path is not None for one in every) else ""
    lines = [
        f"Moved: how far errors of up to {words.error_of(certificate)} can move it, in the same step (now) and by "
        f"errors in all steps (always){path}."
    ]
    return table("actions", columns, lines, 2 if chooses else 1)


def moves_of(certificate: Certificate, what: str) -> list[str]:
    """Writes how far each action can be moved.

    :param what: "moved_now", "moved_always" or "moved_on_path"
    """
    chooses = certificate.chooses
    limits = [words.width(one.raw if chooses else one.value) for one in certificate.actions]
    return [words.moved(getattr(one, what), most) for one, most in zip(certificate.actions, limits, strict=True)]


def sensors(certificate: Certificate) -> Section:
    """Lists the box."""
    columns: list[Column] = [
        ("sensor", list(certificate.sensors)),
        ("certified within", aligned(words.span(one) for one in certificate.observations)),
        ("an error of 1 is", [words.nearest(one) for one in certificate.error_units]),
    ]
    return table("sensors", columns)


def paths(certificate: Certificate, full: bool) -> Section:
    """Says which sensor reaches which action; unless it is `full`, sensors of equal signs share a row."""
    title = "which sensor reaches which action"
    if not certificate.paths and any(one.moved_now is None for one in certificate.actions):
        return Section("paths", lines=(f"Which sensor reaches which action is {words.NOT_SHOWN}.",))
    reached = {(one.sensor, one.action): one for one in certificate.paths}
    names = [one.name for one in certificate.actions]
    groups: dict[tuple[str, ...], list[str]] = {}
    for sensor in dict.fromkeys(certificate.sensors):
        found = [reached.get((sensor, action)) for action in names]
        signs = [NEVER if one is None else one.sign for one in found]
        groups.setdefault((*signs, sensor if full else ""), []).append(sensor)
    total = len(certificate.sensors)
    named = [f"all {total} sensors" if len(one) == total > 1 else words.listed(one, FEW) for one in groups.values()]
    columns: list[Column] = [("sensor", named)]
    if full or sum(len(name) + 2 for name in names) <= WIDE:
        columns += [(name, [signs[k] for signs in groups]) for k, name in enumerate(names)]
    else:
        columns.append(("signs, in the order of the actions", ["".join(signs[:-1]) for signs in groups]))
    if certificate.neurons:
        columns.append(("solver steps", [arrival(certificate, one) for one in groups.values()]))
    after = "; then after how many solver steps at the earliest" if certificate.neurons else ""
    lines = (f"+ raises, - lowers, ? either or {words.NOT_SHOWN}, {NEVER} never reaches{after}.",)
    return table(title, columns, lines)


def arrival(certificate: Certificate, sensors: list[str]) -> str:
    """Writes after how many solver steps some sensors reach actions at the earliest."""
    steps = [one.steps for one in certificate.paths if one.sensor in sensors]
    if not steps:
        return NEVER
    return f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)} to {max(steps)}"


def attack(certificate: Certificate) -> Section:
    """Says how the certificate was attacked."""
    found = certificate.attack
    if found is None:
        return Section("attack", lines=("None. With --attack N the agent is searched for what breaks these claims.",))
    inputs = f"{words.counted(found.inputs, 'observation')} in {found.seconds:,.1f} s"
    longest = f", up to {words.counted(found.longest, 'step')} in a row" if found.longest else ""
    outcome = "broke no claim" if certificate.holds else f"broke {words.counted(len(found.violations), 'claim')}"
    tried = [one.found_matters for one in certificate.synapses] + [one.found_matters for one in certificate.neurons]
    probed = words.counted(sum(share is not None for share in tried), "synapse or neuron", "synapses and neurons")
    replaced = f", replaced what {probed} pass on" if set(tried) - {None} else ""
    tightness = (
        ""
        if found.tightness is None
        else f" A certified state is {words.nearest(found.tightness)} times as wide as what it found (median)."
    )
    told = f"It raised each sensor{replaced}, and drove the states to their ends."
    return Section("attack", lines=(f"It {outcome}, with {inputs}{longest}. {told}{tightness}",))


def notes(certificate: Certificate) -> Section:
    """Says what could not be shown."""
    nothing = (f'Nothing beside what says "{words.NOT_SHOWN}" above.',)
    about = "That the agent acts well: an audit knows nothing of its environment."
    return Section("not shown", lines=(*(certificate.notes or nothing), about))
