"""What an audit found out about an agent, in a form that is printed, drawn and written as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from ncp_control.base.values import strict_json
from ncp_control.rl.monitor import Monitor

FORMAT = "ncp_control certificate 1"


@dataclass(frozen=True)
class Range:
    """What a number can be: from `low` to `high`, infinite where nothing could be proved.

    :param low: the lower bound
    :param high: the upper bound
    :param found_low: the least value that the attack found; None without an attack
    :param found_high: the greatest value that it found
    """

    low: float
    high: float
    found_low: float | None = None
    found_high: float | None = None

    @property
    def tightness(self) -> float | None:
        """How many times as wide the certified range is as the range that the attack found; None without one."""
        if self.found_low is None or self.found_high is None or not self.found_high > self.found_low:
            return None
        return (self.high - self.low) / (self.found_high - self.found_low)

    @property
    def is_broken(self) -> bool:
        """Whether the attack found a value outside, which means that the certificate is wrong."""
        return (self.found_low is not None and self.found_low < self.low) or (
            self.found_high is not None and self.found_high > self.high
        )


@dataclass(frozen=True)
class CertifiedNeuron:
    """What is certified about one neuron.

    :param name: its name
    :param layer: its layer
    :param state: what its state can be
    :param time_constant: what its momentary time constant can be, in units of the elapsed time
    :param forgets_after: after how many steps two pasts differ in it by less than `epsilon` of its range; None if this
        is not proved
    :param matters: how far it can move any action, as a share of the action's range, while it moves through its own
        range; None if this is not proved
    :param condition: "active", "dead" (it moves no action by more than a ten-millionth of the action's range) or
        "saturated" (it stays at one end of its range)
    :param found_matters: how far the attack moved an action by replacing its state; None if it did not try
    """

    name: str
    layer: str
    state: Range
    time_constant: Range
    forgets_after: int | None
    matters: float | None
    condition: str
    found_matters: float | None = None


@dataclass(frozen=True)
class CertifiedSynapse:
    """What is certified about one synapse.

    :param source: the name of the sensor or the neuron
    :param target: the name of the neuron
    :param kind: "sensory", "synapse" or "gap junction"
    :param sign: "+" if its target rises with its source everywhere, "-" if it falls, "0" if it never moves by more than
        a ten-millionth of its range, "?" if it is not proved
    :param condition: "active", "closed" (its conductance stays near 0), "open" (it stays near its greatest) or "dead"
        (it moves no action by more than a ten-millionth of the action's range, however long it acts)
    :param matters: how far it can move any action at most, as a share of the action's range; None if not proved
    :param found_matters: how far the attack moved an action by replacing what its source passes on; None if it did not
        try
    """

    source: str
    target: str
    kind: str
    sign: str
    condition: str
    matters: float | None
    found_matters: float | None = None


@dataclass(frozen=True)
class CertifiedAction:
    """What is certified about one number of the action, or about one choice.

    :param name: its name
    :param value: what it can be after clipping, infinite where it can become NaN; for a choice, how far its value can
        exceed that of the best other choice
    :param raw: the same before clipping to the action space
    :param possible: whether a choice can ever be made; True for a number
    :param moved_in_step: how far an observation error of `error` can move it, or the value of a choice, in one step, if
        the wrong observation lies in the box, too; None if not proved
    :param moved_in_episode: how far an error of `error` in every step can move it for ever; None if not proved
    :param moved_on_path: the greatest of `moved_in_step` at the states of a recording; None without a recording
    :param found_moved: how far the attack could move it in the same step; None without an attack
    :param found_always: how far the attack could move it by errors in every step; None without an attack
    """

    name: str
    value: Range
    raw: Range
    possible: bool
    moved_in_step: float | None
    moved_in_episode: float | None
    moved_on_path: float | None
    found_moved: float | None
    found_always: float | None = None


@dataclass(frozen=True)
class Path:
    """How one sensor reaches one action.

    :param sensor: its name
    :param action: its name
    :param sign: "+", "-", "?" for paths of both signs or of unknown sign
    :param steps: after how many solver steps it arrives at the earliest
    :param neurons: how many neurons lie on some path
    """

    sensor: str
    action: str
    sign: str
    steps: int
    neurons: int


@dataclass(frozen=True)
class Forgetting:
    """Whether and how fast the circuit forgets, whatever it sees.

    :param proved: whether two pasts provably become the same
    :param reason: why, in one sentence
    :param steps: after how many steps no action differs by more than `epsilon` of its range; None if not proved
    :param rate: the factor by which differences shrink in each step in the long run; None if not proved
    :param cycles: the neurons' names of each cycle, with the factor of one solver step: below 1 it forgets
    :param found_steps: for how many steps the attack kept two pasts apart by more than `epsilon`; None without one
    """

    proved: bool
    reason: str
    steps: int | None
    rate: float | None
    cycles: tuple[tuple[tuple[str, ...], float], ...]
    found_steps: int | None = None


@dataclass(frozen=True)
class Attack:
    """How a certificate was attacked.

    :param inputs: how many observations the agent saw
    :param violations: a sentence for every claim that was broken; empty for a certificate that held
    :param tightness: a state's certified width over the width that the attack found, the median of all states
    :param seconds: how long it took
    :param longest: the steps of the longest sequence
    """

    inputs: int
    violations: tuple[str, ...]
    tightness: float | None
    seconds: float
    longest: int = 0


@dataclass(frozen=True)
class Certificate:
    """What is certified about an agent, for every sequence of observations inside a box.

    :param agent: the name of its file without the ending, or of its run's folder
    :param sha256: the checksum of the policy file
    :param cell: the cell's name with its solver, such as "LTC (fused, 3 unfolds)"; "none" for an agent without a memory
    :param counts: inputs, neurons, sensory synapses, synapses, gap junctions, actions
    :param box: where the box comes from, in words
    :param sensors: the names of the observations
    :param observations: the box: a range for each observation, before normalisation
    :param elapsed: the certified times between two observations
    :param error: the size of the observation errors, as a share of `error_units`
    :param error_units: what an error of 1 is for each sensor: its standard deviation in training, or 1
    :param epsilon: which share of a range counts as forgotten
    :param neurons: one for each neuron; empty for an agent without a memory
    :param states: what each number of the state can be: the neurons', for most cells
    :param synapses: one for each synapse
    :param actions: one for each number of the action, or each choice
    :param paths: one for each sensor and action that it can reach
    :param forgetting: how the circuit forgets; None for an agent without a memory
    :param notes: what could not be proved, and why, in sentences
    :param seconds: how long the audit took, without the attack
    :param chooses: whether the actions are choices
    :param attack: how it was attacked; None if it was not
    """

    agent: str
    sha256: str
    cell: str
    counts: dict[str, int]
    box: str
    sensors: tuple[str, ...]
    observations: tuple[Range, ...]
    elapsed: tuple[float, float]
    error: float
    error_units: tuple[float, ...]
    epsilon: float
    neurons: tuple[CertifiedNeuron, ...]
    states: tuple[Range, ...]
    synapses: tuple[CertifiedSynapse, ...]
    actions: tuple[CertifiedAction, ...]
    paths: tuple[Path, ...]
    forgetting: Forgetting | None
    notes: tuple[str, ...]
    seconds: float
    chooses: bool = False
    attack: Attack | None = None
    format: str = field(default=FORMAT)

    @property
    def holds(self) -> bool:
        """Whether no attack has broken a claim."""
        return self.attack is None or not self.attack.violations

    def monitor(self) -> Monitor:
        """Returns the certified ranges for `Controller` and for the C code."""
        observations, states = ([(one.low, one.high) for one in ranges] for ranges in (self.observations, self.states))
        return Monitor.around(observations, states, self.elapsed, self.sha256)

    def to_json(self, indent: int | None = None) -> str:
        """Returns everything as JSON, in which an infinite bound is null."""
        return json.dumps(strict_json(asdict(self)), indent=indent)
