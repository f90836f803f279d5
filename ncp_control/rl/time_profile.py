"""Where the time of a training goes: in the environments, in acting, in updates or in evaluations."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from ncp_control.base.pages import BLUE, GREY, ORANGE, SKY, YELLOW, new_figure

REST = "rest"
PARTS = {"environments": BLUE, "acting": SKY, "updates": ORANGE, "evaluations": YELLOW, REST: GREY}


class TimeProfile(BaseCallback):
    """Measures how long each part of a training takes, with any algorithm of Stable-Baselines3.

    Example::

        profile = TimeProfile()
        model.learn(100_000, callback=profile)
        print(profile)  # environments 58 %, acting 12 %, updates 29 %, evaluations 0 %, rest 1 %

    The part of the environments is everything in their `step`: physics, wrappers, normalisation. Acting is the rest of
    collecting: the policy and the buffer. Evaluations are all callbacks together, with the checkpoints that they write.

    :ivar seconds: the seconds of each part of `PARTS`
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._inside: list[str] = []
        self._since = 0.0
        self._watched: list[tuple[Any, str]] = []

    def _on_training_start(self) -> None:
        self._release()  # from a training that was broken off
        callbacks = self.locals["callback"]  # all that the training has, as `learn` calls them
        names = ("on_step", "on_rollout_start", "on_rollout_end", "on_training_end")
        watched = [(callbacks, name, "evaluations") for name in names]
        watched += [(self.training_env, "step", "environments"), (self.model, "collect_rollouts", "acting")]
        self._inside, self._since = [REST], perf_counter()
        for owner, name, part in [*watched, (self.model, "train", "updates")]:
            setattr(owner, name, self._timed(getattr(owner, name), part))
            self._watched.append((owner, name))

    def _on_training_end(self) -> None:
        self._turn()
        self._release()

    def _on_step(self) -> bool:
        return True

    def _release(self) -> None:
        """Puts the methods of the classes in the place of the timed ones."""
        for owner, name in self._watched:
            delattr(owner, name)
        self._inside, self._watched = [], []

    def _timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Returns a function whose time counts as that of a part, less the parts that it calls."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._turn()
            self._inside.append(part)
            try:
                return function(*args, **kwargs)
            finally:
                if self._inside:  # the training has not ended inside
                    self._turn()
                    self._inside.pop()

        return timed

    def _turn(self) -> None:
        """Adds the time since the last turn to the part that runs."""
        now = perf_counter()
        self.seconds[self._inside[-1]] += now - self._since
        self._since = now

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part in the whole, from 0 to 1."""
        total = sum(self.seconds.values()) or 1.0
        return {part: seconds / total for part, seconds in self.seconds.items()}

    def __str__(self) -> str:
        return ", ".join(f"{part} {100 * share:.0f} %" for part, share in self.shares.items())

    def draw(self) -> Any:
        """Returns a matplotlib Figure: the parts beside each other, with their seconds and shares."""
        figure = new_figure(7, 1.9)
        axes: Any = figure.subplots()
        left = 0.0
        for part, share in self.shares.items():
            seconds = self.seconds[part]
            axes.barh(0, seconds, left=left, color=PARTS[part], label=f"{part} {seconds:.1f} s, {100 * share:.0f} %")
            left += seconds
        axes.set(xlim=(0, left or 1.0), xlabel="seconds", yticks=[])
        axes.spines[["top", "right", "left"]].set_visible(False)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        return figure
