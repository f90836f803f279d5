"""Do states and time constants stay bounded when inputs grow without end? Theorems 1 and 2 of the LTC paper.

Small networks learn to remember a wave, and are then driven with constant, alternating, random and growing inputs that
are up to a million times as large as in their training. Every state and every time constant is compared with the bounds
that its cell computes from its parameters alone. Liquid networks stay inside; an LSTM's memory and a Neural ODE's state
have no bounds and grow with every step. Other solvers run the same liquid weights with longer and longer steps.
Pictures: the largest states, the time constants between their bounds, and how far solvers leave the bounds.

Half a minute of processor time; --full takes larger networks and ten times as many steps.

Example: python -m scripts.paper.bounds --agent checkpoints/halfcheetah-positions.safetensors
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import torch

from ncp_control.base.progress import tracked
from scripts.paper.bounds.driven import (
    FULL,
    LAG,
    LIQUID,
    MAGNITUDES,
    NETWORKS,
    NEURAL,
    ROUNDING,
    Contestant,
    Driven,
    Sizes,
    drive,
    train_one,
)
from scripts.paper.bounds.figures import draw_solvers, draw_states, draw_time_constants
from scripts.paper.bounds.findings import findings, show_size
from scripts.paper.bounds.solvers import SOLVERS, overshoots
from scripts.paper.common.report import Report, Settings, Value, run_report

SHOWN = (0, 3, 6)  # of MAGNITUDES


@dataclass(kw_only=True)
class BoundsSettings(Settings):
    """The settings of this study."""

    agent: str | None = None
    """The file of a trained agent, whose circuit is driven too."""


def make(settings: BoundsSettings) -> Report:
    """Trains and drives the networks, and writes the report."""
    torch.set_num_threads(1)  # sums in the same order give the same result
    return report(FULL if settings.full else Sizes(), settings.seed, settings.agent)


def report(sizes: Sizes, seed: int, agent: str | None = None, progress: bool = True) -> Report:
    """Does the same for any sizes."""
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    contestants = [agent_circuit(agent)] if agent else []
    with tracked("networks", len(NETWORKS), shown=progress) as tracker:
        for name in NETWORKS:
            contestants.append(train_one(name, sizes, seed))
            tracker.advance(1, note=f"{name} trained")
        driven = [drive(one, sizes, seed) for one in sorted(contestants, key=lambda one: one.error is None)]
        liquid = [one for one in driven if one.contestant.name in (LIQUID, NEURAL)]
        solvers = {
            one.contestant.name: {
                solver: overshoots(one.contestant, solver, sizes.rows, sizes.solver_steps, seed) for solver in SOLVERS
            }
            for one in liquid
        }
    figures = {
        "largest_states": draw_states(driven),
        "time_constants": draw_time_constants(liquid),
        "solvers": draw_solvers(solvers),
    }
    head = (
        *("network", "papers", "error", *(f"|x| at {MAGNITUDES[k]:g}" for k in SHOWN), f"in {sizes.long:,} steps"),
        *("bound", "inside", "time constants", "their bounds", "they inside"),
    )
    title = "Theorems 1 and 2: states and time constants under inputs up to a million times their usual size"
    return Report(title, head, [row(one) for one in driven], findings(driven, solvers), notes(sizes), figures)


def agent_circuit(path: str) -> Contestant:
    """Loads the circuit that acts in an agent's file."""
    from ncp_control.rl import load_policy
    from ncp_control.rl.policies.circuit import actor_circuit

    policy = load_policy(path)
    circuit = actor_circuit(policy.policy)
    if circuit is None:
        raise ValueError(f"{path} holds an agent without a circuit: name one that was trained with one")
    cell = circuit.cell
    return Contestant(f"{policy.name}, {type(cell).__name__}", cell, "", cell)


def row(one: Driven) -> list[Value]:
    """Writes the row of one network."""
    low, high = (bound.tolist() for bound in one.contestant.bounding.time_constant_bounds())
    shortest, longest = (
        min(min(reach.shortest) for reach in one.by_magnitude),
        max(max(reach.longest) for reach in one.by_magnitude),
    )
    bounded, timed = math.isfinite(one.state_bound), math.isfinite(max(high))
    states_inside, taus_inside = one.inside
    return [
        one.contestant.name,
        one.contestant.said,
        one.contestant.error,
        *(show_size(one.by_magnitude[k].largest) for k in SHOWN),
        show_size(one.by_time[max(one.by_time)]),
        f"{one.state_bound:.4g}" if bounded else "none",
        said(states_inside) if bounded else "",
        f"{shortest:.3g} to {longest:.3g}",
        f"{min(low):.3g} to {max(high):.3g}" if timed else "none",
        said(taus_inside) if timed else "",
    ]


def said(inside: bool) -> str:
    """Writes yes or no."""
    return "yes" if inside else "no"


def notes(sizes: Sizes) -> list[str]:
    """Writes what a reader of the table needs to know, and every difference from the paper."""
    return [
        "papers: what they say about the states; error: of the task, which is to tell a sine of unknown frequency, "
        f"phase and size (0.5 to 1.5) as it was {LAG} steps ago, over the standard deviation. {sizes.units} neurons; "
        "LTC, NeuralLTC and CfC are wired as neural circuit policies, the others densely",
        f"|x|: the largest state of any neuron in {sizes.steps} steps of constant, alternating, random and growing "
        f"inputs of that size, {sizes.rows} of each, and in {sizes.long:,} steps of constant inputs of size "
        f"{MAGNITUDES[-1]:g}; the LSTM's state is its memory c",
        f"inside: except for float32's rounding, {ROUNDING:g} units of the last place of max(1, |bound|) for states "
        "and of the bound for time constants; the theorems are about real numbers. Negative distances are such "
        "roundings",
        "every neuron is compared with its own bounds; the table shows the largest bound of the states, and the least "
        "and the largest bound of the time constants. W in Theorem 1 is the largest f: 1 for a sigmoid; the summed "
        "conductances for an LTC, whose states lie between its reversal potentials (2018)",
        "the Neural ODE is run by RK4, all others by the fused solver with six steps an input. A CfC's time constants "
        "are its gates', an LSTM's its forget gates', in steps",
        "other solvers run the weights that were trained with the fused solver, on random inputs of size 1",
    ]


if __name__ == "__main__":
    sys.exit(run_report("bounds", __doc__ or "", BoundsSettings, make))
