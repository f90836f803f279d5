"""What a certificate says, as tables and sentences that a terminal, Markdown and a page show alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedNeuron, CertifiedSynapse
from ncp_control.base.sections import Column, Section, aligned, table
from ncp_control.base.text import counted

WIDE = 64  # a matrix with a column for each action may be that wide
MOST_BROKEN = 10  # how many broken claims are listed
NEVER = "."  # the sign of a sensor that does not reach an action
FEW = 3  # so many synapses that matter least, so many that matter most, and so many cycles are named


def sections_of(certificate: Certificate, full: bool = False) -> list[Section]:
    """Returns the sections of a certificate.

    :param full: with a row for every sensor, neuron and synapse
    """
    sections = [
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
    return [section for section in sections if section is not None]


def broken(certificate: Certificate) -> Section | None:
    """Says that an attack broke claims; None if it broke none."""
    if certificate.attack is None or certificate.holds:
        return None
    count = counted(len(certificate.attack.violations), "claim")
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
    unlimited = "all of them" if len(free) == len(certificate.sensors) else words.listed(free)
    took = f"{certificate.seconds:,.1f} s"
    cell = "no memory" if certificate.cell == "none" else certificate.cell
    rows = (
        ("agent", f"{certificate.agent} (SHA-256 {certificate.sha256[:16]}...), audited in {took}"),
        ("circuit", f"{cell}; {words.counts_of(certificate)}"),
        ("observations", certificate.box + (f"; without limits for {unlimited}" if free else "")),
        ("elapsed time", f"{times}, in steps of the training"),
        ("holds for", "every sequence of such observations, of any length, from the start of an episode. Ranges "
         "include the rounding of float32; what moves, forgets or matters is computed in exact arithmetic. All "
         "bounds are rounded outward"),
    )  # fmt: skip
    return Section("what is certified", rows=rows)


def actions(certificate: Certificate) -> Section:
    """Says what every action can be, and how far errors of observations move it."""
    every, chooses = certificate.actions, certificate.chooses
    limited = chooses or any(
        (action.raw.low, action.raw.high) != (action.value.low, action.value.high) for action in every
    )
    columns: list[Column] = [("choice" if chooses else "action", [action.name for action in every])]
    if chooses:
        columns.append(("ever made", ["yes" if action.possible else "never" for action in every]))
    columns.append(
        ("exceeds the others by" if chooses else "lies from", aligned(words.span(action.value) for action in every))
    )
    if limited:
        columns.append(
            ("its value" if chooses else "before limits", aligned(words.span(action.raw) for action in every))
        )
    if any(action.raw.found_low is not None for action in every):
        columns.append(("attack reached", aligned(words.found(action.raw) for action in every)))
    columns.append(("moved in 1 step", moves_of(certificate, "moved_in_step")))
    columns.append(("moved in an episode", moves_of(certificate, "moved_in_episode")))
    if any(action.moved_on_path is not None for action in every):
        columns.append(("on recording", moves_of(certificate, "moved_on_path")))
    if any(action.found_moved is not None for action in every):
        columns.append(
            (
                "attack moved",
                [f"{words.nearest(action.found_moved)}, {words.nearest(action.found_always)}" for action in every],
            )
        )
    path = (
        "; on recording: by errors in one of its steps" if any(one.moved_on_path is not None for one in every) else ""
    )
    lines = [
        f"Moved: how far errors of up to {words.error_of(certificate)} can move it, if they occur in one step or in "
        f"every step of an episode{path}."
    ]
    return table("actions", columns, lines, 2 if chooses else 1)


def moves_of(certificate: Certificate, what: str) -> list[str]:
    """Writes how far each action can be moved.

    :param what: "moved_in_step", "moved_in_episode" or "moved_on_path"
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
    """Says which sensor reaches which action; sensors with equal signs share a row, unless `full` lists each."""
    title = "which sensor reaches which action"
    if not certificate.paths and any(action.moved_in_step is None for action in certificate.actions):
        return Section("paths", lines=(f"Which sensor reaches which action is {words.NOT_PROVED}.",))
    reached = {(path.sensor, path.action): path for path in certificate.paths}
    names = [action.name for action in certificate.actions]
    groups: dict[tuple[str, ...], list[str]] = {}
    for sensor in dict.fromkeys(certificate.sensors):
        found = [reached.get((sensor, action)) for action in names]
        signs = [NEVER if path is None else path.sign for path in found]
        # With a sensor's name in its key no two sensors share a row.
        groups.setdefault((*signs, sensor if full else ""), []).append(sensor)
    total = len(certificate.sensors)
    named = [
        f"all {total} sensors" if len(sharing) == total > 1 else words.listed(sharing, FEW)
        for sharing in groups.values()
    ]
    columns: list[Column] = [("sensor", named)]
    if full or sum(len(name) + 2 for name in names) <= WIDE:
        columns += [(name, [signs[k] for signs in groups]) for k, name in enumerate(names)]
    else:
        columns.append(("signs, in the order of the actions", ["".join(signs[:-1]) for signs in groups]))
    if certificate.neurons:
        columns.append(("solver steps", [arrival(certificate, sharing) for sharing in groups.values()]))
    after = "; then after how many solver steps at the earliest" if certificate.neurons else ""
    lines = (f"+ raises, - lowers, ? either or {words.NOT_PROVED}, {NEVER} never reaches{after}.",)
    return table(title, columns, lines)


