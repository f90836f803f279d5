"""Several models of the same dynamics: their mean prediction, how much they disagree, and how far to believe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.simulator import Array, PredictionInterval, Simulator

SHARE = 0.9  # of the observations, which an interval shall hold
DEVIATIONS = 1.645  # half of an interval that holds so many values of a normal distribution, in standard deviations
BELIEVED = 0.1  # of the variance: a prediction with a larger error is not believed


@dataclass(frozen=True)
class Calibration:
    """How wide an ensemble's intervals have to be, as rollouts showed to which it was not fitted.

    Let d be the standard deviation over the members of feature f, h steps ahead. Half the width of its interval is ::

        k sqrt(d^2 + a^2)

    where a and k of f and h are interpolated between some horizons, on a logarithmic scale, and stay as they are after
    the last one. Widths, d and a are over the observations' standard deviation.

    :param horizons: the horizons at which a and k are known, in ascending order, (Q,)
    :param floor: a, as large as a usual error, because members that agree may err together, (Q, n)
    :param factor: k, (Q, n)
    """

    horizons: Array
    floor: Array
    factor: Array

    def __post_init__(self) -> None:
        if self.horizons.ndim != 1 or self.floor.ndim != 2 or self.floor.shape != self.factor.shape:
            raise ValueError("a calibration has a floor and a factor for every horizon and feature")
        if len(self.horizons) != len(self.floor) or not self.floor.size:
            raise ValueError("a calibration has a floor and a factor for every horizon and feature")
        if not all(np.isfinite(values).all() and (values >= 0).all() for values in (self.floor, self.factor)):
            raise ValueError("a calibration's floors and factors are finite and not negative")
        if not self.horizons[0] >= 1 or not (np.diff(self.horizons) > 0).all():
            raise ValueError("a calibration's horizons ascend from 1 or more")

    def half_width(self, disagreement: Array) -> Array:
        """Returns half the widths of intervals 1 .. H steps ahead, (..., H, n).

        :param disagreement: d, (..., H, n)
        """
        # Errors grow with the horizon about as a power of it.
        steps, known = np.log(np.arange(1, disagreement.shape[-2] + 1)), np.log(self.horizons)
        floor, factor = (
            np.stack([np.interp(steps, known, column) for column in values.T], axis=-1)
            for values in (self.floor, self.factor)
        )
        return np.asarray(factor * np.sqrt(disagreement**2 + floor**2), np.float64)

    def expected_error(self, disagreement: Array) -> Array:
        """Returns the expected squared errors over the variances, averaged over the features, (..., H).

        They are those of normal distributions of which the intervals hold nine tenths.
        """
        return np.asarray(np.mean((self.half_width(disagreement) / DEVIATIONS) ** 2, axis=-1), np.float64)


class Ensemble(Simulator):
    """Models fitted from different seeds. It predicts their mean, and tells how far it may be believed.

    Each member continues from its own prediction, so that their spread grows with the horizon as the uncertainty does.
    `predict_each` shows where they disagree. `predict_interval` and `believed_steps` tell from that what errors to
    expect. They need calibrations, which `fit_ensemble` makes at its end; `calibrate` makes them for other ensembles::

        ensemble = load_model("best.safetensors")
        mean, low, high = ensemble.predict_interval(history, 50, actions)  # nine of ten observations lie within

    :param members: models that read and predict the same; their cells and sizes may differ
    :param calibrations: how wide the intervals are for "recorded" and for "off-policy" actions, if known
    """

    def __init__(self, members: Sequence[DynamicsModel], calibrations: Mapping[str, Calibration] | None = None) -> None:
        super().__init__()
        if not members:
            raise ValueError("an ensemble needs at least one model")
        first = members[0]
        for member in members:
            if (member.features, member.action_size, member.timed) != (first.features, first.action_size, first.timed):
                raise ValueError(
                    f"the members of an ensemble predict the same from the same, but one has {member.features} "
                    f"observations and {member.action_size} actions, another {first.features} and {first.action_size}"
                )
        self.members = nn.ModuleList(members)
        self.features, self.action_size, self.timed = first.features, first.action_size, first.timed
        self.observation_names, self.action_names = first.observation_names, first.action_names
        self.sizes = [member.state_size for member in members]
        self.calibrations = dict(calibrations or {})
        for calibration in self.calibrations.values():
            if calibration.floor.shape[1] != self.features:
                raise ValueError(
                    f"a calibration is of {calibration.floor.shape[1]} observations, and the members predict "
                    f"{self.features}"
                )

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The mean of the observations, (n,)."""
        return self.models[0].mean

    @property
    def std(self) -> Tensor:  # type: ignore[override]
        """The standard deviation of the observations, (n,)."""
        return self.models[0].std

    @property
    def starts(self) -> Tensor:  # type: ignore[override]
        """First observations of episodes, (S, n)."""
        return self.models[0].starts

    @property
    def action_range(self) -> Array:  # type: ignore[override]
        """The smallest and the largest value of each action, (2, m)."""
        return self.models[0].action_range

    @property
    def models(self) -> list[DynamicsModel]:
        """The members."""
        return cast("list[DynamicsModel]", list(self.members))

    def forward(
        self, observations: Tensor, actions: Tensor | None = None, state: Tensor | None = None,
        ahead: Tensor | float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Returns the members' mean prediction, and their states side by side."""
        if state is not None and state.shape[-1] != sum(self.sizes):
            raise ValueError(
                f"state must have {sum(self.sizes)} entries, the members' states side by side, got {state.shape[-1]}"
            )
        states = [None] * len(self.sizes) if state is None else list(state.split(self.sizes, dim=-1))
        found = [model(observations, actions, own, ahead) for model, own in zip(self.models, states, strict=True)]
        # Each member goes on from its own memory; only what they say is averaged.
        return torch.stack([one for one, _ in found]).mean(0), torch.cat([own for _, own in found], dim=-1)

    def continued(self, history: Tensor, horizon: int, actions: Tensor | None, ahead: Tensor | float | None) -> Tensor:
        """Returns the mean of the members' predictions, each continued from its own."""
        return torch.stack([model.continued(history, horizon, actions, ahead) for model in self.models]).mean(0)

    @torch.no_grad()
    def predict_each(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None
    ) -> Tensor:
        """Returns what `predict` returns for each of K members: (K, B, H, n), or (K, H, n) for a single history."""
        return torch.stack([model.predict(history, horizon, actions, ahead) for model in self.models])

    @torch.no_grad()
    def predict_interval(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None,
        off_policy: bool = False,
    ) -> PredictionInterval:  # fmt: skip
        """Returns what `predict` returns, and between which values nine of ten observations are expected.

        The intervals were calibrated on the validation rollouts, and hold for rollouts like these.

        :param off_policy: whether the actions are not those of the recorded controller, but a plan's, for example; the
            members may then agree and be wrong
        """
        calibration = self.calibration_for(off_policy)
        each = self.predict_each(history, horizon, actions, ahead)
        mean = each.mean(0)
        half = calibration.half_width(self.disagreement(each))
        width = torch.as_tensor(half, dtype=mean.dtype, device=mean.device) * self.std
        return PredictionInterval(mean, mean - width, mean + width)

    @torch.no_grad()
    def believed_steps(
        self, history: Tensor, horizon: int, actions: Tensor | None = None, ahead: Tensor | float | None = None,
        off_policy: bool = False,
    ) -> Tensor:  # fmt: skip
        """Returns how many steps ahead, of `horizon`, may be believed: (B,), or one number for a single history.

        A prediction is believed until the error that its interval lets expect reaches a tenth of the variance, in the
        mean over the features. After that step no further one is believed.

        :param off_policy: as for `predict_interval`
        """
        calibration = self.calibration_for(off_policy)
        expected = calibration.expected_error(self.disagreement(self.predict_each(history, horizon, actions, ahead)))
        return torch.as_tensor(steps_believed(expected), device=self.mean.device)

    def disagreement(self, each: Tensor) -> Array:
        """Returns the standard deviation over the members, divided by that of the observations.

        :param each: what `predict_each` returned, (K, ..., n)
        """
        # Of the members themselves: they are all there are, no sample.
        return np.asarray((each.std(0, correction=0) / self.std).double().cpu().numpy())

    def calibration_for(self, off_policy: bool) -> Calibration:
        """Returns the calibration for recorded or for off-policy actions, and says what to do if it is not known."""
        if len(self.sizes) < 2:
            raise ValueError("an ensemble of one model has nobody to disagree with: intervals need two members or more")
        if not self.calibrations:
            raise ValueError(
                "this ensemble has no calibration, as files of earlier versions have none: set its calibrations to "
                "what ncp_control.dynamics.calibrate(ensemble, validation_rollouts) returns"
            )
        question = "off-policy" if off_policy else "recorded"
        if question not in self.calibrations:
            raise ValueError(
                f"this ensemble has no calibration for {question} actions: its validation rollouts did not tell what "
                "follows them"
            )
        return self.calibrations[question]


def steps_believed(errors: Array) -> Array:
    """Returns the number of steps before the first whose error (..., H) is not below a tenth of the variance, (...)."""
    # `~(<)` and not `>=`, so that NaN is not believed.
    return np.asarray((np.cumsum(~(errors < BELIEVED), axis=-1) == 0).sum(-1))
