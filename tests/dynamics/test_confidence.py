"""How well ensembles know their own errors: intervals of a known width, and what is said where they are unknown."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.collecting import short
from helpers.dynamics_models import make_model
from helpers.oscillators import MATRIX, oscillators
from ncp_control.checkpoint import CheckpointError
from ncp_control.data import Rollout, Rollouts, collect
from ncp_control.dynamics import Calibration, DynamicsModel, Ensemble, calibrate, load_model, save_model
from ncp_control.dynamics.confidence import Confidence, calibration_of, confidences, rank_correlation
from ncp_control.dynamics.questions import ask
from ncp_control.dynamics.simulator import Simulator
from scripts.cards import model_card

NOISE, HORIZON, WARM_UP = 0.2, 20, 8


def noisy(seed: int, count: int = 200, steps: int = 60) -> Rollouts:
    """Points that turn as the oscillators do, forget where they were, and are pushed at random."""
    random, found = np.random.default_rng(seed), []
    for k in range(count):
        seen = [random.normal(size=2)]
        for _ in range(steps):
            seen.append(0.9 * MATRIX @ seen[-1] + NOISE * random.normal(size=2))
        found.append(Rollout(np.stack(seen) + 3, name=f"walk {k}"))
    return Rollouts(tuple(found), observation_names=("x", "y"))


class Turned(DynamicsModel):
    """Predicts what follows if nothing pushes, but for a rotation that is a little off."""

    off = 0.0
    run_free = Simulator.run_free  # step by step, by `forward`

    def forward(self, observations, actions=None, state=None, ahead=None):  # type: ignore[no-untyped-def]
        c, s = np.cos(self.off), np.sin(self.off)
        turn = torch.tensor(0.9 * MATRIX @ np.array([[c, s], [-s, c]]), dtype=observations.dtype)
        return (observations - 3) @ turn.T + 3, torch.zeros(len(observations), self.state_size)


def turned(offs: tuple[float, ...] = (-0.05, 0.02, 0.03)) -> Ensemble:
    """Returns an ensemble of rotations."""
    members = []
    for off in offs:
        member = Turned.of(noisy(0), "gru", 2)
        member.off = off  # type: ignore[attr-defined]
        members.append(member)
    return Ensemble(members)


@pytest.fixture(scope="module")
def calibrated() -> Ensemble:
    ensemble = turned()
    ensemble.calibrations = calibrate(ensemble, noisy(1))
    return ensemble


def test_nine_of_ten_observations_are_within_their_intervals(calibrated: Ensemble) -> None:
    """With 200 walks for either, the share at a horizon varies by 0.025 from seed to seed, measured over ten."""
    assert set(calibrated.calibrations) == {"recorded"}  # nobody can tell what would have followed other actions
    answers = ask(calibrated, noisy(2), HORIZON, WARM_UP)
    found = confidences(calibrated, answers)["recorded"]
    assert found.within is not None
    assert found.error.shape == (200, HORIZON)
    np.testing.assert_allclose(found.within.mean(0), 0.9, atol=0.1)
    narrow = Calibration(*(getattr(calibrated.calibrations["recorded"], name) for name in ("horizons", "floor")),
                         calibrated.calibrations["recorded"].factor / 2)  # fmt: skip
    less = confidences(Ensemble(calibrated.models, {"recorded": narrow}), answers)["recorded"]
    assert less.within is not None
    assert less.within.mean() < 0.7


def test_an_interval_is_as_wide_as_the_noise_makes_errors(calibrated: Ensemble) -> None:
    """The pushes of h steps add up to a variance of NOISE^2 (1 - 0.81^h) / (1 - 0.81); 1.645 of it holds 90 %."""
    history = torch.as_tensor(noisy(3).rollouts[0].observations[:WARM_UP], dtype=torch.float32)
    mean, low, high = calibrated.predict_interval(history, HORIZON)
    torch.testing.assert_close(mean, calibrated.predict(history, HORIZON))
    torch.testing.assert_close(high - mean, mean - low, rtol=1e-4, atol=1e-4)
    steps = np.arange(1, HORIZON + 1)
    wanted = 1.645 * NOISE * np.sqrt((1 - 0.81**steps) / (1 - 0.81))
    half = ((high - low) / 2).numpy()
    np.testing.assert_allclose(half, np.stack([wanted, wanted], 1), rtol=0.25)
    many, lows, _ = calibrated.predict_interval(history[None].repeat(4, 1, 1), HORIZON)
    assert many.shape == lows.shape == (4, HORIZON, 2)


def test_an_ensemble_is_believed_until_the_expected_error_is_a_tenth_of_the_variance(calibrated: Ensemble) -> None:
    """The pushes of one step are 0.19 of the variance, which is too much; a fifth of such pushes is not."""
    history = torch.as_tensor(noisy(3).rollouts[0].observations[:WARM_UP], dtype=torch.float32)
    assert calibrated.believed_steps(history, HORIZON) == 0
    flat = np.ones((1, 2))
    for floor, wanted in ((0.2, HORIZON), (0.4, 0)):  # 0.04 and 0.16 of the variance, if all members agree
        agreed = Ensemble([calibrated.models[0]] * 2, {"recorded": Calibration(np.ones(1), floor * flat, 1.645 * flat)})
        assert agreed.believed_steps(history, HORIZON) == wanted
    rising = Calibration(np.array([1.0, 4.0]), np.array([[0.1, 0.1], [1.0, 1.0]]), 1.645 * np.ones((2, 2)))
    some = Ensemble([calibrated.models[0]] * 2, {"recorded": rising}).believed_steps(history[None].repeat(3, 1, 1), 8)
    assert some.tolist() == [1, 1, 1]  # 0.1, then 0.55 two steps ahead, half-way to four on a logarithmic scale


def test_what_two_members_say_apart_counts_more() -> None:
    one = Calibration(np.ones(1), np.array([[0.3, 0.3]]), np.array([[2.0, 1.0]]))
    half = one.half_width(np.array([[0.4, 0.0], [0.0, 0.4]]))
    np.testing.assert_allclose(half, [[1.0, 0.3], [0.6, 0.5]])
    np.testing.assert_allclose(one.expected_error(half * 0)[0], np.mean([0.6**2, 0.3**2]) / 1.645**2)


def test_a_prediction_that_overflowed_does_not_spoil_a_calibration() -> None:
    random = np.random.default_rng(0)
    spread, error = np.full((40, 6, 2), 0.1), np.abs(random.normal(size=(40, 6, 2)))
    error[3], spread[3] = np.inf, np.nan
    found = calibration_of(spread, error)
    assert 1.2 < found.half_width(np.full((6, 2), 0.1)).mean() < 2.2


def test_too_few_rollouts_for_a_calibration_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    calibrate(turned(), noisy(1, count=3), progress=True)
    assert "calibrated from 3 starts in the validation rollouts" in capsys.readouterr().err
    calibrate(turned(), noisy(1, count=30), progress=True)
    assert not capsys.readouterr().err


def test_other_actions_have_intervals_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    rollouts = collect("random", short("Swimmer-v5", 30), 3, progress=False)
    models = [DynamicsModel.of(rollouts, "gru", 3, reads="observations+actions", residual=True) for _ in range(2)]
    for model, constant in zip(models, (-0.05, 0.15), strict=True):
        torch.nn.init.zeros_(model.readout.weight)
        torch.nn.init.constant_(model.readout.bias, constant)  # a change that nobody's action has made
    ensemble = Ensemble(models)
    ensemble.calibrations = calibrate(ensemble, rollouts)
    assert set(ensemble.calibrations) == {"recorded", "off-policy"}
    save_model(ensemble, tmp_path / "ensemble.safetensors")
    read = load_model(tmp_path / "ensemble.safetensors")
    history, actions = torch.zeros(2, 4, 8), torch.zeros(2, 8, 2)
    known = read.predict_interval(history, 5, actions)
    other = read.predict_interval(history, 5, actions, off_policy=True)
    torch.testing.assert_close(known, ensemble.predict_interval(history, 5, actions), rtol=0, atol=0)
    torch.testing.assert_close(other, ensemble.predict_interval(history, 5, actions, off_policy=True), rtol=0, atol=0)
    assert not torch.equal(known.high, other.high)
    ensemble.calibrations["foreign"] = ensemble.calibrations.pop("off-policy")  # as version 0.2.0 named it
    save_model(ensemble, tmp_path / "earlier.safetensors")
    assert set(load_model(tmp_path / "earlier.safetensors").calibrations) == {"recorded", "off-policy"}


def test_what_is_not_known_is_said(calibrated: Ensemble, tmp_path: Path) -> None:
    history = torch.zeros(1, 4, 2)
    single, bare = make_model(), Ensemble([make_model(), make_model("ltc", 4)])
    save_model(bare, tmp_path / "bare.safetensors")
    earlier = load_model(Path(__file__).parents[1] / "golden" / "0.2.0" / "ensemble.safetensors")
    for name in ("predict_interval", "believed_steps"):
        with pytest.raises(ValueError, match="that takes an ensemble"):
            getattr(single, name)(history, 3)
        with pytest.raises(ValueError, match="nobody to disagree with"):
            getattr(Ensemble([single]), name)(history, 3)
        for ensemble in (bare, load_model(tmp_path / "bare.safetensors"), earlier):
            with pytest.raises(ValueError, match=r"has no calibration, as files of earlier versions"):
                getattr(ensemble, name)(history, 3)
        with pytest.raises(ValueError, match="no calibration for off-policy actions"):
            getattr(calibrated, name)(history, 3, off_policy=True)
    answers = ask(single, oscillators(), 5, 5)
    assert confidences(single, answers) == {}
    found = confidences(bare, answers)["recorded"].as_values([1, 5])
    assert found["within"] is None
    assert found["believed"] is None
    assert found["horizons"][1]["error"] > 0


def test_a_calibration_that_cannot_be_is_refused(calibrated: Ensemble, tmp_path: Path) -> None:
    ones = np.ones((2, 2))
    for values, words in (
        ((np.array([1.0]), ones, ones), "for every horizon and feature"),
        ((np.array([1.0, 2.0]), ones, ones[:, :1]), "for every horizon and feature"),
        ((np.array([2.0, 1.0]), ones, ones), "ascend from 1"),
        ((np.array([1.0, 2.0]), ones, -ones), "finite and not negative"),
        ((np.array([1.0, 2.0]), np.nan * ones, ones), "finite and not negative"),
    ):
        with pytest.raises(ValueError, match=words):
            Calibration(*values)
    three = Calibration(np.ones(1), np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="calibration is of 3 observations, and the members predict 2"):
        Ensemble(calibrated.models, {"recorded": three})
    ensemble = Ensemble([make_model(), make_model()], calibrated.calibrations)
    object.__setattr__(ensemble.calibrations["recorded"], "factor", ensemble.calibrations["recorded"].factor * -1)
    save_model(ensemble, tmp_path / "odd.safetensors")
    object.__setattr__(ensemble.calibrations["recorded"], "factor", ensemble.calibrations["recorded"].factor * -1)
    with pytest.raises(CheckpointError, match="finite and not negative"):
        load_model(tmp_path / "odd.safetensors")


def test_ranks_are_compared() -> None:
    one = np.array([1.0, 2.0, 2.0, 4.0])
    assert rank_correlation(one, one**3) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 and 2, 1, 3, 4 about 2.5: (0.75 + 0 + 0 + 2.25) / sqrt(4.5 * 5)
    assert rank_correlation(one, np.array([2.0, 1.0, 3.0, 4.0])) == pytest.approx(3 / np.sqrt(22.5))
    assert rank_correlation(one, np.ones(4)) == 0
    found = Confidence(np.array([[1.0, 9.0], [2.0, 8.0]]), np.array([[0.1, 0.5], [0.2, 0.6]]), None, None)
    assert found.correlation([1]) == pytest.approx(1)
    assert found.correlation([2]) == pytest.approx(-1)
    assert found.as_values([1])["believable"] == 1  # 0.15^2, then 0.55^2


def test_a_card_says_how_well_an_ensemble_knows_its_errors(calibrated: Ensemble, tmp_path: Path) -> None:
    members = Ensemble([make_model(), make_model()], calibrated.calibrations)
    answers = ask(members, noisy(2), HORIZON, WARM_UP)
    known = {key: one.as_values([1, 5]) for key, one in confidences(members, answers).items()}
    note = {
        "collected": "collect a", "tested": "collect b", "command": "fit", "seed": 0, "steps": 9, "seconds": 60.0,
        "versions": {"torch": "2"}, "horizons": [1, 5], "confidence": known,
        "rows": [{"name": "this model", "one_step": 0.5, "answers": answers.rows([1, 5])}],
    }  # fmt: skip
    save_model(members, tmp_path / "two.safetensors", note)
    text = model_card(tmp_path / "two.safetensors", "Two models.")
    one = known["recorded"]
    line = f"{one['within']:.0%} | {one['believed']} steps | {one['believable']} steps |"
    assert f"| recorded | {one['correlation']:.2f} | {line}" in text
    save_model(make_model(), tmp_path / "one.safetensors", {**note, "confidence": {}})
    assert "knows its own errors" not in model_card(tmp_path / "one.safetensors", "One model.")