def arrival(certificate: Certificate, sensors: list[str]) -> str:
    """Writes after how many solver steps some sensors reach actions at the earliest."""
    steps = [one.steps for one in certificate.paths if one.sensor in sensors]
    if not steps:
        return NEVER
    return f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)} to {max(steps)}"


def attack(certificate: Certificate) -> Section:
    """Says how the certificate was attacked."""
    result = certificate.attack
    if result is None:
        return Section("attack", lines=("None: --attack N searches for observations that break these claims.",))
    inputs = f"{counted(result.inputs, 'observation')} in {result.seconds:,.1f} s"
    longest = f", up to {counted(result.longest, 'step')} in a row" if result.longest else ""
    outcome = "broke no claim" if certificate.holds else f"broke {counted(len(result.violations), 'claim')}"
    tried = [one.found_matters for one in certificate.synapses] + [one.found_matters for one in certificate.neurons]
    probed = counted(sum(share is not None for share in tried), "synapse or neuron", "synapses and neurons")
    replaced = f", replaced what {probed} pass on" if set(tried) - {None} else ""
    tightness = (
        ""
        if result.tightness is None
        else f" A certified state is {words.nearest(result.tightness)} times as wide as what it found (median)."
    )
    summary = f"It raised each sensor{replaced}, and drove the states to their ends."
    return Section("attack", lines=(f"It {outcome}, with {inputs}{longest}. {summary}{tightness}",))


def notes(certificate: Certificate) -> Section:
    """Says what could not be proved."""
    nothing = (f'Whatever says "{words.NOT_PROVED}" above.',)
    about = "That the agent acts well: an audit knows nothing of its environment."
    return Section("not proved", lines=(*(certificate.notes or nothing), about))


def forgetting(certificate: Certificate) -> Section:
    """Says whether the agent forgets."""
    certified = certificate.forgetting
    if certified is None:
        return Section("memory", lines=("None: every action depends on the current observation alone.",))
    reason = certified.reason.rstrip(".")
    if not reason.startswith((words.PROVED, words.NOT_PROVED)):
        reason = f"{words.PROVED if certified.proved else words.NOT_PROVED}: {reason}"
    lines = [f"Forgetting is {reason}."]
    if certified.steps is not None:
        lines.append(
            f"After {counted(certified.steps, 'step')} two pasts differ in no action by more than "
            f"{words.share(certificate.epsilon)} of its range."
        )
    elif certified.proved:
        lines.append(f"In how many steps it forgets is {words.NOT_PROVED}.")
    if certified.found_steps is not None:
        lines.append(f"The attack kept two pasts apart for {counted(certified.found_steps, 'step')}.")
    if certified.cycles:
        cycles = sorted(certified.cycles, key=lambda cycle: -cycle[1])
        named = "; ".join(f"{words.at_most(factor)} ({words.listed(names, 3)})" for names, factor in cycles[:FEW])
        more = f"; {counted(len(cycles) - FEW, 'other cycle')} less" if len(cycles) > FEW else ""
        lines.append(f"Its cycles pass on these multiples of a difference in a solver step: {named}{more}.")
    return Section("memory", lines=tuple(lines))


def neurons(certificate: Certificate, full: bool) -> Section | None:
    """Says what the neurons of each layer can do, or what each neuron can do."""
    every = certificate.neurons
    if not every:
        return None
    groups = [(neuron.name, [neuron]) for neuron in every] if full else by_layer(every)
    columns: list[Column] = [("neuron" if full else "layer", [name for name, _ in groups])]
    if full:
        columns += [
            ("layer", [neuron.layer for neuron in every]),
            ("condition", [neuron.condition for neuron in every]),
        ]
    else:
        columns += [("neurons", [f"{len(group):,}" for _, group in groups])]
    columns += [
        ("state", aligned(words.span(words.hull(neuron.state for neuron in group)) for _, group in groups)),
        (
            "time constant",
            aligned(words.span(words.hull(neuron.time_constant for neuron in group)) for _, group in groups),
        ),
        ("forgets after", [slowest(group) for _, group in groups]),
        ("can move an action by", [words.share(greatest(group)) for _, group in groups]),
    ]
    if any(neuron.found_matters is not None for neuron in every):
        columns.append(("by attack", [tried(group) for _, group in groups]))
    if full and any(neuron.state.found_low is not None for neuron in every):
        # Beside the certified state.
        columns.insert(4, ("attack reached", aligned(words.found(neuron.state) for neuron in every)))
    lines = [
        idle(every, "dead", "moves no action"),
        idle(every, "saturated", "stays at one end of its range"),
        "Time constants are in steps of the training; how far an action can be moved is a share of its range."
        + vacuous(neuron.matters for neuron in every),
    ]
    left = 3 if full else 1
    return table("neurons", columns, [" ".join(lines[:2]), lines[2]], left)


