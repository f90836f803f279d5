"""Every claim of a certificate, from what interval arithmetic says about an agent.

`reach` follows all paths from sensors to actions: with which sign, how soon and through which neurons they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ncp_control.audit.box import features_in
from ncp_control.audit.certificate import CertifiedAction, CertifiedNeuron, Forgetting, Path, Range
from ncp_control.audit.differences import product_up
from ncp_control.audit.examining import Examined, step_from
from ncp_control.audit.matter import NEGLIGIBLE, neurons_matter
from ncp_control.audit.recorded import RecordedPath
from ncp_control.base.intervals import Array, Interval, exactly, point
from ncp_control.base.progress import tracked
from ncp_control.neurons import Cell
from ncp_control.neurons.ranges import OVERFLOW, Elapsed, Slopes, as_interval, known_of

NARROW = 0.01  # a neuron that stays within this share of its cell's own bounds of one of their ends is saturated
Flags = NDArray[np.bool_]


def ranges_of(values: Interval) -> tuple[Range, ...]:
    """Returns an interval as ranges."""
    return tuple(Range(float(low), float(high)) for low, high in zip(*values, strict=True))


def certify_neurons(seen: Examined, forgotten: Sequence[int | None] | None) -> tuple[CertifiedNeuron, ...]:
    """Returns what is certified about every neuron.

    :param forgotten: after how many steps each number of the state forgets; None if nothing is known of that
    """
    known = seen.known
    if known is None:
        return ()
    wiring, cell = known.cell.wiring, known.cell
    layers = [name for name, part in wiring.layers.items() for _ in range(part.stop - part.start)]
    times = known.time_constants(seen.states, seen.features)
    steps = [None] * known.size if forgotten is None else list(forgotten)
    if known.size < known.units or type(cell).neurons is not Cell.neurons:  # each neuron is made of the whole state
        steps = [None if None in steps else max(step or 0 for step in steps)] * known.units
    shares, own = neurons_matter(seen), known.neurons(as_interval(cell.state_bounds()))
    states = known.neurons(seen.states)
    neurons = []
    for j, name in enumerate(wiring.neuron_names):
        condition, share = "saturated" if stays_at_end(states.at(j), own.at(j)) else "active", shares[j]
        if share is not None and share <= NEGLIGIBLE:
            condition = "dead"
        neurons.append(
            CertifiedNeuron(
                name=name,
                layer=layers[j],
                state=Range(float(states.low[j]), float(states.high[j])),
                time_constant=Range(float(times.low[j]), float(times.high[j])),
                forgets_after=steps[j],
                matters=shares[j],
                condition=condition,
            )
        )
    return tuple(neurons)


def stays_at_end(state: Interval, own: Interval) -> bool:
    """Whether a neuron's range lies within a hundredth of one end of the bounds that its cell gives it."""
    near = NARROW * own.width
    return bool(np.isfinite(near) and (state.low >= own.high - near or state.high <= own.low + near))


def certify_actions(seen: Examined, errors: Array, path: Array | None) -> tuple[CertifiedAction, ...]:
    """Returns what is certified about every action."""
    controller, differences = seen.controller, seen.differences
    most = seen.raw.width if controller.chooses else np.minimum(seen.actions.width, seen.ranges)
    moved_in_step = moved_in_episode = np.full(len(most), np.nan)  # not proved
    if seen.known is None:
        moved_in_step = moved_in_episode = np.minimum(product_up(seen.gain.size, errors), most)
    elif differences is not None:
        moved_in_step = np.minimum(differences.moved(differences.now(errors)), most)
        forever = differences.always(product_up(differences.B, errors))
        moved_in_episode = np.minimum(differences.moved(forever), most)
    # An action that has no range can become NaN, which is no distance from anything.
    moved_in_step, moved_in_episode = (
        np.where(seen.raw.is_finite, moved, np.nan) for moved in (moved_in_step, moved_in_episode)
    )
    return tuple(
        CertifiedAction(
            name=name,
            value=Range(float(seen.actions.low[k]), float(seen.actions.high[k])),
            raw=Range(float(seen.raw.low[k]), float(seen.raw.high[k])),
            possible=not controller.chooses or bool(seen.actions.high[k] >= 0),
            moved_in_step=known_or_none(moved_in_step[k]),
            moved_in_episode=known_or_none(moved_in_episode[k]),
            moved_on_path=None if path is None else float(path[k]),
            found_moved=None,
        )
        for k, name in enumerate(controller.actions)
    )


