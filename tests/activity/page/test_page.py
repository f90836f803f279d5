"""The page of a recorded rollout: one small file whose numbers are those that were recorded."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.recordings import WORM, make_recording, with_continuations, with_unknown_currents
from ncp_control.activity.page import write_page
from ncp_control.activity.page.data import quantise
from ncp_control.activity.recording.activity import Activity
from ncp_control.wiring import AutoNCP, Wiring


@pytest.fixture(scope="module")
def wiring() -> Wiring:
    return AutoNCP(20, 4, seed=1).build(5)


def data_of(page: str) -> Any:
    """Returns the data that the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def unpacked(series: dict[str, Any], steps: int) -> np.ndarray:
    """Returns the values of a series as the page's script reads them."""
    codes = np.frombuffer(base64.b64decode(series["data"]), f"<{series['kind']}").reshape(steps, series["columns"])
    top = np.iinfo(codes.dtype).max
    low, high = np.array(series["low"]), np.array(series["high"])
    values = np.where(codes == top, np.nan, low + codes * (high - low) / (top - 1))
    return 10**values if series["log"] else values


def shown_on_page(activity: Activity, folder: Path) -> Any:
    """Writes a page and returns its data about each rollout."""
    write_page(activity, folder / "page.html")
    return data_of((folder / "page.html").read_text(encoding="utf-8"))["activities"]


def test_a_long_rollout_stays_below_one_and_a_half_megabytes(tmp_path: Path) -> None:
    # as many neurons and synapses as a half-cheetah's agent has
    write_page(
        make_recording(AutoNCP(48, 16, seed=1).build(17), 1000, starts=(0, 500), body=True), tmp_path / "page.html"
    )
    assert (tmp_path / "page.html").stat().st_size < 1_500_000