def synapses(certificate: Certificate, full: bool) -> Section | None:
    """Counts the synapses by their condition, and names those that matter least and most; or lists them all."""
    every = certificate.synapses
    if not every:
        return None
    conditions = ("active", "open", "closed", "dead")
    counts = {name: sum(synapse.condition == name for synapse in every) for name in conditions}
    never = sum(synapse.matters == 0 for synapse in every)
    unknown = sum(synapse.matters is None for synapse in every)
    lines = [
        f"{counts['active']:,} of {len(every):,} are active, {counts['open']:,} always open, {counts['closed']:,} "
        f"always closed, {counts['dead']:,} dead. Through {never:,} of them the source can never move an action"
        + (f"; for {unknown:,} this is {words.NOT_PROVED}." if unknown else ".")
    ]
    known = sorted(
        (synapse for synapse in every if synapse.matters and not words.is_vacuous(synapse.matters)),
        key=lambda synapse: synapse.matters or 0.0,
    )
    if len(known) + never + unknown < len(every):
        lines[0] += f" {len(every) - len(known) - never - unknown:,} could move one through its whole range."
    # No synapse is named both among those that matter least and among those that matter most.
    few = FEW if len(known) > 2 * FEW else len(known) // 2
    for lead, chosen in (("matter least", known[:few]), ("can matter most", known[::-1][:few])):
        if chosen and not full:
            named = [f"{title_of(certificate, synapse)} {words.share(synapse.matters)}" for synapse in chosen]
            lines.append(f"These {lead}: {', '.join(named)}.")
    moved = [synapse.found_matters for synapse in every if synapse.found_matters is not None]
    if moved and not full:
        most = words.share_found(max(moved))
        lines.append(f"The attack tried {len(moved):,} of them, and moved an action by {most} at most through one.")
    if not full:
        return Section("synapses", lines=tuple(lines))
    columns: list[Column] = [
        ("from", [synapse.source for synapse in every]),
        ("to", [synapse.target for synapse in every]),
        ("kind", [synapse.kind for synapse in every]),
        ("sign", [synapse.sign for synapse in every]),
        ("condition", [synapse.condition for synapse in every]),
        ("can move an action by", [words.share(synapse.matters) for synapse in every]),
    ]
    if moved:
        columns.append(("by attack", [tried([synapse]) for synapse in every]))
    return table("synapses", columns, lines, 5)


def by_layer(every: Sequence[CertifiedNeuron]) -> list[tuple[str, list[CertifiedNeuron]]]:
    """Returns the neurons of each layer."""
    groups: dict[str, list[CertifiedNeuron]] = {}
    for neuron in every:
        groups.setdefault(neuron.layer, []).append(neuron)
    return list(groups.items())


def slowest(group: Sequence[CertifiedNeuron]) -> str:
    """Writes after how many steps all neurons of a group have forgotten."""
    known = [one.forgets_after for one in group if one.forgets_after is not None]
    unknown = len(group) - len(known)
    if not known:
        return words.NOT_PROVED
    return f"{max(known):,} steps" + (f", {unknown} {words.NOT_PROVED}" if unknown else "")


def greatest(group: Sequence[CertifiedNeuron]) -> float | None:
    """Returns the greatest share by which a neuron of a group can matter; None unless it is proved for all of them."""
    known = [one.matters for one in group if one.matters is not None]
    return max(known) if len(known) == len(group) else None


def tried(group: Sequence[CertifiedNeuron | CertifiedSynapse]) -> str:
    """Writes how far an attack moved an action through some neurons or synapses at most."""
    shares = [tested.found_matters for tested in group if tested.found_matters is not None]
    return words.share_found(max(shares)) if shares else "not tried"


def idle(every: Sequence[CertifiedNeuron], condition: str, meaning: str) -> str:
    """Says how many neurons have a condition, and which."""
    names = [one.name for one in every if one.condition == condition]
    if not names:
        return f"No neuron is {condition} ({meaning})."
    return f"{counted(len(names), 'neuron')} {condition} ({meaning}): {words.listed(names)}."


def vacuous(shares: Iterable[float | None]) -> str:
    """Explains a share of 100 % if there is one."""
    whole = any(one is not None and words.is_vacuous(one) for one in shares)
    return " A bound of 100 % says nothing: no action can move further." if whole else ""


def title_of(certificate: Certificate, synapse: CertifiedSynapse) -> str:
    """Writes a synapse, such as `inter3 -> command0`."""
    return f"{synapse.source} {'--' if synapse.kind == 'gap junction' else '->'} {synapse.target}"
