"""What a certificate says in a few lines, at the top of its page: what is proved, and what could not be proved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ncp_control.audit import words
from ncp_control.audit.certificate import Certificate
from ncp_control.audit.sections import forgetting, idle
from ncp_control.base.sections import Section
from ncp_control.base.text import counted

FEW = 3  # so many actions are named


def summary(certificate: Certificate) -> Section:
    """Returns the most important of a certificate, as terms and texts."""
    rows = [("actions", ranges(certificate)), ("memory", " ".join(forgetting(certificate).lines[:2]))]
    if certificate.neurons:
        idlers = [idle(certificate.neurons, "dead", "moves no action"), synapses(certificate)]
        rows.append(("circuit", " ".join(part for part in idlers if part)))
    if moved := errors(certificate):
        rows.append(("errors", moved))
    rows.append((words.NOT_PROVED, "; ".join(not_proved(certificate)) + "."))
    return Section("in short", rows=tuple((term, text) for term, text in rows))


def ranges(certificate: Certificate) -> str:
    """Says where the actions lie, or which choices can be made."""
    every = certificate.actions
    if certificate.chooses:
        never = [action.name for action in every if not action.possible]
        return f"{counted(len(never), 'choice')} of {len(every):,} can never be made" + (
            f": {words.listed(never)}." if never else "."
        )
    known = [action for action in every if math.isfinite(words.width(action.value))]
    spans = dict.fromkeys(words.span(action.value) for action in known)
    if not known:
        return f"That they stay in any range is {words.NOT_PROVED}."
    if len(spans) == 1:
        many = f"All {len(every):,}" if len(known) == len(every) else f"{len(known):,} of {len(every):,}"
        who = "The action lies" if len(every) == 1 else f"{many} actions lie"
        return f"{who} from {next(iter(spans))} while the observations stay in their ranges."
    named = [f"{action.name} from {words.span(action.value)}" for action in known]
    return f"{words.listed(named, FEW)} while the observations stay in their ranges."


def synapses(certificate: Certificate) -> str:
    """Says how many synapses can move no action."""
    never = sum(synapse.matters == 0 for synapse in certificate.synapses)
    return f"{never:,} of {counted(len(certificate.synapses), 'synapse')} can never move an action."


def errors(certificate: Certificate) -> str:
    """Says how far errors of observations can move actions; empty where this says nothing about any of them."""
    bounded = [action for action in certificate.actions if says(certificate, "moved_in_step", action.name)]
    if not bounded:
        return ""
    most = max(action.moved_in_step or 0.0 for action in bounded)
    who = "no action" if len(bounded) == len(certificate.actions) else words.listed([one.name for one in bounded], FEW)
    far = (
        f"{who} by more than {words.at_most(most)}" if who == "no action" else f"{who} by {words.at_most(most)} at most"
    )
    return f"Errors of up to {words.error_of(certificate)} move {far} in one step."


def says(certificate: Certificate, what: str, name: str) -> bool:
    """Whether a bound on how far errors move an action says more than that it stays in its range."""
    action = next(one for one in certificate.actions if one.name == name)
    most = words.width(action.raw if certificate.chooses else action.value)
    return words.moved(getattr(action, what), most) not in (words.NOT_PROVED, words.WHOLE)


def not_proved(certificate: Certificate) -> Sequence[str]:
    """Lists what could not be proved, the most important first."""
    parts = []
    names = [action.name for action in certificate.actions]
    if not certificate.chooses:
        wide = [action.name for action in certificate.actions if not math.isfinite(words.width(action.value))]
        if wide:
            parts.append(f"a range of {words.listed(wide, FEW)}")
    certified = certificate.forgetting
    if certified is not None and not certified.proved:
        parts.append("that it forgets")
    elif certified is not None and certified.steps is None:
        parts.append("after how many steps it forgets")
    for what, when in (("moved_in_step", "in one step"), ("moved_in_episode", "in every step")):
        left = [name for name in names if not says(certificate, what, name)]
        if left:
            parts.append(f"that errors {when} cannot move {len(left):,} of {len(names):,} actions through their ranges")
    unsigned = sum(path.sign == "?" for path in certificate.paths)
    if unsigned:
        parts.append(f"the sign of {unsigned:,} of {len(certificate.paths):,} paths from a sensor to an action")
    if not certificate.paths and any(action.moved_in_step is None for action in certificate.actions):
        parts.append("which sensor reaches which action")
    if certificate.notes:
        parts.append('what stands under "Not proved"')
    return [*parts, "that the agent acts well"]
