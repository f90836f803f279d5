"""A fit learns, ends the same after a stop, and goes with one command from a table to an evaluated model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ncp_control.cli import main
from ncp_control.dynamics import FitSettings
from ncp_control.series import ClassScores, SeriesModel, fit_series, read_series, score, split_series

QUICK = ("--cell", "cfc", "--units", "8", "--epochs", "3", "--length", "16", "--json")


def table(folder: Path, groups: int = 10, rows: int = 40, lack: float = 0.1) -> Path:
    """Writes waves whose speed is the class, measured at irregular times."""
    random, lines = np.random.default_rng(0), ["g,t,x,y,kind,speed,v"]
    for group in range(groups):
        speed, time = 1 + group % 2, 0.0
        for _ in range(rows):
            time += float(random.uniform(0.1, 0.6))
            x, y = np.cos(speed * time), np.sin(speed * time)
            cell = "" if random.random() < lack else f"{x:.4f}"
            kind, fast = "ab"[int(x > 0)], ("slow", "fast")[group % 2]
            lines.append(f"{group},{time:.4f},{cell},{y:.4f},{kind},{fast},{x + y:.4f}")
    (folder / "waves.csv").write_text("\n".join(lines) + "\n")
    return folder / "waves.csv"


def test_a_fit_learns(tmp_path: Path) -> None:
    parts = split_series(read_series(f"{table(tmp_path)}:label=kind,group=g,time=t,read=x+y"))
    torch.manual_seed(0)
    model = SeriesModel.of(parts.train, "cfc", 8)
    fitted = fit_series(model, parts, FitSettings(epochs=15, learning_rate=0.02), progress=False)
    assert fitted.curve[-1][0] < 0.5 * fitted.curve[0][0]
    found = score(model, parts.test)
    assert isinstance(found, ClassScores)
    assert found.accuracy > 0.85 > found.baseline


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("task", ["label=kind", "value=v", "predict=x", "label=speed,each=group"])
def test_a_fit_that_was_stopped_ends_the_same(
    tmp_path: Path, task: str, average: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"{table(tmp_path)}:{task},group=g,time=t,read={'y' if 'predict' in task else 'x+y'}"
    settings, ends = FitSettings(epochs=4, length=16, average=average), []
    monkeypatch.setenv("NCP_CONTROL_FIT_SECONDS", "0")
    for name, stop in (("whole", 0), ("stopped", 2)):

        def on_epoch(done: int, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        parts = split_series(read_series(source))
        out = tmp_path / name
        if stop:
            torch.manual_seed(0)
            model = SeriesModel.of(parts.train, "cfc", 6)
            with pytest.raises(KeyboardInterrupt):
                fit_series(model, parts, settings, out=out, progress=False, on_epoch=on_epoch)
        torch.manual_seed(0)
        model = SeriesModel.of(parts.train, "cfc", 6)
        fitted = fit_series(model, parts, settings, out=out, progress=False, resume=bool(stop))
        ends.append((fitted.curve, {key: value.clone() for key, value in model.state_dict().items()}))
    assert ends[0][0] == ends[1][0]
    assert all(torch.equal(value, ends[1][1][key]) for key, value in ends[0][1].items())
    assert (tmp_path / "whole/best.safetensors").read_bytes() == (tmp_path / "stopped/best.safetensors").read_bytes()


def test_a_fit_is_resumed_on_the_kind_of_device_where_it_began(tmp_path: Path) -> None:
    parts = split_series(read_series(f"{table(tmp_path)}:label=kind,group=g"))
    model, out = SeriesModel.of(parts.train, "cfc", 4), tmp_path / "run"
    fit_series(model, parts, FitSettings(epochs=1), out=out, device="cpu", progress=False)
    about = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**about, "device": "cuda"}))
    with pytest.raises(ValueError, match="whose device is cuda, and now it is cpu: use --device cuda, or"):
        fit_series(model, parts, FitSettings(epochs=1), out=out, device="cpu", resume=True, progress=False)


@pytest.mark.parametrize("setting", [{"horizon": 2}, {"forced": 0.2}, {"robust": 1.0}, {"loss": "normalised"}])
def test_settings_without_a_meaning_are_refused(tmp_path: Path, setting: dict[str, float]) -> None:
    parts = split_series(read_series(f"{table(tmp_path)}:label=kind,group=g"))
    model = SeriesModel.of(parts.train, "cfc", 4)
    with pytest.raises(ValueError, match=f"{next(iter(setting))} has no meaning for series"):
        fit_series(model, parts, FitSettings(**setting), progress=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "key"),
    [
        ("label=kind,read=x+y", "macro_f1"),
        ("label=speed,each=group,read=x+y", "balanced_accuracy"),
        ("value=v,read=x+y", "normalised_mse"),
        ("predict=x+y", "baseline_last_normalised_mse"),
        ("label=kind,read=x+y,split=time", "accuracy"),
    ],
)
def test_from_a_table_to_a_model(tmp_path: Path, task: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    source, out = f"{table(tmp_path)}:{task},group=g,time=t", tmp_path / "run"
    assert main(["fit", source, *QUICK, "--out", str(out)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["epochs"] == 3
    assert np.isfinite(found[key])
    assert (out / "fit.png").stat().st_size > 5000
    assert len((out / "curve.csv").read_text().splitlines()) == 4
    best = str(out / "best.safetensors")
    assert main(["evaluate", best, "--data", source, "--figures", str(tmp_path / "pictures"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again[key] == pytest.approx(found[key])
    assert (tmp_path / "pictures" / "test.png").exists()
    for target in (source, best, str(out)):
        assert main(["describe", target]) == 0
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.system
def test_the_report_names_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"{table(tmp_path)}:label=kind,group=g,time=t,read=x+y"
    assert main(["fit", source, *QUICK[:-1], "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "always predicting the most frequent class of the training part: accuracy" in printed
    assert "macro F1" in printed
    assert main(["describe", source]) == 0
    described = " ".join(capsys.readouterr().out.split())
    for words in ("rows 400", "groups 10 of 40 rows", "class of each row", "missing x", "intervals 0.1"):
        assert words in described


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--actions"], "--actions has no meaning for series"),
        (["--members", "2"], "--members has no meaning for series"),
        (["--horizon", "4"], "horizon has no meaning for series"),
    ],
)
def test_options_without_a_meaning_are_refused(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", f"{table(tmp_path)}:label=kind,group=g", *words, "--out", str(tmp_path / "run")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.system
def test_another_table_must_fit_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path)
    assert main(["fit", f"{path}:label=kind,group=g,read=x+y", *QUICK, "--out", str(tmp_path / "run")]) == 0
    best = str(tmp_path / "run" / "best.safetensors")
    capsys.readouterr()
    for columns, said in (
        ("label=kind,group=g,read=y", "the inputs are y, and those of the model are x, y"),
        ("label=speed,group=g,read=x+y", "the class 'fast' is none of the model's, which are a, b"),
        ("label=kind,group=g,read=x+y,time=t", "rows that are equally far apart, and these are not"),
    ):
        assert main(["evaluate", best, "--data", f"{path}:{columns}"]) == 2
        assert said in capsys.readouterr().err
    assert main(["evaluate", best, "--data", f"{path}:label=kind,group=g,read=x+y,split=none"]) == 0
    assert "400 known labels" in capsys.readouterr().out