def known_or_none(value: float) -> float | None:
    """Returns a finite number, and None for any other."""
    return float(value) if np.isfinite(value) else None


def on_path(seen: Examined, recording: RecordedPath, errors: Array, elapsed: Elapsed, progress: bool = False) -> Array:
    """Returns how far errors can move each action in the same step, from any state along a recording, (A,).

    :param recording: what was observed, when, and where episodes begin
    :param errors: the greatest error of each observation, (n,)
    :param elapsed: the certified times between two observations, within which the recording's lie
    :param progress: show a progress bar
    """
    controller = seen.controller
    recording.check(controller)
    times, begins = recording.times(controller, elapsed), recording.begins()
    # Only the last time's bounds are kept, because a recording may have as many times as steps.
    at_time = {elapsed.low: seen} if elapsed.low == elapsed.high else {}
    state, most = controller.initial_state(), np.zeros(len(controller.actions))
    with tracked("along the recording", len(times), shown=progress) as tracker:
        for row, time, begin in zip(recording.observations, times.tolist(), begins, strict=True):
            if begin:
                state = controller.initial_state()
            moment = Elapsed(time, time)
            if time not in at_time:
                at_time = {time: seen if seen.known is None else replace(seen, known=known_of(seen.known.cell, moment))}
            # What an error moves is claimed of exact arithmetic.
            with exactly():
                features = features_in(controller, Interval(row - errors, row + errors), moment)
                _, acted = step_from(at_time[time], point(state[0].double().numpy()), features)
            most = np.maximum(most, acted.width if state.isfinite().all() else np.inf)
            with torch.no_grad():
                _, state = controller(torch.as_tensor(row, dtype=torch.float32)[None], state, time)
            tracker.advance(1, 1)
    return most


def certify_paths(seen: Examined) -> tuple[Path, ...]:
    """Returns how each sensor reaches each action."""
    controller = seen.controller
    if seen.known is None:
        rises, falls = seen.gain.high > 0, seen.gain.low < 0
        steps, through = np.zeros(rises.shape, dtype=int), np.zeros(rises.shape, dtype=int)
    elif seen.slopes is None:
        return ()
    else:
        reached = reach(seen.slopes, seen.gain)
        rises, falls, steps, through = reached.rises, reached.falls, reached.steps, reached.neurons.sum(axis=2)
    return tuple(
        Path(sensor, action, "?" if up and down else "+" if up else "-", int(steps[a, s]), int(through[a, s]))
        for s, sensor in enumerate(controller.sensors)
        for a, action in enumerate(controller.actions)
        for up, down in [(rises[a, s], falls[a, s])]
        if up or down
    )


def certify_forgetting(seen: Examined, steps: int | None) -> Forgetting | None:
    """Returns whether and how fast the circuit forgets.

    :param steps: after how many steps no past moves an action; None if this is not proved
    """
    if seen.known is None:
        return None
    differences = seen.differences
    if differences is None:
        return Forgetting(False, f"not proved: {seen.known.gap or 'the derivatives are not known'}", None, None, ())
    rate = differences.rate()
    names: Sequence[str] = seen.known.cell.wiring.neuron_names
    if not seen.known.has_neurons:
        names = [f"state{k}" for k in range(seen.known.size)]
    cycles = tuple((tuple(names[j] for j in members), factor) for members, factor in differences.cycles())
    if rate < 1:
        kind = "the circuit has no cycles" if not cycles else "every cycle makes differences smaller"
        reason = f"proved: {kind}; in the long run each step shrinks a difference to {rate:.6g} of itself or less"
        return Forgetting(True, reason, steps, rate, cycles)
    worst = max(cycles, key=lambda cycle: cycle[1])
    who = f"the cycle of {len(worst[0])} neurons around {worst[0][0]}" if len(worst[0]) > 1 else worst[0][0]
    reason = f"not proved: {who} could enlarge differences by a factor of {worst[1]:.3g} in a solver step"
    return Forgetting(False, reason, steps, None, cycles)


