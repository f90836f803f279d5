"""Proves what a body's claims say of an agent: from every start, with errors of the sensors, and for ever."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.base.intervals import Array, Interval
from ncp_control.base.progress import tracked
from ncp_control.base.values import strict_json
from ncp_control.loop.proof.circuit import CircuitOnSets
from ncp_control.loop.proof.loop import ProvedLoop
from ncp_control.loop.proof.sets import Sets
from ncp_control.rl.controller import Controller
from ncp_control.rl.files.loaded_policy import LoadedPolicy
from ncp_envs.equations import BODIES, Claim, Equations

ERROR = 0.01
MOST = 256  # cells
SIDE = 2  # cells along each side of the starts, to begin with
AT_ONCE = 64  # cells that are followed side by side
LONGEST = 200  # periods after the claims, in which all have to come together
TRIES = 20  # periods between two attempts to find an invariant set
RETURN = 200  # periods after which an invariant set has to be back in itself
SHRINKING = 0.8  # of the size before: then all are still coming together
LOOKS = 10  # periods between two looks whether it is
STALLED = 0.99  # of the size before is no progress from one look to the next
SHAPE = 4  # generators of an attempt, in multiples of the dimension
ROOM = 0.3  # by which an attempt is larger than the widest set
FARTHEST = 100.0  # in the body's scales: what has gone so far is lost
SOLVER_STEP = 0.05  # seconds at most in a simulation


@dataclass(frozen=True)
class StartCell:
    """A part of the starts.

    :param low: the least value of each number of the body
    :param high: the greatest one
    :param shown: whether the claims are shown from everywhere in it
    :param reason: why not; empty if they are
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shown: bool
    reason: str = ""


@dataclass(frozen=True)
class Forever:
    """A set of body and neurons that the loop never leaves: all `center + G e` with `|e| <= 1`, at whole periods.

    :param center: body and neurons in its middle
    :param generators: G, by rows
    :param entered: after so many periods every start is in it
    :param returns: whatever is in it is in it again after so many periods
    :param low: the least value of each number of the body meanwhile, and so for ever
    :param high: the greatest one
    """

    center: tuple[float, ...]
    generators: tuple[tuple[float, ...], ...]
    entered: int
    returns: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class LoopAttack:
    """What an adversary found.

    :param trajectories: how many bodies it followed until the claims end
    :param longer: how many of them it followed beyond, in the set that none leaves
    :param reached: for each number of the body, how much of the tube's width was reached, in the middle of all periods
    :param left: what left the tube or the set; empty if nothing did
    """

    trajectories: int
    longer: int
    reached: tuple[float, ...]
    left: str


@dataclass(frozen=True)
class Rest:
    """A point at which circuit and body rest.

    :param at: body and neurons
    :param share: which share of the bodies that start anywhere come to it
    :param within: there is a rest no farther from it than this, in exact arithmetic; None if none was proved
    """

    at: tuple[float, ...]
    share: float
    within: float | None


@dataclass(frozen=True)
class Proof:
    """What was proved of an agent and its body.

    :param agent: the agent's name
    :param sha256: the hash of its weights
    :param body: the body's name
    :param names: the numbers of the body's state
    :param error: the greatest error of a sensor, as a share of its scale
    :param cells: the parts of the starts
    :param claims: what was to be shown
    :param tube: for each period of the claims, the least and the greatest value of each number of the body
    :param everywhere: the least and the greatest value of each number of body and neurons in all that was shown
    :param forever: the set in which all ends; None if none was found
    :param why: why none was found
    :param seconds: how long it took
    :param attack: what an adversary found; None if there was none
    :param thrown: how many bodies were followed from anywhere, to see where they come to rest
    :param rests: the rests to which they come, the most frequent first
    """

    agent: str
    sha256: str
    body: str
    names: tuple[str, ...]
    error: float
    cells: tuple[StartCell, ...]
    claims: tuple[Claim, ...]
    tube: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    everywhere: tuple[tuple[float, ...], tuple[float, ...]]
    forever: Forever | None
    why: str
    seconds: float
    attack: LoopAttack | None = None
    thrown: int = 0
    rests: tuple[Rest, ...] = ()

    @property
    def shown(self) -> bool:
        """Whether the claims are shown from every start."""
        return all(cell.shown for cell in self.cells)

    def check_is_of(self, agent: LoadedPolicy) -> None:
        """Refuses another agent than the one that the proof is about."""
        if agent.sha256 != self.sha256:
            raise ValueError(f"the proof is about {self.agent}, and this agent has other weights")

    def to_json(self) -> str:
        """Returns the proof as one line of JSON, with infinite ends as null."""
        return json.dumps(strict_json({"shown": self.shown, **asdict(self)}))


