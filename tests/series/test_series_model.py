"""The model computes its equation, ignores padding, knows what is missing, and survives its file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from ncp_control.dynamics import load_model
from ncp_control.series import NO_CLASS, Series, SeriesData, SeriesModel, load_series_model, save_series_model, score
from ncp_control.series.rows import SeriesRows
from ncp_control.series.telling import PIECE, error_of, tell

LENGTHS = (1, 3, 17, 33)


def some(
    classes: bool = True, whole: bool = False, times: bool = True, lacking: bool = True,
    lengths: tuple[int, ...] = LENGTHS,
) -> SeriesData:  # fmt: skip
    random, found = np.random.default_rng(0), []
    for rows in lengths:
        inputs = 5 + 2 * random.standard_normal((rows, 3))
        if lacking:
            inputs[random.random(rows) < 0.3, 1] = np.nan
        count = 1 if whole else rows
        targets: Any = random.integers(-1, 3, count) if classes else 7 * random.standard_normal((count, 2)) + 3
        if not classes:
            targets[random.random(targets.shape) < 0.2] = np.nan
        found.append(Series(inputs, targets, random.uniform(0.5, 8, rows) if times else None, f"number {rows}"))
    names = ("kind",) if classes else ("a", "b")
    return SeriesData(tuple(found), ("x", "y", "z"), names, ("p", "q", "r") if classes else (), whole)


def test_the_equation() -> None:
    data = some(classes=False)
    torch.manual_seed(0)
    model = SeriesModel.of(data, "ltc", 7)
    one = data.series[3]
    rows = np.concatenate([own.inputs for own in data.series])
    mean, std = np.nanmean(rows, 0), np.nanstd(rows, 0)
    z = np.where(np.isnan(one.inputs), 0, (one.inputs - mean) / std)
    read = np.concatenate([z, np.isnan(one.inputs[:, 1:2])], axis=1)
    assert one.elapsed is not None
    unit = np.median(np.concatenate([own.elapsed[1:] if len(own.inputs) > 1 else own.elapsed for own in data.series]))  # type: ignore[index]
    assert model.time_unit == pytest.approx(unit)
    y, _ = model.rnn(torch.tensor(read[None]).float(), elapsed=torch.tensor(one.elapsed[None] / unit).float())
    told = np.concatenate([own.targets for own in data.series])
    expected = np.nanmean(told, 0) + np.nanstd(told, 0) * model.readout(y)[0].detach().numpy()
    np.testing.assert_allclose(model.predict(one), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("cell", ["ltc", "cfc", "gru", "mlp"])
def test_padding_does_not_matter(cell: str, whole: bool) -> None:
    data = some(whole=whole)
    model = SeriesModel.of(data, cell, 5)
    rows = SeriesRows(data)
    batch = rows.batch(torch.arange(len(rows)))
    told = model(batch.inputs, batch.elapsed, count=batch.counts if whole else None)[0].softmax(-1).detach().numpy()
    own = [one for one in data.series if (one.targets != NO_CLASS).any()]
    assert len(own) == len(rows)
    for k, one in enumerate(own):
        alone = model.predict(one)
        np.testing.assert_allclose(told[k] if whole else told[k, : len(one.inputs)], alone, atol=1e-5)


@pytest.mark.parametrize("classes", [True, False])
def test_the_loss_of_a_batch_is_that_of_known_targets_alone(classes: bool) -> None:
    data = some(classes)
    model = SeriesModel.of(data, "cfc", 5)
    rows = SeriesRows(data)
    batch = rows.batch(torch.arange(len(rows)))
    loss = error_of(model, model(batch.inputs, batch.elapsed)[0], batch.targets)
    total, count = 0.0, 0
    for one in data.series:
        told = model.predict(one)
        if classes:
            known = one.targets != NO_CLASS
            total -= np.log(told[known, one.targets[known]]).sum()
            count += int(known.sum())
        else:
            total += np.nansum(((told - one.targets) / model.target_std.numpy()) ** 2)
            count += int((~np.isnan(one.targets)).sum())
    assert float(loss.detach()) == pytest.approx(total / count, rel=1e-4)
    loss.backward()
    assert all(one.grad is not None and bool(torch.isfinite(one.grad).all()) for one in model.parameters())


@pytest.mark.parametrize("classes", [True, False])
def test_the_gradient_is_that_of_finite_differences(classes: bool) -> None:
    data = some(classes, lengths=(3, 5))
    model = SeriesModel.of(data, "ctrnn", 3).double()
    rows = SeriesRows(data)
    batch = rows.batch(torch.arange(len(rows)))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        told = torch.func.functional_call(
            model,
            {"readout.weight": weight},
            (batch.inputs.double(), batch.elapsed.double()),  # type: ignore[union-attr]
        )[0]
        targets = batch.targets if classes else batch.targets.double()
        return error_of(model, told, targets)

    assert torch.autograd.gradcheck(loss, (model.readout.weight.detach().clone().requires_grad_(),))


@pytest.mark.parametrize("whole", [False, True])
def test_long_series_are_read_in_pieces_as_in_one_pass(whole: bool) -> None:
    data = some(False, whole, lengths=(2 * PIECE + 7, 5, PIECE, PIECE + 1))
    model = SeriesModel.of(data, "gru", 4)
    kept = replace(data, series=tuple(one for one in data.series if not np.isnan(one.targets).all()))
    told = tell(model, SeriesRows(kept)).outputs.numpy()
    expected = np.concatenate([np.atleast_2d(model.predict(one)) for one in kept.series])
    np.testing.assert_allclose(told, expected, atol=1e-4)


def test_a_flag_is_read_where_a_value_is_missing_and_nothing_else_may_be() -> None:
    data = some()
    model = SeriesModel.of(data, "cfc", 4)
    assert model.flagged == (False, True, False)
    inputs = torch.tensor([[[5.0, torch.nan, 5.0], [5.0, 6.0, 5.0]]])
    assert model.encode(inputs)[0, :, 3].tolist() == [1, 0]
    assert model.encode(inputs)[0, 0, 1] == 0
    lacking = replace(data.series[2], inputs=data.series[2].inputs * [[np.nan, 1, 1]])
    with pytest.raises(ValueError, match=r"number 17 lacks 'x' in its row 1, of which no value was missing"):
        model.check(replace(data, series=(lacking,)))
    with pytest.raises(ValueError, match="a value of 'x' is missing"):
        model.predict(lacking)
    with pytest.raises(ValueError, match="a value of 'x' is missing"):
        model(torch.tensor([[[torch.nan, 5.0, 5.0]]]), torch.ones(1, 1))


@pytest.mark.parametrize("cell", ["ltc", "gru"])
def test_a_model_does_not_wait_for_its_device(cell: str) -> None:
    """On torch's device "meta", where nothing has a value, a wait for one is an error."""
    model = SeriesModel.of(some(), cell, 5).to("meta")
    inputs, elapsed = (torch.empty(2, 6, *size, device="meta") for size in ((3,), ()))
    assert model(inputs, elapsed)[0].shape == (2, 6, 3)


