"""Steps from a CUDA graph. Without a GPU, the same steps on the same buffers are called instead of captured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.oscillators import oscillators
from ncp_control.base.muon import Muon
from ncp_control.base.tensors import read_tensors
from ncp_control.data import Rollout, Rollouts, Split
from ncp_control.dynamics import DynamicsModel, FitSettings, captured_step, fit, fitting
from ncp_control.dynamics.captured_step import CapturedStep
from ncp_control.dynamics.fitting import FitLoop, make_seeded
from ncp_control.ops import readable
from ncp_control.ops.cpu.backend import available
from ncp_control.runs.run import STATE, Run

CPU = torch.device("cpu")
PARTS = oscillators(actions=True).split()
# An epoch has five whole batches and a smaller one, and the horizons of the epochs are 1, 2, 3, 3, 3, 3, 3, 3.
SETTINGS = FitSettings(epochs=8, length=16, stride=4, batch=10, average=0.9, schedule="cosine", horizon=3, robust=1.0)


class Plain:
    """Calls the work that a GPU would capture."""

    captures = 0

    def __init__(self, device: torch.device) -> None:
        pass

    def run(self, work: Callable[[], Tensor]) -> Tensor:
        return work()

    def capture(self, work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        Plain.captures += 1
        return work


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> type[Plain]:
    """Calls instead of captures; learning rates are those that float32 has, in which a graph reads them."""
    usual = FitSettings.rate
    monkeypatch.setattr(FitSettings, "rate", lambda self, done: float(np.float32(usual(self, done))))
    monkeypatch.setattr(captured_step, "Recorder", Plain)
    monkeypatch.setattr(fitting, "graph_of", lambda wanted, *_: wanted)
    monkeypatch.setattr(Plain, "captures", 0)
    return Plain


def make(cell: str = "ltc", parts: Split = PARTS) -> DynamicsModel:
    reads = "observations+actions" if parts.train[0].actions is not None else "observations"
    return make_seeded(lambda: DynamicsModel.of(parts.train, cell, 6, reads=reads, residual=True), 0)


def irregular() -> Split:
    """Rollouts whose observations are not equally far apart."""
    random = np.random.default_rng(0)
    walks = [random.normal(size=(120, 2)) for _ in range(5)]
    return Rollouts(tuple(Rollout(walk, elapsed=random.uniform(0.5, 2, 120)) for walk in walks)).split()


def weights(model: torch.nn.Module) -> Tensor:
    return torch.cat([value.detach().reshape(-1).cpu() for value in model.parameters()])


def make_loop(
    model: DynamicsModel, parts: Split, settings: FitSettings = SETTINGS, graph: bool | None = False
) -> FitLoop:
    settings = settings.of_cell(model.cell_name)
    loop = FitLoop(model, parts, CPU, settings, Run(None, progress=False), {}, None, None, graph)
    loop.begin()
    return loop


@pytest.mark.parametrize(("cell", "optimizer"), [("ltc", "adam"), ("gru", "adam"), ("mlp", "adam"), ("cfc", "muon")])
@pytest.mark.parametrize("horizon", [1, 3])
def test_steps_on_the_buffers_of_a_graph_are_the_ordinary_steps(
    cell: str, optimizer: str, horizon: int, plain: type[Plain]
) -> None:
    changes = {"horizon": horizon, "average": 0.9 if horizon > 1 else 0.0, "optimizer": optimizer}
    settings = FitSettings(**{**vars(SETTINGS), **changes})
    models = [make(cell) for _ in range(2)]
    found = [
        fit(model, PARTS, settings, device="cpu", graph=graph, progress=False)
        for model, graph in zip(models, (False, True), strict=True)
    ]
    assert found[0].curve == found[1].curve
    assert torch.equal(weights(models[0]), weights(models[1]))
    assert plain.captures == horizon


def test_times_between_observations_are_copied_too(plain: type[Plain]) -> None:
    models = [make("ltc", irregular()) for _ in range(2)]
    for model, graph in zip(models, (False, True), strict=True):
        fit(model, irregular(), SETTINGS, device="cpu", graph=graph, progress=False)
    assert torch.equal(weights(models[0]), weights(models[1]))
    assert plain.captures == 3


@pytest.mark.parametrize("graphs", [(True, True), (True, False), (False, True)])
def test_a_fit_is_resumed_with_and_without_graphs(
    graphs: tuple[bool, bool], plain: type[Plain], tmp_path: Path
) -> None:
    whole, again = make(), make()
    found = fit(whole, PARTS, SETTINGS, device="cpu", progress=False)

    def interrupt(epoch: int) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    given: dict[str, Any] = {"out": tmp_path / "run", "device": "cpu", "progress": False}
    with pytest.raises(KeyboardInterrupt):
        fit(make(), PARTS, SETTINGS, graph=graphs[0], on_epoch=interrupt, **given)
    resumed = fit(again, PARTS, SETTINGS, graph=graphs[1], resume=True, **given)
    assert resumed.curve == found.curve
    assert torch.equal(weights(again), weights(whole))


def test_a_state_does_not_tell_whether_there_was_a_graph(plain: type[Plain], tmp_path: Path) -> None:
    states, settings = [], FitSettings(**{**vars(SETTINGS), "batch": 17})  # all batches are whole
    for graph in (False, True):
        folder = tmp_path / str(graph)
        fit(make(), PARTS, settings, device="cpu", graph=graph, out=folder, progress=False)
        metadata, tensors = read_tensors(folder / STATE, "ncp_control.fit", 1, ("state",), "ncp-control fit")
        words = metadata["state"].partition('"optimizer": ')[2].partition(', "curve"')[0]
        states.append((words, tensors))
    assert states[0][0] == states[1][0]
    assert "capturable" in states[0][0]
    torch.testing.assert_close(states[0][1], states[1][1], rtol=0, atol=0)


class InOnePlace(TorchDispatchMode):
    """Refuses operations on tensors that are elsewhere than on one device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.count = device, 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        found = function(*arguments, **(named or {}))
        for value in tree_leaves((arguments, named, found)):
            assert not isinstance(value, Tensor) or value.device.type == self.device, (function, value.device)
        self.count += 1
        return found


