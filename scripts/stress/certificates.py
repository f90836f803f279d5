"""Audits random agents and looks for what breaks their certificates: ranges, and what is said of differences.

    python scripts/stress/certificates.py --agents 100 --seed 0

The agents have cells of every kind on wirings with cycles, gap junctions and without either, weights up to 1e5, time
constants from 1e-6 to 1e6, several ranges of elapsed times, and wide and narrow boxes. Each acts for 10,000 steps in
float32 and in float64, on compiled kernels and, for fewer steps, on the reference; every state and every action of
every step is compared with its certified range. Then copies of it come apart: by errors, by their pasts, by what single
synapses and neurons pass on. It prints how many numbers were compared, and exits with 1 if a claim is broken.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

HOUSE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(HOUSE), str(HOUSE / "envs"), str(HOUSE / "tests")]

import ncp_control as nc  # noqa: E402
from helpers.small_agents import agent_of  # noqa: E402
from ncp_control.audit import audit  # noqa: E402
from ncp_control.audit.attack import attacked  # noqa: E402
from ncp_control.audit.box import observation_box  # noqa: E402
from ncp_control.audit.examining import examine  # noqa: E402
from ncp_control.audit.sequences import Sequences  # noqa: E402
from ncp_control.audit.widest import longest_of, run  # noqa: E402
from ncp_control.neurons import LaggedMLP  # noqa: E402
from ncp_control.neurons.parameters import raw_of  # noqa: E402
from ncp_control.neurons.ranges import Elapsed  # noqa: E402
from ncp_control.rl import Controller  # noqa: E402
from ncp_control.rl.controller import read_vector  # noqa: E402
from ncp_control.wiring import AutoNCP, FullyConnected, GapJunctions, Random, Wiring  # noqa: E402

ROWS, STEPS, SLOW_STEPS, PART = 8, 10_000, 300, 2_500
NARROW = 0.1  # the width of half of the boxes
TIMES = ((1.0, 1.0), (0.5, 2.0), (0.0, 7.0), (1e-3, 1e3))
ACTIVATIONS = ("sigmoid", "tanh", "hard_tanh", "relu")
DENSE = ("lstm", "gru", "ct-gru", "lagged-mlp", "mixed-gru", "cfc-backbone")
LINEAR = {"gamma", "gamma_r", "weight", "sensory_weight", "sigma", "sensory_sigma", "weight_ih", "weight_hh", "mu", "E"}


def plan_of(drawn: random.Random, inputs: int, dense: bool) -> Any:
    """Draws a wiring: layers, synapses at random, a circuit without cycles, or everything connected."""
    units = drawn.choice([1, 2, 3, 5, 9, 13])
    kind = "full" if dense or units < 3 else drawn.choice(["full", "ncp", "random", "acyclic", "gaps"])
    if kind == "full":
        return FullyConnected(units, max(1, units // 2), seed=drawn.randrange(99))
    if kind == "random":
        sparsity = drawn.uniform(0.2, 0.8 if units > 5 else 0.5)  # a few neurons need most of their synapses
        return Random(units, 1, sparsity=sparsity, seed=drawn.randrange(99))
    if kind == "acyclic":
        edges = [(i, j) for j in range(units) for i in range(j)]
        sensory = [(i, j) for j in range(units - 1) for i in range(inputs)]
        return Wiring.from_edges(inputs, inter=units - 1, motor=1, sensory=sensory, synapses=edges)
    plan = AutoNCP(units + 3, 2, seed=drawn.randrange(99))
    return GapJunctions(plan, drawn.choice([1, 3]), seed=drawn.randrange(99)) if kind == "gaps" else plan


def cell_of(drawn: random.Random, kind: str) -> Any:
    """Draws a cell of a kind, with parameters that are far larger or smaller than those of a new one."""
    inputs = drawn.choice([1, 2, 3])
    plan = plan_of(drawn, inputs, kind in DENSE)
    times = tuple(sorted(10 ** drawn.uniform(-6, 6) for _ in range(2)))
    unfolds, solver = drawn.choice([1, 2, 6]), drawn.choice(["fused", "fused", "euler", "rk4"])
    ode = {"unfolds": unfolds, "solver": solver}
    activation = drawn.choice(ACTIVATIONS)
    made = {
        "ltc": lambda: nc.LTC(inputs, plan, time_constants=times, **ode),
        "neural-ltc": lambda: nc.NeuralLTC(inputs, plan, time_constants=times, activation=activation, **ode),
        "neural-ltc-signed": lambda: nc.NeuralLTC(
            inputs, plan, time_constants=times, activation=drawn.choice(["tanh", "hard_tanh"]), signed=True, **ode
        ),
        "ctrnn": lambda: nc.CTRNN(inputs, plan, time_constants=times, activation=activation, **ode),
        "neural-ode": lambda: nc.NeuralODE(inputs, plan, activation=activation, **ode),
        "dual": lambda: nc.DualLTC(inputs, plan, time_constants=times, brake=drawn.random() < 0.7),
        "cfc": lambda: nc.CfC(inputs, plan, mode=drawn.choice(["default", "no_gate", "pure"])),
        "cfc-backbone": lambda: nc.CfC(inputs, plan.units, backbone=(5,)),
        "lstm": lambda: nc.LSTM(inputs, plan),
        "gru": lambda: nc.GRU(inputs, plan),
        "ct-gru": lambda: nc.CTGRU(inputs, plan, scales=drawn.choice([1, 3])),
        "lagged-mlp": lambda: LaggedMLP(inputs, plan.units, lags=drawn.choice([1, 4])),
        "mixed-gru": lambda: nc.MixedMemory(nc.GRU(inputs, plan)),
        "mixed-cfc": lambda: nc.MixedMemory(nc.CfC(inputs, plan)),
        "mixed-ltc": lambda: nc.MixedMemory(nc.LTC(inputs, plan, time_constants=times, unfolds=2)),
    }
    cell = made[kind]().requires_grad_(False)
    for name, parameter in cell.named_parameters():
        last = name.rpartition(".")[2]
        if last.removeprefix("sensory_") in LINEAR | {"bias", "bias_ih", "bias_hh"} and drawn.random() < 0.5:
            parameter.mul_(10 ** drawn.uniform(-2, 5))
        elif last.endswith("_raw") and drawn.random() < 0.3:
            parameter.copy_(raw_of(10 ** torch.empty_like(parameter).uniform_(-6, drawn.uniform(-3, 5))))
    return cell


KINDS = (
    "ltc", "neural-ltc", "neural-ltc-signed", "ctrnn", "neural-ode", "cfc", "lstm", "gru", "ct-gru", "lagged-mlp",
    "mixed-gru", "cfc-backbone", "ltc", "mixed-cfc", "mixed-ltc", "neural-ltc-signed", "dual", "dual",
)  # fmt: skip


def agent_number(number: int, seed: int) -> tuple[str, Any, tuple[float, float], Any]:
    """Returns the kind of an agent, the agent, and the elapsed times and the box to certify it for."""
    drawn = random.Random(f"{seed} {number}")
    torch.manual_seed(drawn.randrange(2**31))
    kind = KINDS[number % len(KINDS)]
    agent = agent_of(cell_of(drawn, kind), drawn.choice([1, 3]), drawn.choice([1e-3, 1.0, 1.0, 10.0, 1e4]))
    head = agent.policy.action_net.requires_grad_(False)
    head.weight.mul_(10 ** drawn.uniform(-2, 4))
    elapsed = drawn.choice(TIMES)
    if drawn.random() < 0.5:
        return kind, agent, elapsed, None
    # in a narrow box, far from where its states begin, an agent is certified to hold still
    middle = np.array([drawn.uniform(-1, 1) for _ in range(agent.observation_space.shape[0])])
    return kind, agent, elapsed, (middle - NARROW / 2, middle + NARROW / 2)


def compared(controller: Controller, certificate: Any, drawn: Sequences, steps: int) -> tuple[int, list[str]]:
    """Lets an agent act, and returns how many numbers were compared, and a sentence for each range that was left.

    :param steps: of a sequence
    """
    wanted = [*certificate.states, *(one.raw for one in certificate.actions)]
    low, high = (np.array([getattr(one, end) for one in wanted]) for end in ("low", "high"))
    shown = np.isfinite(low) | np.isfinite(high)
    clipped = [one.value for one in certificate.actions]
    state, count, broken = None, 0, {}
    for begun in range(0, steps, PART):
        observations, times = drawn.long(ROWS, min(PART, steps - begun))
        found, raw = run(controller, observations.to(controller.dtype), times.to(controller.dtype), state)
        state = found[:, -1]
        values = torch.cat([found, raw], dim=2).double().flatten(0, 1).numpy()
        actions = controller.limited(raw).double().flatten(0, 1).numpy()
        count += values.size + actions.size
        for k in np.flatnonzero((~((values >= low) & (values <= high)) & shown).any(axis=0)):
            broken[f"number {k}"] = f"certified to lie from {low[k]:.9g} to {high[k]:.9g}, and {ends(values[:, k])}"
        for k, one in enumerate(clipped):
            if np.isfinite(one.low) and not ((actions[:, k] >= one.low) & (actions[:, k] <= one.high)).all():
                broken[f"action {k}"] = (
                    f"certified to lie from {one.low:.9g} to {one.high:.9g}, and {ends(actions[:, k])}"
                )
    return count, [f"{name} was {sentence}" for name, sentence in broken.items()]


def ends(values: Any) -> str:
    """Writes where values really lay."""
    lost = " and NaN" if np.isnan(values).any() else ""
    return f"lay from {np.nanmin(values):.9g} to {np.nanmax(values):.9g}{lost}"


def audited(
    agent: Any, elapsed: tuple[float, float], box: Any, inputs: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Audits one agent, and returns what was compared, and a sentence for each broken claim.

    :param box: the observations to certify it for, as `audit` takes them
    :param inputs: how many observations the audit's own attack may use
    """
    certificate = audit(agent, elapsed=elapsed, box=box, attack=0, progress=False)
    times, counts, broken = Elapsed(*elapsed), Counter[str](), []
    for backend, dtype in (("auto", "float"), ("auto", "double"), ("reference", "float")):
        controller: Any = getattr(Controller(agent, backend), dtype)()
        observations, _ = observation_box(controller, read_vector(agent.observation_space)[1], box)
        fast = backend == "auto" and longest_of(controller) >= STEPS
        with torch.no_grad():
            numbers, said = compared(
                controller, certificate, Sequences(observations, times, seed), STEPS if fast else SLOW_STEPS
            )
        counts["numbers"] += numbers
        broken += [f"{backend} {dtype}: {sentence}" for sentence in said]
    controller = Controller(agent)
    seen = examine(controller, observations, times)
    found = attacked(certificate, seen, observations, times, inputs, seed, None, False)
    assert found.attack is not None
    counts["observations"] += found.attack.inputs
    counts["proved ranges"] += sum(np.isfinite(one.low) for one in (*found.states, *(one.raw for one in found.actions)))
    counts["sensitivities"] += sum(one.moved_in_step is not None for one in found.actions)
    counts["sensitivities"] += sum(one.moved_in_episode is not None for one in found.actions)
    counts["sensitivities"] += sum(one.found_matters is not None for one in (*found.synapses, *found.neurons))
    counts["sensitivities"] += found.forgetting is not None and found.forgetting.steps is not None
    counts["sensitivities"] += len(found.sensors) * len(found.actions) if found.paths else 0
    return counts, broken + list(found.attack.violations)


