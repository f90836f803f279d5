"""The settings of pruning, the same for the library and the command line."""

from __future__ import annotations

from dataclasses import dataclass

from ncp_control.distil.settings import check_whole


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
