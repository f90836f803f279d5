"""The recording that a laboratory saves is read by Python as one that `record` wrote."""

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from helpers.browser_page import Page
from helpers.laboratory_scripts import open_scripts
from helpers.small_agents import make, small_agent
from ncp_control.activity import Activity, record
from ncp_control.activity.figures import write_figures
from ncp_control.activity.laboratory.exhibits import recording_facts
from ncp_control.activity.page import write_page
from ncp_control.activity.recording.activity import ENDS, NEEDED
from ncp_control.base.pages import packed
from ncp_control.base.safe_arrays import read_arrays
from ncp_control.cli import main
from ncp_control.rl import LoadedPolicy, load_policy
from ncp_control.rl.controller import Controller
from ncp_control.wiring import Wiring
from ncp_envs import RandomActionOverwrite

pytestmark = pytest.mark.browser

CHECKPOINT = Path(__file__).parents[3] / "checkpoints" / "halfcheetah-positions.safetensors"
# A run as the page has it, from numbers that Python recorded.
RUN = """const runOf = ({ series, starts, geometry }) => {
  const run = { series: {}, starts, steps: 0, world: { geometry } };
  for (const [name, { columns, values }] of Object.entries(series)) {
    const numbers = lab.unpacked(values), live = run.series[name] = new lab.LiveSeries(columns, name === "constants");
    run.steps = columns ? numbers.length / columns : run.steps;
    for (let step = 0; step < run.steps; step++) live.push(numbers.subarray(step * columns, (step + 1) * columns));
  }
  return run;
};
const base64 = (bytes) => {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};"""
SERIES = {
    "observations": "observations", "inputs": "inputs", "neurons": "neurons", "constants": "time_constants",
    "sensory": "sensory_currents", "synapses": "currents", "gaps": "gap_currents", "outputs": "outputs",
    "actions": "actions", "executed": "executed_actions", "states": "states", "rewards": "rewards",
    "random": "is_random", "elapsed": "elapsed", "ends": "body_ends", "places": "body_places",
}  # fmt: skip


class Pair(NamedTuple):
    """A recording of Python, and the file that the page makes of the same numbers."""

    python: Activity
    path: Path

    @property
    def page(self) -> Activity:
        return Activity.load(self.path)


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    scripts = ["numbers.js", "live.js", "npz.js", "recording.js"]
    names = ["unpacked", "LiveSeries", "recordingOf", "npzBytes", "crc32"]
    found = open_scripts(browser, tmp_path_factory.mktemp("page"), scripts, names)
    yield found
    assert found.errors() == []


def bytes_of(page: Page, expression: str) -> bytes:
    return base64.b64decode(page.ask(f"(() => {{ {RUN} return base64({expression}); }})()"))


def written(page: Page, activity: Activity, facts: Any, said: Any, path: Path, **series: Any) -> Path:
    """Writes the recording that the page makes of the numbers of another recording, some of them replaced."""
    extras, about = activity.extras, activity.about
    arrays = {name: getattr(activity, name) for name in NEEDED} | extras
    given = {name: np.asarray(arrays[own], np.float64) for name, own in SERIES.items() if own in arrays} | series
    run = {
        "series": {
            name: {"columns": int(np.prod(values.shape[1:])), "values": packed(values)}
            for name, values in given.items()
        },
        "starts": np.flatnonzero(activity.episode_starts).tolist(),
    }
    if about["body"]:
        body = about["body"]
        run["geometry"] = {
            "radii": extras["body_radii"].tolist(), "shapes": extras["body_shapes"].tolist(),
            "seenFrom": body["seen_from"], "flat": body["flat"], "ground": body["ground"],
        }  # fmt: skip
    path.write_bytes(
        bytes_of(page, f"lab.recordingOf(runOf({json.dumps(run)}), {json.dumps(facts)}, {json.dumps(said)})")
    )
    return path


def both(page: Page, folder: Path, agent: LoadedPolicy, env: Any, steps: int) -> Pair:
    try:
        python = record(agent, env, folder / "python.npz", steps, seed=5, controller="an agent", note={"steps": 3})
        facts = recording_facts(Controller(agent), env, "an agent", {"steps": 3})
    finally:
        env.close()
    said = {"seeds": python.about["seeds"], "silenced": [], "note": {}}
    return Pair(python, written(page, python, facts, said, folder / "page.npz"))


