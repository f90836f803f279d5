"""The settings of a distillation, the same for the library and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import cos, inf, pi
from typing import Any

from ncp_control.base.values import check_optimizer_name, without_added
from ncp_control.neurons.catalogue import row_named

# Names of settings in the records of runs, where they differ.
OLDER = {"demonstrations": "first", "handover_at": "well", "teacher_share": "kept", "start_share": "begins"}
RISE = 0.1  # the share of the batches in which the learning rate rises


@dataclass(frozen=True)
class DistilSettings:
    """How a student learns from its teacher."""

    steps: int = 200_000
    """Steps of the environment, without evaluations."""

    iterations: int = 20
    """Iterations after the teacher's demonstrations: the student acts, then learns from all steps so far."""

    demonstrations: float = 0.2
    """The share of the steps in which the teacher acts alone, before the first iteration."""

    disturbance: float = 0.4
    """The largest noise on the teacher's own actions, as a share of half their range; each episode draws its own."""

    handover: int = 5
    """Iterations in which the teacher hands over to the student; at most twice as many if the student does badly."""

    handover_at: float = 0.8
    """The share of the teacher's return that the student needs before the teacher hands over more actions."""

    batches: int = 2500
    """Batches of training in an iteration."""

    batch: int = 16
    """Number of windows in a batch."""

    length: int = 64
    """Number of steps in a window."""

    warm_up: int = 8
    """The first steps of each window, whose errors do not count."""

    teacher_share: float = 0.25
    """The share of the windows in a batch that come from the teacher's own episodes."""

    start_share: float = 0.15
    """The share of the windows in a batch that start at the start of an episode."""

    learning_rate: float | None = None
    """The largest learning rate; by default 0.01 to 0.03 for muon, and from 0.001 to 0.05 for adam, by the cell."""

    optimizer: str | None = None
    """adam, or muon, which often learns more from as many batches; by default muon for dualltc, and adam for others."""

    synapses: int | None = None
    """Keep N synapses: the weakest go and others grow."""

    calm: float = 0.0
    """Weight of how far errors of sensors move actions."""

    average: float = 0.995
    """The share of itself that the running average of the weights keeps in each batch; 0: the weights themselves."""

    max_grad_norm: float = 1.0
    """Gradients with a larger norm are scaled down to this norm."""

    patience: int = 25
    """Steps for which a student may do badly before its teacher takes over, and the teacher before it gives up."""

    envs: int = 8
    """Number of environments side by side."""

    eval_episodes: int = 8
    """Episodes in the evaluation after each iteration."""

    def __post_init__(self) -> None:
        for name in ("steps", "batches", "batch", "length", "patience", "envs", "eval_episodes", "handover"):
            check_whole(name, getattr(self, name), 1)
        for name in ("iterations", "warm_up"):
            check_whole(name, getattr(self, name), 0)
        for name in ("disturbance", "calm"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} must be a number of at least 0, got {getattr(self, name)}")
        for name in ("demonstrations", "teacher_share", "start_share", "handover_at"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, got {getattr(self, name)}")
        if self.teacher_share + self.start_share > 1:
            shares = f"{self.teacher_share} and {self.start_share}"
            raise ValueError(f"teacher_share and start_share together are at most 1, got {shares}")
        if not 0 <= self.average < 1:
            raise ValueError(f"average is a share from 0 up to 1, such as 0.995, got {self.average}")
        if self.warm_up >= self.length:
            raise ValueError(f"windows of {self.length} steps are too short for a warm-up of {self.warm_up}")
        if self.synapses is not None:
            check_whole("synapses", self.synapses, 1)
        if self.optimizer is not None:
            check_optimizer_name(self.optimizer)
        for name in ("learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < inf:
                raise ValueError(f"{name} must be a number above 0, got {value}")

    def of_cell(self, cell: str) -> DistilSettings:
        """Returns these settings, with a cell's default optimizer and learning rate where none was given."""
        row = row_named(cell)
        optimizer = self.optimizer or ("muon" if row.muon else "adam")
        rate = row.rate if optimizer == "adam" else row.muon_rate if self.synapses is None else row.sparse_rate
        return replace(self, optimizer=optimizer, learning_rate=self.learning_rate or rate)

    def recorded(self) -> dict[str, Any]:
        """Returns the settings for the record of a run, as earlier versions wrote them: by older names, and without
        the optimizer."""
        values = {OLDER.get(name, name): value for name, value in asdict(self).items()}
        return without_added(values, {"optimizer": "adam", "synapses": None, "calm": 0.0})

    @property
    def all_batches(self) -> int:
        """The number of batches in the whole distillation."""
        return self.batches * (1 + self.iterations)

    def steps_until(self, iteration: int) -> int:
        """Returns how many steps are taken before the training of an iteration; the first one is 0."""
        first = round(self.steps * (self.demonstrations if self.iterations else 1))
        return first + round((self.steps - first) * iteration / max(1, self.iterations))

    def kept_of_average(self, batches: int) -> float:
        """Returns the share of itself that the running average keeps after so many batches, which rises at first."""
        return min(self.average, 1 - 1 / (1 + batches / 10))

    def rate(self, done: float) -> float:
        """Returns the learning rate after a share of all batches: it rises, and then falls to nearly zero."""
        if self.learning_rate is None:
            raise ValueError("there is no learning rate yet: of_cell(name) gives the cell's default")
        if done < RISE:
            return self.learning_rate * (0.04 + 0.96 * done / RISE)
        return self.learning_rate * (0.001 + 0.999 * (0.5 + 0.5 * cos(pi * (done - RISE) / (1 - RISE))))


def check_whole(name: str, value: int, least: int) -> None:
    """Refuses a setting that is not a whole number, or less than the least."""
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")


@dataclass(frozen=True)
class PruneSettings:
    """How a student is made smaller once it has learnt, round by round."""

    share: float = 0.2
    """The share of the synapses left that each round removes."""

    rounds: int = 12
    """The most rounds; they end earlier when the student has less than half of its return."""

    keep: float = 0.9
    """The share of the unpruned student's return that the circuit named as the smallest one must have."""

    batches: int | None = None
    """Batches of training in a round; by default as many as in an iteration of the distillation."""

    rate: float = 1.0
    """The largest learning rate of a round, as a share of that of the distillation."""

    eval_episodes: int = 32
    """Episodes in the evaluation after each round."""

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_episodes"):
            check_whole(name, getattr(self, name), 1)
        if self.batches is not None:
            check_whole("batches", self.batches, 1)
        if not 0 < self.share < 1:
            raise ValueError(f"share of the pruning is a share above 0 and below 1, got {self.share}")
        for name in ("keep", "rate"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} of the pruning is a share above 0 and at most 1, got {getattr(self, name)}")
