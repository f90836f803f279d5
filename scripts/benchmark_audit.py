"""How fast an audit is, how tight its bounds are, and whether they hold in recorded episodes.

    python scripts/benchmark_audit.py checkpoints/halfcheetah-positions.safetensors --episodes 25 --attack 1000000

It prints the median time of an audit on one core; the certified widths over the widest that an attack found, and over
those of plain interval arithmetic, which divides a range of currents by a range of conductances; the bound on how far
an error of one observation moves an action, beside the product of the norms of all derivatives; and how many states and
actions left their ranges in episodes without disturbances, with 5 % random actions, with noise and with observations
lost.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ncp_control as nc
from ncp_control.audit import audit
from ncp_control.audit.box import feature_errors, observation_box, units_of
from ncp_control.audit.examining import Examined, examine
from ncp_control.base.intervals import Array, Interval
from ncp_control.cli import trained_in
from ncp_control.neurons.ltc.ranges import KnownLTC
from ncp_control.neurons.ranges import Elapsed
from ncp_control.rl import Controller, evaluate
from ncp_control.rl.controller import read_vector

CASES = {
    "undisturbed": {"random": 0.0},
    "5 % random actions": {"random": 0.05},
    "noise 0.1": {"random": 0.0, "noise": 0.1},
    "dropout 0.1": {"random": 0.0, "dropout": 0.1},
}
REPEATS = 5


def main() -> None:
    """Prints everything about one checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--episodes", type=int, default=25, help="recorded episodes of each kind")
    parser.add_argument("--attack", type=int, default=1_000_000, help="observations of the attack")
    parser.add_argument("--box", type=float, default=None, help="the box, in standard deviations")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    agent = nc.load(given.checkpoint)
    times = [audit(agent, box=given.box, attack=0).seconds for _ in range(REPEATS)]
    print(f"audit: {statistics.median(times):.2f} s, the median of {REPEATS}")
    found = audit(agent, box=given.box, attack=given.attack, seed=given.seed)
    assert found.attack is not None
    print(
        f"attack: {found.attack.inputs:,} inputs in {found.attack.seconds:.1f} s, "
        f"{len(found.attack.violations)} claims broken"
    )
    for sentence in found.attack.violations:
        print(f"  {sentence}")
    if found.attack.tightness is not None:
        print(f"certified width of a state over the widest found: {found.attack.tightness:.2f} in the median")
    controller = Controller(agent)
    observations, _ = observation_box(controller, read_vector(agent.observation_space)[1], given.box)
    seen = examine(controller, observations, Elapsed(1.0, 1.0))
    if isinstance(seen.known, KnownLTC):
        ratio = plain_widths(seen.known, seen) / seen.states.width
        print(f"width of plain interval arithmetic over ours: {np.median(ratio):.2f} in the median")
    compare_sensitivity(seen, feature_errors(controller, found.error * units_of(controller)), found)
    broken = 0
    for name, disturbed in CASES.items():
        broken += recorded(agent, given.checkpoint, found, given.episodes, given.seed, name, disturbed)
    sys.exit(1 if broken or not found.holds else 0)


def plain_widths(known: KnownLTC, seen: Examined) -> Array:
    """Returns the widths of the states if numerator and denominator of the mean are taken for independent."""
    opened = known.conductances(seen.states, seen.features)
    E, leak, slow = known.incoming.E, known.leak, known.slow
    carried = np.stack([opened.low * E, opened.high * E])
    current = Interval(leak + carried.min(axis=0).sum(axis=1), leak + carried.max(axis=0).sum(axis=1))
    total = Interval(slow + opened.low.sum(axis=1), slow + opened.high.sum(axis=1))
    ends = np.stack([a / b for a in current for b in total])
    return np.asarray(np.maximum(ends.max(axis=0), 0) - np.minimum(ends.min(axis=0), 0))


def compare_sensitivity(seen: Examined, errors: Array, found: Any) -> None:
    """Prints how far an error moves an action in the same step: our bound, the product of norms, and what was found."""
    differences = seen.differences
    if differences is None:
        return
    ours, d = 0.0, np.zeros(len(differences.M))
    for _ in range(differences.substeps):
        d = differences.M @ d + differences.B @ errors
    ours = float((differences.G @ d).max())
    norms = [np.linalg.norm(one, 2) for one in (differences.G, differences.M, differences.B)]
    product = norms[0] * sum(norms[1] ** k for k in range(differences.substeps)) * norms[2] * np.linalg.norm(errors)
    moved = max(one.found_moved or 0.0 for one in found.actions)
    print(
        f"an error of {found.error:g} standard deviations moves an action by at most {ours:.3g}, by a product of norms "
        f"{product:.3g} ({product / ours:.1f} times as much); the attack found {moved:.3g}"
    )


class Watched:
    """An agent that notes the least and the greatest values of its states and actions.

    :param agent: the agent
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.controller = Controller(agent)
        self.ends: list[Array] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> Any:
        """Acts as the agent does."""
        actions, after = self.agent.predict(observation, state, episode_start, deterministic)
        if after is not None:
            states = np.asarray(after[0][0], dtype=np.float64)[:, : self.controller.state_size]
            self.note(np.concatenate([states, np.asarray(actions, dtype=np.float64)], axis=1))
        return actions, after

    def note(self, values: Array) -> None:
        """Widens what was seen by values (B, N + A)."""
        low, high = values.min(axis=0), values.max(axis=0)
        self.ends = [np.minimum(self.ends[0], low), np.maximum(self.ends[1], high)] if self.ends else [low, high]


def recorded(
    agent: Any, path: Path, found: Any, episodes: int, seed: int, name: str, disturbed: dict[str, float]
) -> int:
    """Prints how many states and actions left their ranges in episodes of one kind, and returns their number."""
    watched, start = Watched(agent), time.perf_counter()
    env = trained_in.env_name(path, agent.note, None)
    returns = evaluate(watched, lambda: trained_in.make(env, agent.note, **disturbed), episodes, seed).returns
    claims = [*found.states, *(one.value for one in found.actions)]
    low, high = (np.array([getattr(one, end) for one in claims]) for end in ("low", "high"))
    outside = int(((watched.ends[0] < low) | (watched.ends[1] > high)).sum()) if watched.ends else 0
    print(
        f"{name}: {outside} of {len(claims)} ranges left in {len(returns)} episodes "
        f"(return {np.mean(returns):,.0f}, {time.perf_counter() - start:.0f} s)"
    )
    return outside


if __name__ == "__main__":
    main()
