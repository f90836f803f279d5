"""The returns of a policy while it is trained, in one environment or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncp_control.base.files import write_atomically

Moments = tuple[float, float]  # a mean and a standard deviation


class LearningCurve:
    """The evaluations of a training run.

    :param names: the names of further environments in which every policy is evaluated; the first one, in which the best
        policy is chosen, has the name ""
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.points: list[tuple[int, float, float]] = []
        self.also: dict[str, list[Moments]] = {name: [] for name in names}
        self.best: tuple[int, float] | None = None

    @property
    def last_step(self) -> int | None:
        """The step of the last evaluation; None without one."""
        return self.points[-1][0] if self.points else None

    def add(self, step: int, found: dict[str, Moments]) -> bool:
        """Adds an evaluation, and returns whether its mean return is the best so far.

        :param step: the step of the training
        :param found: the mean and the standard deviation of the returns, by the names of the environments
        """
        mean, std = found[""]
        self.points.append((step, mean, std))
        for name, own in self.also.items():
            own.append(found[name])
        if self.best is not None and mean <= self.best[1]:
            return False
        self.best = step, mean
        return True

    def to_json(self) -> dict[str, Any]:
        """Returns everything as JSON values."""
        return {"curve": self.points, "also": self.also, "best": self.best}

    def recall(self, kept: dict[str, Any]) -> None:
        """Goes on from what `to_json` returned; in files of versions before 0.3 there is one environment alone."""
        self.points = [(int(step), float(mean), float(std)) for step, mean, std in kept["curve"]]
        self.best = None if kept["best"] is None else (int(kept["best"][0]), float(kept["best"][1]))
        for name, own in self.also.items():
            own[:] = [(float(mean), float(std)) for mean, std in kept["also"][name]]
            if len(own) != len(self.points):
                raise ValueError(f"it has {len(self.points)} evaluations, and {len(own)} of {name}")

    def write(self, path: Path) -> None:
        """Writes a table with a row for each evaluation, as comma-separated values."""
        columns = [
            f"{name}_{moment}".lstrip("_") for name in ("", *self.also) for moment in ("mean_return", "std_return")
        ]
        further = zip(*self.also.values(), strict=True) if self.also else [()] * len(self.points)
        rows = [
            [*point, *(number for pair in pairs for number in pair)]
            for point, pairs in zip(self.points, further, strict=True)
        ]
        lines = [["steps", *columns], *rows]
        write_atomically(path, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())

    def in_words(self) -> str:
        """Says the last return in each environment, and the best one."""
        assert self.best is not None
        others = [f", {name} {own[-1][0]:,.1f}" for name, own in self.also.items()]
        return f"return {self.points[-1][1]:,.1f}{''.join(others)}, best {self.best[1]:,.1f}"