@pytest.fixture(scope="module")
def cheetah(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A body with a circuit whose environment overwrites some actions."""
    env = RandomActionOverwrite(gym.make("ncp/HalfCheetahNoVel-v0"), 0.2)
    return both(page, tmp_path_factory.mktemp("cheetah"), load_policy(CHECKPOINT), env, 60)


@pytest.fixture(scope="module")
def timed(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Episodes without a body, of which the elapsed time varies."""
    from ncp_envs import IrregularTime

    folder = tmp_path_factory.mktemp("timed")
    env = IrregularTime(gym.make("Pendulum-v1", max_episode_steps=40), frames=(1, 3), observe_elapsed="apart")
    return both(page, folder, small_agent("timed", folder), env, 50)


@pytest.mark.parametrize("which", ["cheetah", "timed"])
def test_it_is_the_recording_that_record_writes(which: str, request: pytest.FixtureRequest) -> None:
    pair: Pair = request.getfixturevalue(which)
    python, found = pair.python, pair.page
    # An environment that MuJoCo does not draw may have pictures of its own, and a laboratory has no such environment.
    assert found.about == {key: value for key, value in python.about.items() if key != "pictures"}
    assert found.wiring == python.wiring
    assert set(found.extras) == set(python.extras) - {"saliency", "values", *ENDS}
    for name in NEEDED:
        np.testing.assert_array_equal(getattr(found, name), getattr(python, name), err_msg=name)
    for name, values in found.extras.items():
        np.testing.assert_array_equal(values, python.extras[name], err_msg=name)
    kinds = {name: values.dtype for name, values in found.extras.items() if name == "is_random"}
    assert set(kinds.values()) <= {np.dtype(bool)}
    assert found.episode_starts.dtype == bool


def test_the_recordings_have_what_the_page_must_write(cheetah: Pair, timed: Pair) -> None:
    bodied = {"body_ends", "body_places", "body_radii", "body_shapes", "is_random", "executed_actions"}
    assert bodied <= set(cheetah.python.extras)
    assert "elapsed" in timed.python.extras
    assert len(timed.python.episodes) == 3


def test_numpy_reads_the_file_without_running_anything(cheetah: Pair) -> None:
    ours = read_arrays(cheetah.path)
    with np.load(cheetah.path, allow_pickle=False) as arrays:
        assert set(arrays) == set(ours)
        for name in arrays:
            np.testing.assert_array_equal(arrays[name], ours[name])
    with zipfile.ZipFile(cheetah.path) as archive:
        assert archive.testzip() is None
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["cheetah", "timed"])
def test_every_view_shows_it(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    pair: Pair = request.getfixturevalue(which)
    write_page(pair.page, tmp_path / "page.html")
    assert "an agent in" in (tmp_path / "page.html").read_text()
    write_figures(pair.page, tmp_path / "figures", formats=("png",))
    write_figures(pair.python, tmp_path / "python", formats=("png",))
    drawn, expected = ({path.name for path in (tmp_path / name).iterdir()} for name in ("figures", "python"))
    assert drawn == expected
    assert drawn


def test_view_opens_it(cheetah: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(cheetah.path), "--html", str(tmp_path / "view.html")]) == 0
    assert "halfcheetah" in (tmp_path / "view.html").read_text().lower()