def test_cells_that_ignore_time_read_it() -> None:
    assert SeriesModel.of(some(lacking=False), "gru", 4).rnn.wiring.inputs == 4
    assert SeriesModel.of(some(lacking=False), "cfc", 4).rnn.wiring.inputs == 3
    assert SeriesModel.of(some(lacking=False, times=False), "gru", 4).rnn.wiring.inputs == 3


def test_time_must_be_told_as_it_was_fitted() -> None:
    timed, even = some(), some(times=False)
    with pytest.raises(ValueError, match="fitted to irregular time"):
        SeriesModel.of(timed, "cfc", 4).check(even)
    with pytest.raises(ValueError, match="rows that are equally far apart"):
        SeriesModel.of(even, "cfc", 4).check(timed)


@pytest.mark.parametrize("classes", [True, False])
def test_a_file_has_the_model(tmp_path: Path, classes: bool) -> None:
    data = some(classes)
    model = SeriesModel.of(data, "neuralltc", nc.AutoNCP(12, 4))
    save_series_model(model, tmp_path / "a.safetensors", {"seed": 3})
    found = load_series_model(tmp_path / "a.safetensors")
    assert found.about() == model.about()
    assert found.note == {"seed": 3}
    np.testing.assert_array_equal(found.predict(data.series[2]), model.predict(data.series[2]))
    assert isinstance(nc.load(tmp_path / "a.safetensors"), SeriesModel)
    with pytest.raises(ValueError, match="holds a model of series, not a model of the dynamics"):
        load_model(tmp_path / "a.safetensors")


def test_scores_of_classes_and_numbers() -> None:
    pytest.importorskip("matplotlib")
    from helpers.figure_texts import boxes_of
    from ncp_control.series import ClassScores, NumberScores
    from ncp_control.series.figures import draw_classes

    found = ClassScores(np.array([[3, 1, 0], [0, 2, 2], [0, 0, 0]]), usual=0)
    assert found.accuracy == pytest.approx(5 / 8)
    assert found.balanced_accuracy == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert found.macro_f1 == pytest.approx((6 / 7 + 4 / 7 + 0) / 3)
    assert found.baseline == pytest.approx(4 / 8)
    texts = " ".join(boxes_of(draw_classes(found, ["sit", "walk", "run"], "activity")))
    assert "activity, accuracy 0.625" in texts
    data = some(False)
    model = SeriesModel.of(data, "cfc", 4)
    torch.nn.init.zeros_(model.readout.weight)
    torch.nn.init.zeros_(model.readout.bias)
    scores = score(model, data)
    assert isinstance(scores, NumberScores)
    assert scores.normalised == pytest.approx(1)  # it tells the mean
    assert scores.mse == pytest.approx(np.nanvar(np.concatenate([one.targets for one in data.series]), axis=0).mean())