class Prover:
    """Follows cells of starts through a loop.

    :param agent: the agent
    :param body: the body
    :param error: the greatest error of a sensor, as a share of its scale
    """

    def __init__(self, agent: LoadedPolicy, body: Equations, error: float) -> None:
        self.controller, self.body = Controller(agent), body
        check_fits(self.controller, body)
        self.loop = ProvedLoop(CircuitOnSets(self.controller), body, body.errors(error))
        self.exact = copy.deepcopy(self.controller).double()
        self.m = len(body.names)
        self.periods = round(body.horizon / body.period)
        self.low, self.high = (np.full((self.periods, self.m), end) for end in (np.inf, -np.inf))
        self.reached = [self.start(np.array([body.low]), np.array([body.high])).box]  # by all that was shown

    def start(self, low: Array, high: Array) -> Sets:
        """Returns the sets of body and neurons that episodes begin with, for cells (B, m)."""
        nothing = np.zeros((len(low), self.loop.circuit.size))
        return Sets.boxes(np.concatenate([low, nothing], axis=1), np.concatenate([high, nothing], axis=1))

    def follow(self, low: Array, high: Array) -> tuple[Sets, list[str]]:
        """Follows cells (B, m) until the claims end.

        :return: the sets of the cells from which the claims hold, and for each cell why they do not, or nothing
        """
        sets, reasons = self.start(low, high), [""] * len(low)
        here = np.arange(len(low))
        size = sets.center.shape[1]
        first, last = (np.full((len(low), self.periods, size), end) for end in (np.inf, -np.inf))
        for k in range(self.periods):
            passed = self.loop.period(sets)
            wrong = self.wrong(passed.tube, passed.enclosed, k)
            for row, reason in zip(here, wrong, strict=True):
                reasons[row] = reason
            fine = np.array([not reason for reason in wrong])
            here, sets = here[fine], passed.sets.at(fine)
            if not len(here):
                break
            first[here, k], last[here, k] = passed.reach.at(fine)
        self.low = np.minimum(self.low, first[here, :, : self.m].min(axis=0, initial=np.inf))
        self.high = np.maximum(self.high, last[here, :, : self.m].max(axis=0, initial=-np.inf))
        if len(here):
            self.reached.append(Interval(first[here].min(axis=1), last[here].max(axis=1)))
        return sets, reasons

    def wrong(self, tube: list[Interval], enclosed: NDArray[np.bool_], period: int) -> list[str]:
        """Returns for each set what is wrong with its way in a period; nothing if nothing is."""
        found = ["" if fine else f"lost in period {period + 1}" for fine in enclosed]
        far = FARTHEST * np.array(self.body.scales)
        for k, box in enumerate(tube):
            lost = ~(box.high - box.low <= far).all(axis=1)  # NaN is not within anything
            begin, end = (period + (k + side) / len(tube) for side in (0, 1))
            for row in np.flatnonzero(lost):
                found[row] = found[row] or f"too wide in period {period + 1}"
            for claim in self.body.claims:
                if not concerns(claim, begin * self.body.period, end * self.body.period, self.body):
                    continue
                inside = (box.low >= claim.low) & (box.high <= claim.high)
                for row, number in np.argwhere(~inside):
                    name = self.body.names[number]
                    found[row] = found[row] or (
                        f"{name} may leave [{claim.low[number]:g}, {claim.high[number]:g}] "
                        f"at {begin * self.body.period:.3g} to {end * self.body.period:.3g} s"
                    )
        return found

    def forever(self, sets: Sets, progress: bool) -> tuple[Forever | None, str]:
        """Returns a set that all of these enter and none leaves, or why none was found."""
        reached: list[Interval] = []
        before = sets.radius.max(axis=0)
        with tracked("for ever", LONGEST, unit="periods", shown=progress) as tracker:
            for k in range(LONGEST):
                passed = self.loop.period(sets)
                wrong = [reason for reason in self.wrong(passed.tube, passed.enclosed, self.periods + k) if reason]
                if wrong:
                    return None, f"before all starts had come together, {wrong[0]}"
                sets = passed.sets
                reached.append(passed.reach)
                tracker.advance(1, 1)
                if (k + 1) % TRIES:
                    continue
                size = sets.radius.max(axis=0)
                if (size > SHRINKING * before).all():
                    found = self.invariant(sets, self.periods + k + 1)
                    if found is not None:
                        self.reached += reached
                        return found, ""
                before = size
        return None, f"no invariant set was found within {LONGEST} periods"

    def invariant(self, sets: Sets, entered: int) -> Forever | None:
        """Returns a set around these that comes back into itself, if there is one of the shape of the widest."""
        widest = sets.at(np.array([sets.radius.sum(axis=1).argmax()])).reduced(SHAPE)
        start = around = Sets(widest.center, widest.generators * (1 + ROOM))
        if not sets.are_within(around):
            return None
        reached, before = [around.box], np.inf
        for k in range(RETURN):
            passed = self.loop.period(around)
            if any(self.wrong(passed.tube, passed.enclosed, self.periods + k)):
                return None
            around = passed.sets
            reached.append(passed.reach)
            if (k + 1) % LOOKS:
                continue
            if around.are_within(start):
                self.reached += reached
                rows = tuple(tuple(row.tolist()) for row in start.generators[0])
                low, high = (end[: self.m] for end in ends_of(reached[1:]))
                return Forever(tuple(start.center[0].tolist()), rows, entered, k + 1, low, high)
            size = float((around.radius / start.radius).max())
            if before < 1 and size > STALLED * before:
                return None
            before = size
        return None

    @torch.no_grad()
    def simulated(self, points: Array) -> Array:
        """Returns where bodies and neurons (R, m + N) are after a period without errors, in float64."""
        body, neurons = torch.as_tensor(points[:, : self.m]), torch.as_tensor(points[:, self.m :])
        action, after = self.exact(body[:, list(self.body.seen)], neurons)
        moved = self.body.moved(tuple(body.unbind(1)), tuple(action.unbind(1)), torch, SOLVER_STEP)
        found: Array = torch.cat([torch.stack(moved, 1), after], 1).numpy()
        return found


