"""What an agent does with sets of states and observations, in exact arithmetic and in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import nn

from ncp_control.base.curves import curve_of
from ncp_control.base.intervals import (
    FUNCTION_ROUNDINGS,
    LEAST,
    SLACK,
    Array,
    Interval,
    between,
    exactly,
    point,
)
from ncp_control.base.slopes import SHARE, plus
from ncp_control.loop.proof.sets import Sets
from ncp_control.neurons.ranges import Bent, Elapsed, known_of, numbers
from ncp_control.rl.controller import Controller
from ncp_control.rl.policies.numpy_actor import flattened

PIECES = 6  # of the way from the center of a set to any point in it


class CircuitOnSets:
    """An agent as a function of sets of body and neurons.

    :param controller: the agent, with a memory and continuous actions
    """

    def __init__(self, controller: Controller) -> None:
        if controller.rnn is None or controller.chooses or controller.timed:
            raise ValueError(
                "a proof is about an agent with a memory, continuous actions and no elapsed times in its observations"
            )
        if not isinstance(controller.extractor, nn.Identity) or not isinstance(controller.normalize, nn.Identity):
            raise ValueError("a proof needs an agent that reads its observations as they are, without normalisation")
        self.controller = controller
        known = known_of(controller.rnn.cell, Elapsed(1.0, 1.0))
        found = [(part, layer) for part in known.parts for layer in [known.bent(part)] if layer is not None]
        if not found or len(found) < len(known.parts):
            raise ValueError(
                f"what a {type(controller.rnn.cell).__name__} does with sets of states is not known, only what a "
                "DualLTC does: train one, or distil this agent into one"
            )
        self.layers: list[tuple[slice, Bent]] = found
        self.size = known.size
        first = controller.rnn.cell.motor_start
        self.motor = np.arange(first, first + controller.rnn.cell.outputs)

    def step(self, sets: Sets, seen: list[int], errors: Array, m: int) -> Sets:
        """Returns sets of body, neurons and actions.

        :param sets: sets of body and neurons, (B, m + N)
        :param seen: the numbers of the body that the agent observes
        :param errors: how far each observation may be off, (S,)
        :param m: the size of the body's state
        """
        observed = sets.box.at((slice(None), seen))
        rounded = errors + SLACK * (observed.size + errors)
        wide = sets.with_errors(rounded)
        for part, layer in self.layers:
            wide = self._layer(wide, part, layer, seen, m)
        return self._head(wide.picked(slice(m + self.size)), m)

    def _layer(self, sets: Sets, part: slice, layer: Bent, seen: list[int], m: int) -> Sets:
        """Returns the sets after a layer has moved."""
        size = sets.center.shape[1]
        weights, added_up = (self._placed(part, seen, m) for part in (layer.weights, layer.sizes))
        middles, ranges, sizes = [], [], []
        box = sets.box
        for one, each, bias in zip(weights, added_up, layer.bias, strict=True):
            middle = sets.center @ one.T
            magnitude = box.size @ each.T + np.abs(bias)
            off = magnitude * ((size + sets.generators.shape[2] + 8) * SHARE)
            reach = np.abs(one @ sets.generators).sum(axis=2) + off
            middles.append(Interval(middle + bias - off, middle + bias + off))
            ranges.append(Interval(middle + bias - reach, middle + bias + reach))
            sizes.append(magnitude)
        with exactly():
            values = layer.values(middles)
        steep, rest = linear_and_rest(layer.slopes, middles, ranges)
        strays = layer.strays(ranges, np.stack(sizes, axis=1))
        rows = np.zeros((len(sets), weights.shape[1], size))
        for one, by in zip(weights, steep, strict=True):
            rows += by[:, :, None] * one
        first = m + part.start
        return sets.replaced(slice(first, first + rows.shape[1]), plus(values, rest), point(rows), strays)

    def _placed(self, weights: Array, seen: list[int], m: int) -> Array:
        """Returns weights (H, n, F + N) by body, neurons and errors of the observation, (H, n, m + N + F)."""
        features = len(seen)
        placed = np.zeros((*weights.shape[:2], m + self.size + features))
        placed[:, :, seen] = placed[:, :, m + self.size :] = weights[:, :, :features]
        placed[:, :, m : m + self.size] = weights[:, :, features:]
        return placed

    def _head(self, sets: Sets, m: int) -> Sets:
        """Returns the sets with the actions behind body and neurons."""
        whole = sets.picked(m + self.motor)
        for module in flattened(self.controller.head):
            whole = through_layer(module, whole)
        low, high = (numbers(end).reshape(-1) for end in (self.controller.low, self.controller.high))
        if self.controller.squashes:
            half = (high - low) / 2
            whole = whole.linear(np.diag(half), low + half, SLACK * 6)
        return sets.with_others(limited(whole, low, high))


def through_layer(module: nn.Module, sets: Sets) -> Sets:
    """Returns what a layer of the head makes of sets."""
    if type(module) is nn.Linear:
        bias = np.zeros(module.out_features) if module.bias is None else numbers(module.bias)
        return sets.linear(numbers(module.weight), bias, SLACK)
    if type(module) in (nn.Identity, nn.Flatten):
        return sets
    curve, box = curve_of(module), sets.box
    if curve is None:
        raise ValueError(
            f"a proof knows the layers Linear, Tanh, ReLU, ELU, SiLU and Hardtanh, and this agent has {module}"
        )
    with exactly():
        values = curve.values(point(sets.center))
    steep, rest = linear_and_rest(lambda ranges: [curve.slopes(ranges[0])], [point(sets.center)], [box])
    own = FUNCTION_ROUNDINGS * SLACK * np.maximum(curve.values(box).size, 1.0)
    return sets.bent(plus(values, rest), steep[0], own + SLACK * box.size * curve.slopes(box).size + LEAST)


def limited(sets: Sets, low: Array, high: Array) -> Sets:
    """Returns sets of actions within their limits."""

    def slopes(ranges: list[Interval]) -> list[Interval]:
        (box,) = ranges
        always, ever = (box.low > low) & (box.high < high), (box.high > low) & (box.low < high)
        return [Interval(always.astype(np.float64), ever.astype(np.float64))]

    steep, rest = linear_and_rest(slopes, [point(sets.center)], [sets.box])
    return sets.bent(plus(point(np.clip(sets.center, low, high)), rest), steep[0], np.zeros(low.shape))


def linear_and_rest(
    slopes_of: Callable[[list[Interval]], list[Interval]], middles: list[Interval], ranges: list[Interval]
) -> tuple[list[Array], Interval]:
    """Returns the slopes of a linear function that is near another one, and the range of the difference from it.

    On the straight way from the center to a point, each derivative is within those of smaller boxes, and on the side
    of the center on which the point lies. So the difference of a function that bends one way is on one side, too.

    :param slopes_of: the derivatives of the function by each of its numbers, for ranges of them
    :param middles: the numbers at the centers
    :param ranges: the numbers in the sets
    """
    steep, rest = [], between(0.0, 0.0, ranges[0].shape)
    for at, (mid, whole) in enumerate(zip(middles, ranges, strict=True)):
        sides = []
        for up in (True, False):
            low, high = (np.zeros(whole.shape) for _ in range(2))
            for k in range(1, PIECES + 1):
                inner = [part_of_way(*pair, k / PIECES) for pair in zip(middles, ranges, strict=True)]
                inner[at] = Interval(mid.low, inner[at].high) if up else Interval(inner[at].low, mid.high)
                found = slopes_of(inner)[at]
                low, high = low + found.low / PIECES, high + found.high / PIECES
            sides.append(Interval(low, high))
        above, below = sides
        slope = (np.minimum(above.low, below.low) + np.maximum(above.high, below.high)) / 2
        up_to, down_to = whole.high - mid.low, whole.low - mid.high
        ends = [0 * slope, *(up_to * (end - slope) for end in above), *(down_to * (end - slope) for end in below)]
        room = 20 * SHARE * (1 + np.abs(slope)) * (up_to - down_to)
        steep.append(slope)
        rest = plus(rest, Interval(np.minimum.reduce(ends) - room, np.maximum.reduce(ends) + room))
    return steep, rest


def part_of_way(middle: Interval, whole: Interval, share: float) -> Interval:
    """Returns where a number is at a share of the way from the center to any point."""
    return Interval(middle.low + share * (whole.low - middle.low), middle.high + share * (whole.high - middle.high))