def test_what_was_changed_is_in_the_recording(page: Page, cheetah: Pair, tmp_path: Path) -> None:
    line = "seed=5 0:silence=command0 3:friction=0.5"
    said = {"seeds": [5], "silenced": ["command0=0", "step 3: friction 0.5"], "note": {"laboratory": line}}
    facts = facts_of_cheetah()
    path = written(page, cheetah.python, facts, said, tmp_path / "changed.npz")
    about = Activity.load(path).about
    assert about["silenced"] == said["silenced"]
    assert about["note"] == {"steps": 3, "laboratory": line}
    write_page(Activity.load(path), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "command0=0, step 3: friction 0.5" in text
    assert line in text


def facts_of_cheetah() -> Any:
    env = gym.make("ncp/HalfCheetahNoVel-v0")
    try:
        return recording_facts(Controller(load_policy(CHECKPOINT)), env, "an agent", {"steps": 3})
    finally:
        env.close()


def test_bounds_are_widened_to_what_a_changed_circuit_did(page: Page, cheetah: Pair, tmp_path: Path) -> None:
    python = cheetah.python
    neurons, constants = np.array(python.neurons, np.float64), np.array(python.time_constants, np.float64)
    neurons[:, 2], neurons[:, 5], neurons[4, 3], constants[7, 1] = 50, -50, np.nan, 1e6
    path = written(page, python, facts_of_cheetah(), {}, tmp_path / "held.npz", neurons=neurons, constants=constants)
    found = Activity.load(path)
    assert (found.state_bounds[1, 2], found.state_bounds[0, 5]) == (50, -50)
    assert found.time_constant_bounds[1, 1] == 1e6
    np.testing.assert_array_equal(np.delete(found.state_bounds[1], 2), np.delete(python.state_bounds[1], 2))
    np.testing.assert_array_equal(np.delete(found.state_bounds[0], 5), np.delete(python.state_bounds[0], 5))
    assert np.isnan(found.neurons[4, 3])
    write_page(found, tmp_path / "page.html")


def test_odd_texts_arrive_as_they_are(page: Page, tmp_path: Path) -> None:
    texts = ["", "näse \U0001f99e ' \" \\ \n {}", "x" * 100_000, "</script>"]
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(bytes_of(page, f"lab.npzBytes({{ text: {json.dumps(text)} }})"))
        assert str(read_arrays(path)["text"]) == text
        assert str(np.load(path, allow_pickle=False)["text"]) == text


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 2), (2, 3, 4, 5), (4, 0), (0, 0), ()])
def test_arrays_of_every_shape_arrive(page: Page, shape: tuple[int, ...], tmp_path: Path) -> None:
    count = int(np.prod(shape))
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    values.reshape(-1)[:1] = np.nan
    flags = values > 0
    expression = f"""lab.npzBytes({{
        numbers: {{ shape: {list(shape)}, data: new Float32Array(lab.unpacked({json.dumps(packed(values))})) }},
        flags: {{ shape: {list(shape)}, data: Uint8Array.from({flags.reshape(-1).astype(int).tolist()}) }} }})"""
    path = tmp_path / "arrays.npz"
    path.write_bytes(bytes_of(page, expression))
    found = read_arrays(path)
    assert found["numbers"].size == count
    np.testing.assert_array_equal(found["numbers"], values)
    assert found["numbers"].dtype == np.float32
    np.testing.assert_array_equal(found["flags"], flags)
    assert found["flags"].dtype == bool
    # Each array's numbers begin where other programs can map them into memory.
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        headers = [archive.getinfo(f"{name}.npy").file_size - found[name].nbytes for name in ("numbers", "flags")]
    assert [size % 64 for size in headers] == [0, 0]


def test_what_is_no_array_is_refused_in_a_sentence(page: Page) -> None:
    def refusal(array: str) -> str:
        return page.ask(
            f"(() => {{ try {{ lab.npzBytes({{ a: {array} }}); }} catch (error) {{ return error.message; }} }})()"
        )

    assert refusal("{ shape: [2, 2], data: new Float32Array(3) }") == "an array of shape 2 x 2 has 4 numbers, and got 3"
    assert "32-bit numbers" in refusal("{ shape: [3], data: new Float64Array(3) }")


def test_nothing_is_recorded_before_the_first_step(page: Page) -> None:
    why = page.ask(
        "(() => { try { lab.recordingOf({ steps: 0, series: {}, starts: [] }, {}); } "
        "catch (error) { return error.message; } })()"
    )
    assert why == "there is nothing to record yet: let the body take a step first"


def test_facts_are_json_values_with_every_bound(tmp_path: Path) -> None:
    wiring = Wiring.from_edges(3, inter=["</script>"], motor=1, sensory=[(0, 0), (1, 1)], synapses=[(0, 1)])
    from ncp_control.rl import save_policy

    path = tmp_path / "odd.safetensors"
    save_policy(make("circuit", wiring=wiring), path, {"env": "Pendulum-v1"})
    found = recording_facts(Controller(load_policy(path)), gym.make("Pendulum-v1"), "odd")
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert Wiring.from_json(found["wiring"]) == wiring
    assert [len(found[name]) for name in ("state_bounds", "time_constant_bounds")] == [2, 2]
