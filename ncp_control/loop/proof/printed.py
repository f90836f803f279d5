"""A proof in words: in sections for a terminal and a page, and line by line for a robot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncp_control.base.bounds import at_least, at_most
from ncp_control.base.sections import Section, aligned, table
from ncp_control.base.text import counted
from ncp_control.loop.proof.proving import LoopAttack, Proof
from ncp_control.rl.monitor import Monitor
from ncp_envs.equations import BODIES, Claim

FEW = 8  # cells of a table


def sections_of(proof: Proof) -> list[Section]:
    """Returns the sections of a proof."""
    return [about(proof), *way(proof), *failed(proof)]


def about(proof: Proof) -> Section:
    """Says what was to be shown, and whether it was."""
    body = BODIES[proof.body]
    seen = ", ".join(body.names[k] for k in body.seen)
    starts = ", ".join(given(body.names, body.low, body.high))
    shown = sum(cell.shown for cell in proof.cells)
    verdict = "shown" if proof.shown else "not shown"
    rows = [
        ("agent", f"{proof.agent}, which sees {seen} of {proof.body} every {body.period:g} s"),
        ("starts", starts),
        ("errors", f"of each sensor up to {proof.error:g} of its scale, and those of float32"),
        *(("claim", f"{claim_in_words(claim, proof.names)}: {verdict}") for claim in proof.claims),
        ("cells", f"{counted(shown, 'cell')} of {len(proof.cells)} shown, in {proof.seconds:.1f} s"),
        ("for ever", forever(proof)),
        *(() if proof.attack is None else [("attacked", attack_in_words(proof.attack, proof.names))]),
        *((("from anywhere", rests_in_words(proof)),) if proof.thrown else ()),
    ]
    return Section("in short", rows=tuple(rows))


def monitor_of(proof: Proof) -> Monitor:
    """Returns the ranges of observations and neurons, for `Controller` and `ncp-control export`, with what was proved.

    A robot that raises a flag is not the body of the proof, or began elsewhere, or its sensors are worse.

    :param proof: the proof, with its claims shown
    """
    if not proof.shown:
        raise ValueError(f"nothing to monitor: the claims about {proof.agent} are not shown")
    body = BODIES[proof.body]
    everywhere, m = np.array(proof.everywhere).T, len(body.names)
    errors = body.errors(proof.error)
    observations = everywhere[list(body.seen)] + np.stack([-errors, errors], axis=1)
    told = ("agent", "starts", "errors", "claim", "for ever")
    claim = tuple(f"{name}: {text}" for name, text in about(proof).rows if name in told)
    return Monitor.around(observations, everywhere[m:], (1.0, 1.0), proof.sha256, claim)


def forever(proof: Proof) -> str:
    """Says what holds for ever."""
    found = proof.forever
    if found is None:
        return f"not shown: {proof.why}"
    proved = zip(proof.names, found.low, found.high, strict=True)
    ends = ", ".join(f"{name} in [{at_least(low)}, {at_most(high)}]" for name, low, high in proved)
    return (
        f"shown: after {counted(found.entered, 'period')} every start is in a set to which the loop returns every "
        f"{counted(found.returns, 'period')}; meanwhile {ends}"
    )


def attack_in_words(attack: LoopAttack, names: Sequence[str]) -> str:
    """Says what an adversary found."""
    bodies = f"{counted(attack.trajectories, 'body', 'bodies')}, {attack.longer:,} of them beyond the claims"
    if attack.left:
        return f"{bodies}: {attack.left} left what was proved, so this proof is wrong; please report it"
    shares = ", ".join(f"{name} {share:.2f}" for name, share in zip(names, attack.reached, strict=True))
    return f"{bodies}: none left; at the ends of periods they reached, of the width of the way below, {shares}"


def rests_in_words(proof: Proof) -> str:
    """Says where bodies come to rest."""
    ends = []
    for rest in proof.rests:
        numbers = zip(proof.names, rest.at, strict=False)  # the body's come first
        place = ", ".join(f"{name} {round(number, 6) + 0.0:.4g}" for name, number in numbers)
        sure = "not proved" if rest.within is None else f"a rest is proved within {at_most(rest.within)}"
        ends.append(f"{100 * rest.share:.4g} % come to rest at {place} ({sure})")
    restless = 1 - sum(rest.share for rest in proof.rests)
    if restless > 1e-9:
        ends.append(f"{100 * restless:.4g} % do not come to rest")
    return f"of {counted(proof.thrown, 'body', 'bodies')}, {', '.join(ends)}"


def claim_in_words(claim: Claim, names: tuple[str, ...]) -> str:
    """Returns a claim as text."""
    return f"{', '.join(given(names, claim.low, claim.high))} from {claim.begin:g} to {claim.end:g} s"


def given(names: Sequence[str], low: Sequence[float], high: Sequence[float]) -> list[str]:
    """Returns the ranges that a body's file gives, without those that are infinite on both sides."""
    return [
        f"{name} in [{least:g}, {most:g}]" for name, least, most in zip(names, low, high, strict=True)
        if np.isfinite([least, most]).any()
    ]  # fmt: skip


def way(proof: Proof) -> list[Section]:
    """Returns where the body is in some periods, from the starts for which the claims are shown."""
    if not any(cell.shown for cell in proof.cells):
        return []
    period = BODIES[proof.body].period
    some = np.unique(np.linspace(0, len(proof.tube) - 1, 6).round().astype(int))
    columns = [("until, s", [f"{(k + 1) * period:.4g}" for k in some])]
    for at, name in enumerate(proof.names):
        ends = [(low[at], high[at]) for low, high in (proof.tube[k] for k in some)]
        columns.append((name, aligned(f"{at_least(low)} to {at_most(high)}" for low, high in ends)))
    return [table("the way of the body", columns)]


def failed(proof: Proof) -> list[Section]:
    """Returns the cells from which the claims were not shown."""
    cells = [cell for cell in proof.cells if not cell.shown]
    if not cells:
        return []
    some = cells[:FEW]
    columns = [
        (name, [f"{cell.low[at]:.4g} to {cell.high[at]:.4g}" for cell in some]) for at, name in enumerate(proof.names)
    ]
    more = () if len(cells) == len(some) else (f"and {counted(len(cells) - len(some), 'more cell')}",)
    return [table("not shown", [("not shown, because", [cell.reason for cell in some]), *columns], more)]
