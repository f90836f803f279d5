"""What a certificate says about the circuit itself: its memory, its neurons and its synapses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate, CertifiedNeuron, CertifiedSynapse
from ncp_control.audit.tables import Column, Section, aligned, table

FEW = 3  # how many synapses are named that matter least, and most, and how many cycles


def forgetting(certificate: Certificate) -> Section:
    """Says whether the agent forgets."""
    found = certificate.forgetting
    if found is None:
        return Section("memory", lines=("None: every action depends on the current observation alone.",))
    told = found.reason.rstrip(".")
    if not told.startswith(("shown", words.NOT_SHOWN)):
        told = f"{'shown' if found.shown else words.NOT_SHOWN}: {told}"
    lines = [f"Forgetting is {told}."]
    if found.steps is not None:
        lines.append(
            f"After {words.counted(found.steps, 'step')} two pasts differ in no action by more than "
            f"{words.share(certificate.epsilon)} of its range."
        )
    elif found.shown:
        lines.append(f"After how many steps no past matters is {words.NOT_SHOWN}.")
    if found.found_steps is not None:
        lines.append(f"The attack kept two pasts apart for {words.counted(found.found_steps, 'step')}.")
    if found.cycles:
        cycles = sorted(found.cycles, key=lambda one: -one[1])
        told = "; ".join(f"{words.at_most(factor)} ({words.listed(names, 3)})" for names, factor in cycles[:FEW])
        more = f"; {words.counted(len(cycles) - FEW, 'other cycle')} less" if len(cycles) > FEW else ""
        lines.append(f"Its cycles pass on these multiples of a difference in a solver step: {told}{more}.")
    return Section("memory", lines=tuple(lines))


def neurons(certificate: Certificate, full: bool) -> Section | None:
    """Says what the neurons of each layer can do, or what each neuron can do."""
    every = certificate.neurons
    if not every:
        return None
    groups = [(one.name, [one]) for one in every] if full else by_layer(every)
    columns: list[Column] = [("neuron" if full else "layer", [name for name, _ in groups])]
    if full:
        columns += [("layer", [one.layer for one in every]), ("condition", [one.condition for one in every])]
    else:
        columns += [("neurons", [f"{len(group):,}" for _, group in groups])]
    columns += [
        ("state", aligned(words.span(words.hull(one.state for one in group)) for _, group in groups)),
        ("time constant", aligned(words.span(words.hull(one.time_constant for one in group)) for _, group in groups)),
        ("forgets after", [slowest(group) for _, group in groups]),
        ("can move an action by", [words.share(greatest(group)) for _, group in groups]),
    ]
    if any(one.found_matters is not None for one in every):
        columns.append(("by attack", [tried(group) for _, group in groups]))
    if full and any(one.state.found_low is not None for one in every):
        columns.insert(4, ("attack reached", aligned(words.found(one.state) for one in every)))
    lines = [
        idle(every, "dead", "moves no action"),
        idle(every, "saturated", "stays at one end of its range"),
        "Time constants are in steps of the training; how far an action can be moved is a share of its range."
        + vacuous(one.matters for one in every),
    ]
    left = 3 if full else 1
    return table("neurons", columns, [" ".join(lines[:2]), lines[2]], left)


def synapses(certificate: Certificate, full: bool) -> Section | None:
    """Counts the synapses by their condition, and names those that matter least and most; or lists them all."""
    every = certificate.synapses
    if not every:
        return None
    conditions = ("active", "open", "closed", "dead")
    counts = {name: sum(one.condition == name for one in every) for name in conditions}
    never = sum(one.matters == 0 for one in every)
    unknown = sum(one.matters is None for one in every)
    lines = [
        f"{counts['active']:,} of {len(every):,} are active, {counts['open']:,} always open, {counts['closed']:,} "
        f"always closed, {counts['dead']:,} dead. The sources of {never:,} can never move an action through them"
        + (f"; for {unknown:,} this is {words.NOT_SHOWN}." if unknown else ".")
    ]
    known = sorted(
        (one for one in every if one.matters and not words.is_vacuous(one.matters)), key=lambda one: one.matters or 0.0
    )
    if len(known) + never + unknown < len(every):
        lines[0] += f" {len(every) - len(known) - never - unknown:,} could move one through its whole range."
    few = FEW if len(known) > 2 * FEW else len(known) // 2
    for lead, chosen in (("matter least", known[:few]), ("can matter most", known[::-1][:few])):
        if chosen and not full:
            named = [f"{title_of(certificate, one)} {words.share(one.matters)}" for one in chosen]
            lines.append(f"These {lead}: {', '.join(named)}.")
    found = [one.found_matters for one in every if one.found_matters is not None]
    if found and not full:
        most = words.share_found(max(found))
        lines.append(f"The attack tried {len(found):,} of them, and moved an action by {most} at most through one.")
    if not full:
        return Section("synapses", lines=tuple(lines))
    columns: list[Column] = [
        ("from", [one.source for one in every]),
        ("to", [one.target for one in every]),
        ("kind", [one.kind for one in every]),
        ("sign", [one.sign for one in every]),
        ("condition", [one.condition for one in every]),
        ("can move an action by", [words.share(one.matters) for one in every]),
    ]
    if found:
        columns.append(("by attack", [tried([one]) for one in every]))
    return table("synapses", columns, lines, 5)


def by_layer(every: Sequence[CertifiedNeuron]) -> list[tuple[str, list[CertifiedNeuron]]]:
    """Returns the neurons of each layer."""
    groups: dict[str, list[CertifiedNeuron]] = {}
    for one in every:
        groups.setdefault(one.layer, []).append(one)
    return list(groups.items())


def slowest(group: Sequence[CertifiedNeuron]) -> str:
    """Writes after how many steps all neurons of a group have forgotten."""
    known = [one.forgets_after for one in group if one.forgets_after is not None]
    unknown = len(group) - len(known)
    if not known:
        return words.NOT_SHOWN
    return f"{max(known):,} steps" + (f", {unknown} {words.NOT_SHOWN}" if unknown else "")


def greatest(group: Sequence[CertifiedNeuron]) -> float | None:
    """Returns how much the neuron matters that can matter most; None if this is not shown for all of them."""
    known = [one.matters for one in group if one.matters is not None]
    return max(known) if len(known) == len(group) else None


def tried(group: Sequence[CertifiedNeuron | CertifiedSynapse]) -> str:
    """Writes how far an attack moved an action through some neurons or synapses at most."""
    found = [one.found_matters for one in group if one.found_matters is not None]
    return words.share_found(max(found)) if found else "not tried"


def idle(every: Sequence[CertifiedNeuron], condition: str, meaning: str) -> str:
    """Says how many neurons have a condition, and which."""
    names = [one.name for one in every if one.condition == condition]
    if not names:
        return f"No neuron is {condition} ({meaning})."
    return f"{words.counted(len(names), 'neuron')} {condition} ({meaning}): {words.listed(names)}."


def vacuous(shares: Iterable[float | None]) -> str:
    """Says what 100 % means, if it is there."""
    whole = any(one is not None and words.is_vacuous(one) for one in shares)
    return " 100 % shows nothing, because nothing moves an action further." if whole else ""


def title_of(certificate: Certificate, one: CertifiedSynapse) -> str:
    """Writes a synapse, such as `inter3 -> command0`."""
    return f"{one.source} {'--' if one.kind == 'gap junction' else '->'} {one.target}"