def test_nothing_is_fetched(wiring: Wiring, tmp_path: Path) -> None:
    write_page(make_recording(wiring, 60), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.findall(r"https?://(?!www\.w3\.org/)\S+", page) == []
    assert (
        re.findall(r"""\b(?:src|href)=["'](?!data:)\S+|@import|url\(|\bfetch\(|XMLHttpRequest|sendBeacon""", page) == []
    )
    assert "{{" not in page


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = '</script><script>alert("x")</script>&amp;<!--{{data}}\u2028'
    wiring = Wiring.from_edges([evil + "i"], inter=[evil], motor=[evil + "m"], sensory=[(0, 0)], synapses=[(0, 1)])
    write_page(make_recording(wiring, about={"env": evil, "note": {"steps": evil}}), tmp_path / "page.html", title=evil)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(" not in page.replace("alert(&quot;x", "").replace('alert(\\"x', "")
    data = data_of(page)
    seen = evil.replace("\u2028", r"\u2028")
    assert data["title"] == seen
    assert data["wiring"]["neuronNames"] == [seen, seen + "m"]
    assert ["Environment", seen] in data["activities"][0]["facts"]


@pytest.mark.parametrize(
    "name", ["neurons", "time_constants", "currents", "sensory_currents", "observations", "inputs"]
)
def test_the_numbers_are_within_a_quantum_of_the_recorded(name: str, wiring: Wiring, tmp_path: Path) -> None:
    activity = make_recording(wiring, 60)
    packed = shown_on_page(activity, tmp_path)[0]["arrays"]
    series = packed[
        {"time_constants": "constants", "currents": "synapses", "sensory_currents": "sensory"}.get(name, name)
    ]
    recorded, found = np.asarray(getattr(activity, name), np.float64), unpacked(series, activity.steps)
    if series["log"]:
        recorded, found = np.log10(recorded), np.log10(found)
    quantum = (np.array(series["high"]) - series["low"]) / (254 if series["kind"] == "u1" else 65534)
    assert (np.abs(found - recorded) <= 0.5001 * quantum + 1e-12).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_values_that_are_not_finite_are_missing(bits: int) -> None:
    values = np.array([[1.0, np.nan, 5.0], [np.inf, np.nan, 5.0], [3.0, -np.inf, 5.0]])
    found = unpacked(quantise(values, bits), 3)
    np.testing.assert_allclose(found, [[1, np.nan, 5], [np.nan, np.nan, 5], [3, np.nan, 5]], atol=2 / (2**bits - 2))
    low = unpacked(quantise(np.array([[0.0], [1e-3], [1e3], [-1.0]]), bits, log=True), 4)
    np.testing.assert_allclose(low, [[np.nan], [1e-3], [1e3], [np.nan]], rtol=1e-6)


def test_still_and_saturated_neurons_are_named(wiring: Wiring, tmp_path: Path) -> None:
    activity = make_recording(wiring, 100)
    activity.neurons[:, 3] = 0.25 + 1e-4 * np.sin(np.arange(100))
    activity.neurons[:, 5] = 0.999 - 0.005 * (np.arange(100) % 2)
    activity.neurons[:, 7] = np.where(np.arange(100) % 10 == 0, 0.0, -1.0)  # a tenth of the time elsewhere
    (shown,) = shown_on_page(activity, tmp_path)
    assert (shown["still"], shown["saturated"]) == ([wiring.neuron_names[3]], [wiring.neuron_names[5]])


def test_without_bounds_nothing_is_saturated(wiring: Wiring, tmp_path: Path) -> None:
    activity = make_recording(wiring, 60)
    activity.state_bounds[:] = [[-np.inf], [np.inf]]
    activity.neurons[:, 2] = 1.0
    (shown,) = shown_on_page(activity, tmp_path)
    assert (shown["still"], shown["saturated"]) == ([wiring.neuron_names[2]], [])


def test_several_rollouts_of_one_circuit_share_a_page(wiring: Wiring, tmp_path: Path) -> None:
    moments = [make_recording(wiring, 40 + k, about={"note": {"steps": 1000 * k}}) for k in range(3)]
    write_page(moments, tmp_path / "page.html", title="Learning to walk")
    data = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert [each["steps"] for each in data["activities"]] == [40, 41, 42]
    assert [each["label"] for each in data["activities"]] == ["0 steps", "1,000 steps", "2,000 steps"]
    other = make_recording(AutoNCP(20, 4, seed=2).build(5))
    with pytest.raises(ValueError, match=r"0 and 1 are of different circuits"):
        write_page([moments[0], other], tmp_path / "other.html")
    with pytest.raises(ValueError, match="at least one"):
        write_page([], tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_a_rollout_with_little_in_it_has_a_page(wiring: Wiring, tmp_path: Path) -> None:
    activity = make_recording(
        wiring, 1, about={"kind": "network", "env": None, "controller": None, "dt": None, "seeds": None, "note": None}
    )
    activity.extras.clear()
    activity.time_constants[:] = np.nan
    activity.state_bounds[:] = [[-np.inf], [np.inf]]
    (shown,) = shown_on_page(activity, tmp_path)
    assert shown["body"] is None
    assert shown["dt"] is None
    assert unpacked(shown["arrays"]["outputs"], 1).shape == (1, wiring.outputs)


def test_the_body_is_kept_finely_wherever_it_runs(wiring: Wiring, tmp_path: Path) -> None:
    activity = make_recording(wiring, 60, body=True)
    activity.extras["body_ends"][..., 0] += 10_000 * np.linspace(0, 1, activity.steps, dtype=np.float32)[:, None, None]
    body = shown_on_page(activity, tmp_path)[0]["body"]
    ends = unpacked(body["ends"], activity.steps).reshape(activity.steps, 4, 2, 2)
    recorded = np.asarray(activity.extras["body_ends"], np.float64)
    relative = recorded[..., 0] - recorded[..., 0].mean(axis=(1, 2), keepdims=True)
    assert np.abs(ends[..., 0] - relative).max() < 1e-4


def test_a_body_that_is_seen_from_above_is_followed_both_ways(wiring: Wiring, tmp_path: Path) -> None:
    about = {"body": {"seen_from": "above", "flat": True, "ground": -0.1}}
    activity = make_recording(wiring, 60, body=True, about=about)
    recorded = np.asarray(activity.extras["body_ends"], np.float64)
    body = shown_on_page(activity, tmp_path)[0]["body"]
    ends = unpacked(body["ends"], 60).reshape(60, 4, 2, 2)
    along = np.frombuffer(base64.b64decode(body["along"]["data"]), "<f4").reshape(60, 2)
    np.testing.assert_allclose(ends + along[:, None, None], recorded, atol=1e-4)
    assert (body["above"], body["ground"], body["depth"]) == (True, None, None)
    assert body["side"] == pytest.approx(np.abs(ends[..., 0]).max() + 0.05, abs=1e-3)
    assert (body["down"], body["up"]) == pytest.approx((ends[..., 1].min() - 0.05, ends[..., 1].max() + 0.05), abs=1e-3)


def test_a_body_that_leaves_its_plane_has_its_depth_and_one_of_two_colours_its_colours(
    wiring: Wiring, tmp_path: Path
) -> None:
    places, colours = np.random.default_rng(0).normal(size=(60, 4, 7)), [(0.8, 0.6, 0.4)] * 3 + [(0.2, 0.2, 0.8)]
    about = {"body": {"seen_from": "side", "flat": False, "ground": None}}
    shapes = [[3, 0.05, 0.1, 0, *colour, 1] for colour in colours]
    activity = make_recording(wiring, 60, body=True, body_places=places, body_shapes=shapes, about=about)
    body = shown_on_page(activity, tmp_path)[0]["body"]
    np.testing.assert_allclose(unpacked(body["depth"], 60), places[:, :, 1], atol=1e-3)
    assert body["other"] == [False, False, False, True]
    assert body["ground"] is None
    json.dumps(body, allow_nan=False)


def test_inputs_are_named_after_observations_only_where_they_follow_them(wiring: Wiring, tmp_path: Path) -> None:
    names = [f"angle {k}" for k in range(wiring.inputs)]

    def shown(activity: Activity) -> list[str]:
        write_page(activity, tmp_path / "page.html")
        return list(data_of((tmp_path / "page.html").read_text(encoding="utf-8"))["wiring"]["inputNames"])

    activity = make_recording(wiring, about={"observation_names": names})
    assert shown(activity) == names
    activity.inputs[:] = np.random.default_rng(1).normal(size=activity.inputs.shape)
    assert shown(activity) == list(wiring.input_names)


def test_it_says_what_is_not_known(tmp_path: Path) -> None:
    known = make_recording(WORM)
    (shown,) = shown_on_page(known, tmp_path)
    assert shown["currentsKnown"]
    assert all(shown["constantsKnown"])
    assert not {"Currents", "Time constants"} & {term for term, _ in shown["facts"]}
    unknown = with_unknown_currents(make_recording(WORM))
    unknown.time_constants[:] = np.nan
    (shown,) = shown_on_page(unknown, tmp_path)
    assert not shown["currentsKnown"]
    assert not any(shown["constantsKnown"])
    assert ["Currents", "not known"] in shown["facts"]
    assert ["Time constants", "not known"] in shown["facts"]
    known.time_constants[:, 2] = np.nan
    (shown,) = shown_on_page(known, tmp_path)
    assert shown["constantsKnown"] == [k != 2 for k in range(WORM.units)]
    assert ["Time constants", f"not known for {WORM.neuron_names[2]}"] in shown["facts"]


def test_returns_are_summed_by_episode(tmp_path: Path) -> None:
    activity = make_recording(WORM, 10, starts=(0, 4), rewards=np.arange(10))
    (shown,) = shown_on_page(activity, tmp_path)
    assert ["Returns", "6, 39"] in shown["facts"]


def test_what_a_model_predicted_without_looking_is_on_its_page(wiring: Wiring, tmp_path: Path) -> None:
    activity = with_continuations(make_recording(wiring, 80, body=True))
    recorded = activity.extras
    found = shown_on_page(activity, tmp_path)[0]["continued"]
    assert (found["starts"], found["ahead"], found["first"], found["ofCircuit"]) == ([10, 40, 60], 30, 1, False)
    # 0.05 a step, counted from 1, is first above 0.5 in the eleventh step; float32 has 0.5 exactly
    assert found["parted"] == [20, 50, 70]
    assert "begins with step 40, from which on they stay together longest" in found["overall"]
    assert "over all 2 starts" in found["overall"]
    assert "the median is 10 steps." in found["overall"]
    errors = np.frombuffer(base64.b64decode(found["errors"]["data"]), "<f4").reshape(3, 30)
    np.testing.assert_array_equal(errors, recorded["continuation_errors"])
    values = unpacked(found["values"], 90).reshape(3, 30, -1)
    real = activity.observations
    np.testing.assert_allclose(
        values, recorded["continuations"].clip(real.min(0), real.max(0)), atol=0.51 * np.ptp(real) / 254
    )
    middle = np.frombuffer(base64.b64decode(found["body"]["middle"]["data"]), "<f4").reshape(90, 1, 2)
    ends = unpacked(found["body"]["ends"], 90).reshape(90, 8, 2) + middle
    np.testing.assert_allclose(ends.reshape(3, 30, 4, 2, 2), recorded["continuation_ends"], atol=0.01)
    json.dumps(found, allow_nan=False)


def test_a_model_without_a_body_has_its_errors_and_observations_on_the_page(wiring: Wiring, tmp_path: Path) -> None:
    activity = with_continuations(make_recording(wiring, 80))
    activity.extras["real_observations"] = activity.observations + 1
    shown = shown_on_page(activity, tmp_path)[0]
    assert shown["continued"]["body"] is None
    assert shown["continued"]["ofCircuit"]
    seen = unpacked(shown["arrays"]["observations"], 80)
    np.testing.assert_allclose(seen, activity.observations + 1, atol=1e-3)
    assert shown_on_page(make_recording(wiring, 80, body=True), tmp_path)[0]["continued"] is None
