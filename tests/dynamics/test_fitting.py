"""Fits: repeated, resumed, interrupted, killed and refused."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.gates import Gate
from helpers.oscillators import oscillators
from ncp_control.base.tensors import read_tensors, write_tensors
from ncp_control.cli import main
from ncp_control.data import Rollout, Rollouts, Split
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import DynamicsModel, FitSettings, fit, load_model, one_step_error
from ncp_control.dynamics.errors import window_errors
from ncp_control.dynamics.fit_loop import DESCRIBED, FORMAT, VERSION, DivergedError
from ncp_control.dynamics.fitting import FitLoop, make_seeded
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, STATE, Run

PARTS = oscillators(actions=True).split()
SETTINGS = FitSettings(epochs=4, length=16, stride=8, batch=8, average=0.9, schedule="cosine", horizon=3, robust=1.0)


def make(seed: int = 0, cell: str = "ltc") -> DynamicsModel:
    return make_seeded(lambda: DynamicsModel.of(PARTS.train, cell, 6, reads="observations+actions"), seed)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().reshape(-1) for value in model.parameters()])


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    models = [make() for _ in range(3)]
    random = torch.random.get_rng_state()
    for model, seed in zip(models, (0, 0, 1), strict=True):
        fit(model, PARTS, SETTINGS, seed=seed, progress=False)
    one, two, three = map(weights, models)
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    assert torch.equal(random, torch.random.get_rng_state())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("stop", "cell", "optimizer"), [(1, "ltc", "adam"), (3, "ltc", "adam"), (2, "cfc", "muon")])
def test_stopped_and_resumed_is_as_if_never_stopped(
    stop: int, cell: str, optimizer: str, device: str, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, optimizer=optimizer)
    whole, parted = make(cell=cell), make(cell=cell)
    found = fit(whole, PARTS, settings, out=tmp_path / "whole", progress=False, device=device)

    def interrupt(epoch: int) -> None:
        if epoch == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(parted, PARTS, settings, out=tmp_path / "parted", progress=False, on_epoch=interrupt, device=device)
    assert len((tmp_path / "parted" / CURVE).read_text().splitlines()) == 1 + stop
    again = make(cell=cell)
    resumed = fit(again, PARTS, settings, out=tmp_path / "parted", resume=True, progress=False, device=device)
    assert resumed.curve == found.curve
    assert resumed.best == found.best
    assert torch.equal(weights(again), weights(whole))
    torch.testing.assert_close(weights(load_model(tmp_path / "parted" / BEST)), weights(whole), rtol=0, atol=0)


def test_an_interrupted_model_has_its_best_weights(capsys: pytest.CaptureFixture[str]) -> None:
    model = make()

    def interrupt(epoch: int) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(model, PARTS, SETTINGS, on_epoch=interrupt)
    assert "interrupted: the model has its best weights" in capsys.readouterr().err
    assert not model.training


@pytest.mark.system
@pytest.mark.timeout(600)
def test_a_killed_fit_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9, by the command line."""
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    (tmp_path / "data").mkdir()
    for k, rollout in enumerate(oscillators(actions=True)):
        write_trace(rollout, tmp_path / "data" / f"trace{k}.npz")
    words = ["fit", str(tmp_path / "data"), "--actions", "--units", "6", "--length", "16", "--epochs", "5", "--json"]

    def fitted(*more: str) -> dict[str, float]:
        assert main([*words, *more]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])  # type: ignore[no-any-return]

    whole, killed = str(tmp_path / "whole"), str(tmp_path / "killed")
    gate = Gate(tmp_path / "gate", STATE, passes=2)
    process = gate.start([*words, "--out", killed])
    assert gate.wait_for() == [process.pid]
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    one, two = fitted("--out", whole), fitted("--out", killed, "--resume")
    for key in ("test_mse", "valid_mse", "epochs", "best_epoch", "parameters"):
        assert one[key] == two[key]
    first, second = (load_model(tmp_path / name / BEST) for name in ("whole", "killed"))
    assert torch.equal(weights(first), weights(second))