@pytest.mark.parametrize("cell", ["ltc", "neuralltc", "cfc", "ctrnn", "neuralode", "ctgru", "lstm", "gru", "mlp"])
@pytest.mark.parametrize("parts", [PARTS, irregular()], ids=["regular", "irregular"])
def test_a_step_reads_nothing_back_and_brings_nothing(cell: str, parts: Split) -> None:
    """Tensors of the device meta have no values, so that neither one nor a shape that depends on one can be read."""
    loop = make_loop(make(cell, parts), parts, FitSettings(length=6, stride=2, horizon=3))
    batch, drawn = loop.train[list(range(5))], loop.draw(3, torch.Generator())
    loop.model.to("meta")
    loop.optimizer = Muon(loop.model, lr=0.1)  # on meta there is no fused AdamW
    elsewhere = type(batch)(*(None if part is None else part.to("meta") for part in batch))
    assert drawn is not None
    places = drawn.to("meta")
    for horizon, starts in ((1, None), (3, places)):
        with InOnePlace("meta") as mode:
            loop.update(elsewhere, horizon, starts)
        assert mode.count > 50
    with pytest.raises(AssertionError), InOnePlace("meta"):
        loop.update(elsewhere, 3, drawn)
    with pytest.raises(RuntimeError, match="meta"):
        places.tolist()