def prove(
    agent: LoadedPolicy,
    body: str,
    *,
    error: float = ERROR,
    most: int = MOST,
    side: int = SIDE,
    forever: bool = True,
    progress: bool = True,
) -> Proof:
    """Proves a body's claims for an agent, from every start and for ever.

    The starts are cut into cells. A cell from which the claims cannot be shown is cut in two, until there are `most`.

    Example::

        proof = prove(nc.load("agent.safetensors"), "single-pendulum")
        print(proof.shown, proof.forever)

    :param agent: a policy that `nc.load` read
    :param body: a key of `ncp_envs.equations.BODIES`
    :param error: the greatest error of a sensor, as a share of its scale
    :param most: the number of cells at which to give up
    :param side: cells along each side of the starts, to begin with
    :param forever: look for a set that all starts enter and none leaves
    :param progress: show progress bars
    """
    equations = body_named(body)
    if not 0 <= error < 1:
        raise ValueError(f"the error of a sensor is a share from 0 to 1, got {error}")
    started = time.perf_counter()
    prover = Prover(agent, equations, error)
    pending, done, ends = cells_of(equations, side), [], None
    with tracked("cells", len(pending[0]), unit="cells", shown=progress) as tracker:
        while len(pending[0]):
            low, high = (end[:AT_ONCE] for end in pending)
            rest = [end[AT_ONCE:] for end in pending]
            sets, reasons = prover.follow(low, high)
            if len(sets):
                ends = sets if ends is None else ends.followed_by(sets)
            failed = np.array([bool(reason) for reason in reasons])
            done += [StartCell(tuple(low[k].tolist()), tuple(high[k].tolist()), True) for k in np.flatnonzero(~failed)]
            tracker.advance(int((~failed).sum()), len(low))
            waiting = len(rest[0]) + 2 * int(failed.sum())
            tracker.total = len(done) + waiting
            if failed.any() and len(done) + waiting > most:
                done += [StartCell(tuple(low[k].tolist()), tuple(high[k].tolist()), False, reasons[k])
                         for k in np.flatnonzero(failed)]  # fmt: skip
                done += [
                    StartCell(tuple(one.tolist()), tuple(other.tolist()), False, "not tried")
                    for one, other in zip(*rest, strict=True)
                ]
                break
            halves = halved(low[failed], high[failed], np.array(equations.scales))
            pending = np.concatenate([rest[0], halves[0]]), np.concatenate([rest[1], halves[1]])
    shown = all(cell.shown for cell in done)
    endless, why = None, "the claims are not shown" if not shown else "not asked for"
    if shown and forever and ends is not None:
        endless, why = prover.forever(ends, progress)
    tube = tuple((tuple(a.tolist()), tuple(b.tolist())) for a, b in zip(prover.low, prover.high, strict=True))
    return Proof(
        agent.name, agent.sha256, body, equations.names, error, tuple(done), equations.claims, tube,
        ends_of(prover.reached), endless, why, time.perf_counter() - started,
    )  # fmt: skip


