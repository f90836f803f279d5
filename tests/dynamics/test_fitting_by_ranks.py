"""Fits that several processes share: the same weights as one process, resumed, killed, interrupted and refused."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.gates import Gate, heed
from helpers.oscillators import oscillators
from helpers.ranks import end_of_ranks, in_ranks, start_ranks
from ncp_control.base import ranks as ranks_module
from ncp_control.base.ranks import joined
from ncp_control.data import Rollouts
from ncp_control.data.sources import write_trace
from ncp_control.dynamics import DynamicsModel, FitSettings, fit, load_model, one_step_error
from ncp_control.dynamics.fitting import fit_ensemble, make_seeded
from ncp_control.runs.curve import CURVE
from ncp_control.runs.run import BEST, STATE

PARTS = oscillators(actions=True).split()
SETTINGS = FitSettings(epochs=1, length=16, stride=4, batch=9)
PLAIN = replace(SETTINGS, average=0.0)
RICH = replace(SETTINGS, horizon=3, robust=1.0, average=0.9, loss="normalised", schedule="cosine")


def make(units: int = 32, seed: int = 0) -> DynamicsModel:
    return make_seeded(lambda: DynamicsModel.of(PARTS.train, "ltc", units, reads="observations+actions"), seed)


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.detach().reshape(-1) for value in model.parameters()])


def weights_of_fit(settings: FitSettings, **arguments: Any) -> torch.Tensor:
    model = make()
    fit(model, PARTS, settings, progress=False, **arguments)
    return weights(model)


@pytest.mark.system
@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (2, RICH),
        pytest.param(2, PLAIN, marks=pytest.mark.system),
        pytest.param(3, replace(RICH, batch=2), marks=pytest.mark.system),  # one of them has no share of a batch
        pytest.param(2, replace(PLAIN, batch=1000), marks=pytest.mark.system),  # all windows in one batch
    ],
)
def test_processes_end_with_the_weights_of_one(count: int, settings: FitSettings, tmp_path: Path) -> None:
    alone = weights_of_fit(settings)
    found = in_ranks(count, lambda: weights_of_fit(settings, out=tmp_path / "run"), tmp_path)
    for own in found:
        assert torch.equal(own, found[0])
        torch.testing.assert_close(own, alone, rtol=0, atol=1e-5)
    assert torch.equal(weights(load_model(tmp_path / "run" / BEST)), found[0])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"] == count


@pytest.mark.system
def test_every_process_starts_from_the_weights_of_the_first(tmp_path: Path) -> None:
    def work() -> torch.Tensor:
        model = make(seed=int(os.environ["RANK"]))
        fit(model, PARTS, PLAIN, progress=False)
        return weights(model)

    one, other = in_ranks(2, work, tmp_path)
    assert torch.equal(one, other)
    torch.testing.assert_close(one, weights_of_fit(PLAIN), rtol=0, atol=1e-5)


@pytest.mark.system
def test_errors_in_shares_are_those_of_one_process(tmp_path: Path) -> None:
    def work() -> float:
        with joined() as ranks:
            return one_step_error(make(), PARTS.test, 16, ranks=ranks)

    alone = one_step_error(make(), PARTS.test, 16)
    assert in_ranks(3, work, tmp_path) == pytest.approx([alone] * 3, rel=1e-6)


@pytest.mark.system
def test_stopped_and_resumed_is_as_if_never_stopped(tmp_path: Path) -> None:
    settings = replace(RICH, epochs=3)

    def interrupt(epoch: int) -> None:
        if epoch == 1:
            raise KeyboardInterrupt

    def work() -> Any:
        whole, again = make(6), make(6)
        found = fit(whole, PARTS, settings, out=tmp_path / "whole", progress=False)
        with joined(), pytest.raises(KeyboardInterrupt):
            fit(make(6), PARTS, settings, out=tmp_path / "run", progress=False, on_epoch=interrupt)
        resumed = fit(again, PARTS, settings, out=tmp_path / "run", resume=True, progress=False)
        return weights(whole), weights(again), found.curve == resumed.curve, found.best == resumed.best

    for whole, again, same_curve, same_best in in_ranks(2, work, tmp_path):
        assert torch.equal(whole, again)
        assert same_curve
        assert same_best
    assert (tmp_path / "whole" / CURVE).read_text() == (tmp_path / "run" / CURVE).read_text()


@pytest.mark.system
def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    fit(make(6), PARTS, PLAIN, out=tmp_path / "alone", progress=False)

    def work() -> str:
        fit(make(6), PARTS, PLAIN, out=tmp_path / "both", progress=False)
        with pytest.raises(
            ValueError, match="whose number of processes is 1, and now it is 2: start as many"
        ) as caught:
            fit(make(6), PARTS, PLAIN, out=tmp_path / "alone", resume=True, progress=False)
        return str(caught.value)

    one, other = in_ranks(2, work, tmp_path)
    assert one == other
    with pytest.raises(ValueError, match="number of processes is 2, and now it is 1"):
        fit(make(6), PARTS, PLAIN, out=tmp_path / "both", resume=True, progress=False)


def test_a_taken_folder_and_other_rollouts_are_refused_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")

    def work() -> None:
        with joined():
            with pytest.raises((FileExistsError, ValueError), match="holds no run"):
                fit(make(6), PARTS, PLAIN, out=tmp_path / "other", progress=False)
            mine = oscillators(steps=80 + 40 * int(os.environ["RANK"]), actions=True)
            with pytest.raises(ValueError, match="the processes were given different rollouts"):
                fit(make(6), mine, PLAIN, out=tmp_path / "run", progress=False)

    in_ranks(2, work, tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.system
@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_fit_that_lost_a_process_goes_on_to_the_same_end(
    rank: int, ended: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    monkeypatch.setattr(ranks_module, "SECONDS_FOR_LAST_WORDS", 0.2)  # nobody is told of them here
    settings, gate = replace(RICH, epochs=6), Gate(tmp_path / "gate", STATE, passes=2)

    def work(out: str, resume: bool = False) -> tuple[torch.Tensor, int]:
        model = make(6)
        found = fit(model, PARTS, settings, out=tmp_path / out, resume=resume, progress=False)
        return weights(model), len(found.curve)

    def work_until_the_gate() -> None:
        heed(gate.folder)
        work("run")

    children = start_ranks(2, work_until_the_gate, tmp_path)
    assert gate.wait_for() == [children[0].process]  # the first one writes
    os.kill(children[rank].process, ended)
    gate.open()  # the first one goes on until it notices that the second is lost
    assert all(child.wait().code != 0 for child in children)
    resumed = in_ranks(2, lambda: work("run", resume=True), tmp_path)
    whole = in_ranks(2, lambda: work("whole"), tmp_path)
    for (one, epochs), (other, _) in zip(resumed, whole, strict=True):
        assert epochs == 6
        assert torch.equal(one, other)


@pytest.mark.system
def test_a_diverged_fit_says_so_in_every_process(tmp_path: Path) -> None:
    def work() -> None:
        model = make(6)

        def spoil(epoch: int) -> None:
            if os.environ["RANK"] == "1":
                with torch.no_grad():
                    model.readout.weight.fill_(float("nan"))

        fit(model, PARTS, replace(PLAIN, epochs=3), progress=False, on_epoch=spoil)

    for one in end_of_ranks(2, work, tmp_path):
        assert "DivergedError: the loss of epoch 2 is not a finite number" in one.output


@pytest.mark.system
def test_an_ensemble_is_written_once(tmp_path: Path) -> None:
    def work() -> int:
        _, found = fit_ensemble(lambda: make(4), PARTS, PLAIN, 2, out=tmp_path / "run", progress=False)
        return len(found)

    assert in_ranks(2, work, tmp_path) == [2, 2]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [BEST, "member-0", "member-1"]


@pytest.mark.system
def test_processes_that_stream_end_with_the_same_weights_as_one_in_memory(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for k, rollout in enumerate(oscillators(actions=True)):
        write_trace(rollout, tmp_path / "data" / f"trace{k}.npz")

    def streamed() -> torch.Tensor:
        with joined() as ranks:
            model = make()
            fit(model, Rollouts.stream(tmp_path / "data", tmp_path, ranks=ranks), RICH, progress=False)
            return weights(model)

    alone = weights_of_fit(RICH)
    assert torch.equal(streamed(), alone)
    for own in in_ranks(2, streamed, tmp_path):
        torch.testing.assert_close(own, alone, rtol=0, atol=1e-5)