def test_the_optimizer_of_a_graph_reads_its_rate_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operations are these two, which on a GPU are kernels."""
    monkeypatch.setattr(captured_step, "Recorder", Plain)
    loop = make_loop(make(), PARTS, graph=True)
    loop.update(loop.train[[0, 1, 2]], 1, None)
    seen = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            seen.append(str(function))
            return function(*arguments, **(named or {}))

    def step(*_: object) -> Tensor:
        with Seen():
            loop.optimizer.step()
        return torch.zeros(())

    CapturedStep(step, loop.optimizer, 3, CPU)(loop.train[[0, 1, 2]], 1, None)
    kernels = [name for name in seen if name.startswith("aten.")]
    assert kernels == ["aten._foreach_add_.Scalar", "aten._fused_adamw_.tensor_lr"]
    assert loop.optimizer.param_groups[0]["lr"] == loop.settings.rate(0)


@pytest.mark.skipif(not available()[0], reason=available()[1])
@pytest.mark.parametrize("cell", ["ltc", "neuralltc", "cfc"])
def test_the_indexes_of_a_circuit_are_looked_at_in_the_first_step_alone(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, that waits for it."""
    loop = make_loop(make(cell), PARTS)
    batch, drawn, looks = loop.train[list(range(5))], loop.draw(3, torch.Generator()), []
    monkeypatch.setattr(readable, "wrong_index", lambda name, *_: looks.append(name))
    readable._READABLE.clear()
    loop.update(batch, 3, drawn)
    assert looks
    looks.clear()
    loop.update(batch, 3, drawn)
    loop.update(batch, 1, None)
    assert not looks


def test_a_graph_is_refused_where_there_can_be_none(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="a CUDA graph needs a GPU, and this fit runs on the cpu: leave --graph yes out"
    ):
        fit(make(), PARTS, SETTINGS, device="cpu", graph=True, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="holds the steps of one process: leave --graph yes out, or start without"):
        fitting.graph_of(True, torch.device("cuda"), 2)


@pytest.mark.parametrize(("graph", "device", "count", "wanted"), [
    (None, "cuda", 1, None), (None, "cuda", 2, False), (None, "cpu", 1, False),
    (False, "cuda", 1, False), (True, "cuda", 1, True), (False, "cpu", 2, False),
])  # fmt: skip
def test_a_graph_is_the_default_on_one_gpu(graph: bool | None, device: str, count: int, wanted: bool | None) -> None:
    assert fitting.graph_of(graph, torch.device(device), count) is wanted


class Refusing(Plain):
    """A GPU that cannot capture this work."""

    def capture(self, work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        Plain.captures += 1
        raise RuntimeError("operation not permitted when stream is capturing\nmore of torch's words")


def test_a_step_that_cannot_be_captured_is_taken_all_the_same(
    plain: type[Plain], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is said once; a graph that was asked for is an error."""
    models = [make() for _ in range(2)]
    for model, graph in zip(models, (False, None), strict=True):
        if graph is None:
            monkeypatch.setattr(captured_step, "Recorder", Refusing)
        loop = make_loop(model, PARTS, graph=graph)
        loop.run_epochs()
    assert torch.equal(weights(models[0]), weights(models[1]))
    assert plain.captures == 1
    error = capsys.readouterr().err
    assert error == (
        "a CUDA graph cannot hold a step of this fit, so its kernels are launched one by one: operation not permitted "
        "when stream is capturing\n"
    )
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        make_loop(make(), PARTS, graph=True).run_epochs()


@pytest.mark.gpu
@pytest.mark.parametrize("cell", ["ltc", "cfc", "gru"])
@pytest.mark.parametrize("horizon", [1, 3])
def test_a_captured_fit_is_the_fit(cell: str, horizon: int, tmp_path: Path) -> None:
    """Up to the rounding of the learning rate; and stopped and resumed it is as if never stopped."""
    settings = FitSettings(**{**vars(SETTINGS), "horizon": horizon})
    given: dict[str, Any] = {"device": "cuda", "progress": False}
    models = [make(cell) for _ in range(3)]
    usual = fit(models[0], PARTS, settings, graph=False, **given)
    found = fit(models[1], PARTS, settings, **given)  # from a graph
    np.testing.assert_allclose(found.curve, usual.curve, rtol=1e-5)
    torch.testing.assert_close(weights(models[1]), weights(models[0]), rtol=0, atol=1e-4)

    def interrupt(epoch: int) -> None:
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(make(cell), PARTS, settings, graph=True, out=tmp_path / "run", on_epoch=interrupt, **given)
    resumed = fit(models[2], PARTS, settings, graph=True, out=tmp_path / "run", resume=True, **given)
    assert resumed.curve == found.curve
    assert torch.equal(weights(models[2]), weights(models[1]))
