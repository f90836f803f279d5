"""The curves of a sweep: their mean and spread, and their picture."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ncp_control.scale.curves import COLOURS, MOST, band_of, draw_curves
from ncp_control.scale.plan import PlannedRun, Setting, settings_of

pytest.importorskip("matplotlib")
SETTING = Setting("a")


def write_curve(out: Path, setting: Setting, seed: int, points: dict[float, float], kind: str = "train") -> None:
    folder = out / PlannedRun(setting, seed).folder
    folder.mkdir(parents=True)
    head = {"train": "steps,mean_return,std_return", "fit": "epoch,train,valid"}[kind]
    rows = [f"{x},{y},0" if kind == "train" else f"{x},0,{y}" for x, y in points.items()]
    (folder / "curve.csv").write_text("\n".join([head, *rows]) + "\n")


def test_a_band_is_where_all_seeds_have_a_point(tmp_path: Path) -> None:
    write_curve(tmp_path, SETTING, 0, {100: 1.0, 200: 2.0, 300: 9.0})
    write_curve(tmp_path, SETTING, 1, {100: 3.0, 200: 6.0})
    band = band_of("train", SETTING, (0, 1), tmp_path)
    assert band is not None
    assert np.array_equal(band.x, [100, 200])
    assert np.array_equal(band.mean, [2, 4])
    assert band.spread == pytest.approx([math.sqrt(2), math.sqrt(8)])


def test_a_run_without_a_curve_does_not_count(tmp_path: Path) -> None:
    assert band_of("train", SETTING, (0, 1), tmp_path) is None
    write_curve(tmp_path, SETTING, 1, {100: 3.0})
    band = band_of("train", SETTING, (0, 1), tmp_path)
    assert band is not None
    assert (band.x.tolist(), band.mean.tolist(), band.spread.tolist()) == ([100], [3], [0])


def test_curves_that_share_no_point_have_an_empty_band(tmp_path: Path) -> None:
    write_curve(tmp_path, SETTING, 0, {100: 1.0})
    write_curve(tmp_path, SETTING, 1, {200: 1.0})
    band = band_of("train", SETTING, (0, 1), tmp_path)
    assert band is not None
    assert len(band.x) == 0
    assert not draw_curves("train", [SETTING], (0, 1), tmp_path, tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()


def test_a_damaged_curve_is_named(tmp_path: Path) -> None:
    write_curve(tmp_path, SETTING, 0, {100: 1.0})
    path = tmp_path / PlannedRun(SETTING, 0).folder / "curve.csv"
    path.write_text(path.read_text().replace("1.0", "one"))
    with pytest.raises(ValueError, match=r"curve\.csv is not a readable curve"):
        band_of("train", SETTING, (0,), tmp_path)


@pytest.mark.parametrize("kind", ["train", "fit"])
def test_the_picture_shows_every_setting(kind: str, tmp_path: Path) -> None:
    settings = settings_of(["a"], {"key": ["1", "2", "3"]})
    for k, setting in enumerate(settings):
        for seed in (0, 1):
            write_curve(tmp_path, setting, seed, {1: 1.0 + k, 2: 2.0 + k + seed}, kind)
    path = tmp_path / "curves.png"
    assert draw_curves(kind, settings, (0, 1), tmp_path, path)
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    for colour in COLOURS[:3]:
        assert (np.abs(pixels - to_rgb(colour)).max(-1) < 0.02).sum() > 50, f"a line of the colour {colour}"
    assert not (np.abs(pixels - to_rgb(COLOURS[3])).max(-1) < 0.02).any()


def test_many_settings_have_a_picture_too(tmp_path: Path) -> None:
    settings = settings_of(["a"], {"key": [str(k) for k in range(MOST + 3)]})
    for setting in settings:
        write_curve(tmp_path, setting, 0, {1: 1.0, 2: 2.0})
    assert draw_curves("train", settings, (0,), tmp_path, tmp_path / "curves.png")