def notes_of(seen: Examined) -> tuple[str, ...]:
    """Returns what could not be proved, in sentences."""
    gap = None if seen.known is None else seen.known.gap
    notes = [] if gap is None else [gap]
    unbounded = int((~seen.states.is_finite).sum())
    if unbounded:
        why = "" if gap else f", because {OVERFLOW}"
        notes.append(f"{unbounded} of {len(seen.states.low)} states have no certified range{why}")
    if not seen.raw.is_finite.all():
        why = ", because they can become NaN" if unbounded else f", because {OVERFLOW}"
        notes.append(f"actions have no certified range{why}")
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class Reach:
    """What a circuit's inputs reach.

    :param rises: whether some path from an input makes a number of the actions rise with it, (A, F)
    :param falls: whether some path makes it fall
    :param steps: after how many solver steps the first path arrives, (A, F); 0 where there is none
    :param neurons: the numbers of the state on some path, (A, F, N)
    """

    rises: Flags
    falls: Flags
    steps: NDArray[np.int64]
    neurons: Flags


def reach(slopes: Slopes, gain: Interval) -> Reach:
    """Follows all paths from inputs to actions along derivatives that are not zero everywhere.

    :param slopes: the derivatives of a solver step
    :param gain: the derivatives of the actions by the states, (A, N)
    """
    size, features = slopes.inputs.shape
    rises, falls = np.zeros((2, size, features), dtype=bool)
    first = np.full((size, features), -1)
    # Each number of the state can begin to rise and can begin to fall: after 2 N steps nothing new happens.
    for step in range(1, 2 * size + 2):
        before = rises | falls
        moved = _follow(slopes.before, rises, falls)
        raised, lowered = _ends(slopes.inputs)
        up, down = moved[0] | raised, moved[1] | lowered
        # What a solver step has computed passes on along `same` within the step, through any number of neurons.
        while True:
            more = _follow(slopes.same, up, down)
            if not ((more[0] & ~up) | (more[1] & ~down)).any():
                break
            up, down = up | more[0], down | more[1]
        unchanged = not ((up & ~rises) | (down & ~falls)).any()
        rises, falls = rises | up, falls | down
        first = np.where((rises | falls) & ~before, step, first)
        if unchanged:
            break
    acted = _follow(gain, rises, falls)
    feeds = gain.size > 0
    # The largest integer stands for "never" until the earliest arrival is chosen.
    arrives = np.where(feeds[:, :, None] & (first >= 0)[None], first[None], np.iinfo(np.int64).max).min(axis=1)
    arrived = acted[0] | acted[1]
    backward = reaching(slopes, feeds)
    neurons = (first >= 0).T[None] & backward[:, None]
    return Reach(*acted, np.where(arrived, arrives, 0), neurons & arrived[:, :, None])


def _ends(values: Interval) -> tuple[Flags, Flags]:
    """Returns where derivatives can be positive, and where they can be negative."""
    return values.high > 0, values.low < 0


def _follow(values: Interval, rises: Flags, falls: Flags) -> tuple[Flags, Flags]:
    """Follows derivatives by one more link: returns what rises and what falls with the inputs, each (T, F)."""
    # NumPy multiplies matrices of numbers much faster than matrices of truth values.
    up, down = (end.astype(np.float32) for end in _ends(values))
    rising, falling = rises.astype(np.float32), falls.astype(np.float32)
    return (up @ rising + down @ falling) > 0, (up @ falling + down @ rising) > 0


def reaching(slopes: Slopes, feeds: Flags) -> Flags:
    """Returns which numbers of the state reach each action, (A, N).

    :param feeds: which of them the action reads itself, (A, N)
    """
    edges = (slopes.before.size > 0) | (slopes.same.size > 0)
    found = feeds
    while True:
        more = found | ((found.astype(np.float32) @ edges.astype(np.float32)) > 0)
        if (more == found).all():
            return found
        found = more