def main() -> None:
    """Audits as many agents as are asked for, and prints a line for each broken claim."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the agents and of all that is tried (default: 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first agent, to repeat one (default: 0)")
    parser.add_argument("--attack", type=int, default=100_000, help="observations of each attack (default: 100,000)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("error", RuntimeWarning)
    total, start, shown, failures = Counter[str](), time.monotonic(), 0.0, 0
    for number in range(given.first, given.first + given.agents):
        kind, agent, elapsed, box = agent_number(number, given.seed)
        try:
            counts, broken = audited(agent, elapsed, box, given.attack, given.seed)
        except Exception as error:
            counts, broken = Counter(), [f"the audit failed: {type(error).__name__}: {error}"]
        total += counts
        failures += len(broken)
        for sentence in broken:
            print(f"agent {number} ({kind}, elapsed {elapsed}): {sentence}", flush=True)
        now = time.monotonic() - start
        if now - shown > 10 or number + 1 == given.first + given.agents:
            shown = now
            done = number + 1 - given.first
            print(f"{done} of {given.agents} agents, {total['numbers']:,} numbers, {failures} broken, {now:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
    tried = f"{total['numbers']:,} numbers compared with {total['proved ranges']:,} ranges"
    attacks = f"{total['sensitivities']:,} bounds of differences attacked with {total['observations']:,} observations"
    print(f"{given.agents} agents, seed {given.seed}: {tried}, {attacks}, {failures} claims broken")
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