def test_a_loss_that_leaves_all_bounds_ends_the_fit_and_keeps_the_best(tmp_path: Path) -> None:
    model = make(cell="gru")
    epochs = []

    def spoil(epoch: int) -> None:
        epochs.append(epoch)
        if epoch == 2:
            with torch.no_grad():
                model.readout.weight.fill_(float("nan"))

    settings = FitSettings(epochs=4, length=16, stride=8)
    with pytest.raises(DivergedError, match=r"loss of epoch 3 is not a finite number: lower the learning rate .* kept"):
        fit(model, PARTS, settings, out=tmp_path / "run", progress=False, on_epoch=spoil)
    assert epochs == [1, 2]
    assert weights(model).isfinite().all()
    assert weights(load_model(tmp_path / "run" / BEST)).isfinite().all()


def test_patience_ends_a_fit_that_gets_no_better() -> None:
    settings = FitSettings(epochs=50, length=16, stride=8, learning_rate=1e-12, patience=3)
    found = fit(make(), PARTS, settings, progress=False)
    assert found.best is not None
    assert len(found.curve) < 50
    assert len(found.curve) == found.best[0] + 3


def test_a_folder_with_another_fit_is_left_alone(tmp_path: Path) -> None:
    settings = FitSettings(epochs=1, length=16, stride=8)
    fit(make(), PARTS, settings, out=tmp_path / "run", progress=False)
    with pytest.raises(FileExistsError, match="holds a run already: resume it"):
        fit(make(), PARTS, settings, out=tmp_path / "run", progress=False)
    with pytest.raises(ValueError, match="another settings"):
        fit(make(), PARTS, FitSettings(epochs=2, length=16), out=tmp_path / "run", resume=True, progress=False)
    with pytest.raises(ValueError, match="another model"):
        fit(make(seed=1), PARTS, settings, out=tmp_path / "run", resume=True, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="holds no run"):
        fit(make(), PARTS, settings, out=tmp_path / "other", progress=False)


def test_a_fit_goes_on_where_first_weights_are_rounded_otherwise(tmp_path: Path) -> None:
    """From one seed, another kind of processor draws weights whose last digits differ."""
    settings = FitSettings(epochs=1, length=16, stride=8)
    fit(make(), PARTS, settings, out=tmp_path / "run", progress=False)
    rounded = make()
    with torch.no_grad():
        for value in rounded.parameters():
            value.mul_(1 + 3e-7)
    assert not torch.equal(weights(rounded), weights(make()))
    fit(rounded, PARTS, settings, out=tmp_path / "run", resume=True, progress=False)
    assert torch.equal(weights(rounded), weights(load_model(tmp_path / "run" / BEST)))


def test_rollouts_that_do_not_fit_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(ValueError, match="no rollout has 200 steps"):
        fit(make(), PARTS, FitSettings(length=200), out=out, progress=False)
    assert not out.exists()
    with pytest.raises(ValueError, match="the model reads actions, and the train rollouts have none"):
        fit(make(), oscillators(), out=out, progress=False)
    wide = Rollouts(tuple(Rollout(torch.randn(40, 3).numpy()) for _ in range(5)))
    model = DynamicsModel.of(oscillators(), "gru", 4)
    with pytest.raises(ValueError, match="have 3 observations a step, and the model predicts 2"):
        fit(model, wide, out=out, progress=False)
    with pytest.raises(ValueError, match=r"no GPU|cuda"):
        fit(make(), PARTS, device="cuda" if not torch.cuda.is_available() else "cuda:99", out=out, progress=False)
    assert not out.exists()