def ends_of(boxes: list[Interval]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the least and the greatest value of each number in boxes (B, D)."""
    low, high = np.concatenate([box.low for box in boxes]), np.concatenate([box.high for box in boxes])
    return tuple(low.min(axis=0).tolist()), tuple(high.max(axis=0).tolist())


def body_named(name: str) -> Equations:
    """Returns a body, and refuses a name that there is not."""
    if name not in BODIES:
        raise ValueError(f"there is no body {name!r}: choose one of {', '.join(BODIES)}")
    return BODIES[name]


def check_fits(controller: Controller, body: Equations) -> None:
    """Refuses an agent that was made for another body."""
    seen, acted = len(controller.sensors), len(controller.actions)
    if (seen, acted) != (len(body.seen), body.actions):
        raise ValueError(
            f"{body.env} shows {len(body.seen)} observations and takes {body.actions} actions, and this agent reads "
            f"{seen} and has {acted}"
        )


def concerns(claim: Claim, begin: float, end: float, body: Equations) -> bool:
    """Whether a claim says something about a time; the claims that end last hold for ever."""
    little = 1e-9 * body.period
    last = claim.end >= body.horizon
    return end > claim.begin + little and (last or begin < claim.end - little)


def cells_of(body: Equations, side: int) -> tuple[Array, Array]:
    """Returns the starts cut into `side` cells along each side, (B, m) each end."""
    edges = [np.linspace(*ends, side + 1) for ends in zip(body.low, body.high, strict=True)]
    ends = [np.meshgrid(*(edge[part] for edge in edges), indexing="ij") for part in (slice(-1), slice(1, None))]
    low, high = (np.stack([axis.ravel() for axis in end], axis=1) for end in ends)
    return low, high


def halved(low: Array, high: Array, scales: Array) -> tuple[Array, Array]:
    """Returns each cell's two halves, cut across its longest side."""
    rows, longest = np.arange(len(low)), ((high - low) / scales).argmax(axis=1)
    middle = (low + high)[rows, longest] / 2
    first, second = high.copy(), low.copy()
    first[rows, longest] = second[rows, longest] = middle
    return np.concatenate([low, second]), np.concatenate([first, high])