@pytest.mark.parametrize("cell", ["ltc", "mlp"])
def test_a_fit_learns_the_oscillators(cell: str) -> None:
    rollouts = oscillators(count=8, steps=120, actions=True)
    parts = rollouts.split()
    torch.manual_seed(0)
    model = DynamicsModel.of(parts.train, cell, 16, reads="observations+actions", residual=True)
    before = one_step_error(model, parts.test, 20)
    settings = FitSettings(epochs=25, length=20, stride=5, learning_rate=0.02, schedule="cosine", loss="normalised")
    found = fit(model, parts, settings, progress=False)
    assert found.best is not None
    assert len(found.curve) == 25
    assert one_step_error(model, parts.test, 20) < 0.05 * before


def test_a_fit_says_how_many_rollouts_are_too_short_for_its_windows(capsys: pytest.CaptureFixture[str]) -> None:
    long, short = oscillators(5, 20), oscillators(5, 6)
    parts = Split(Rollouts((*long[:2], *short[:3])), long[2:3], long[3:])
    for length, told in ((8, True), (6, False)):
        fit(DynamicsModel.of(parts.train, "gru", 3), parts, FitSettings(epochs=1, length=length))
        words = "3 of 5 training rollouts are shorter than a window of 8 steps and are not used"
        assert (words in capsys.readouterr().err) == told


@pytest.mark.parametrize("forced", [0.0, 0.25, 1.0])
def test_the_validation_weighs_both_errors_as_the_loss_does(forced: float) -> None:
    loops = [FitLoop(make(), PARTS, torch.device("cpu"), replace(SETTINGS, learning_rate=0.01, forced=share),
                     Run(None), {}) for share in (forced, 1.0, 0.0)]  # fmt: skip
    for loop in loops:
        loop.begin()
    weighed, of_the_next, of_continuations = (loop.valid_errors() for loop in loops)
    torch.testing.assert_close(weighed, forced * of_the_next + (1 - forced) * of_continuations)
    torch.testing.assert_close(of_the_next, window_errors(loops[1].model, loops[1].valid))
    assert not torch.allclose(of_the_next, of_continuations)


def test_the_seconds_of_a_resumed_fit_go_on_from_those_before(tmp_path: Path) -> None:
    fit(make(), PARTS, SETTINGS, out=tmp_path, progress=False)
    metadata, tensors = read_tensors(tmp_path / STATE, FORMAT, VERSION, DESCRIBED, "fit")
    state = json.dumps({**json.loads(metadata["state"]), "seconds": 1e6})
    write_tensors(tmp_path / STATE, FORMAT, VERSION, {"state": state}, tensors)
    assert fit(make(), PARTS, SETTINGS, out=tmp_path, resume=True, progress=False).seconds > 1e6


@pytest.mark.parametrize(("there", "here"), [("cuda", "cpu"), ("mps", "cpu")])
def test_a_fit_is_resumed_on_the_kind_of_device_where_it_began(there: str, here: str, tmp_path: Path) -> None:
    given = {"settings": FitSettings(epochs=1, length=16, stride=8), "out": tmp_path, "progress": False}
    fit(make(), PARTS, device=here, **given)
    record = tmp_path / "run.json"
    about = json.loads(record.read_text())
    assert "device" not in about
    record.write_text(json.dumps({**about, "device": there}))
    with pytest.raises(ValueError, match=f"whose device is {there}, and now it is {here}: use --device {there}, or"):
        fit(make(), PARTS, device=here, resume=True, **given)
    assert json.loads(record.read_text())["device"] == there


@pytest.mark.gpu
def test_a_fit_on_a_gpu_leaves_the_model_where_it_was_and_is_resumed_there_alone(tmp_path: Path) -> None:
    model, given = make(), {"settings": FitSettings(epochs=1, length=16, stride=8), "out": tmp_path, "progress": False}
    fit(model, PARTS, device="cuda", **given)
    assert model.mean.device.type == "cpu"
    with pytest.raises(ValueError, match="device"):
        fit(make(), PARTS, device="cpu", resume=True, **given)
