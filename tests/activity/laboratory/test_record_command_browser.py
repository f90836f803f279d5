"""The command that a laboratory shows records what the laboratory did, and no name in it is more than a name."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ncp_control as nc
from helpers.browser_page import Page
from helpers.experiments import ODD, PLAIN, odd_wiring, open_experiments, vocabulary
from helpers.small_agents import make
from ncp_control.activity import Activity
from ncp_control.cli import main
from ncp_control.rl import save_policy
from ncp_control.wiring import Wiring

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return open_experiments(browser, tmp_path_factory.mktemp("page"))


def command_of(page: Page, wiring: Wiring, changes: list[dict[str, Any]], *arguments: Any, seed: int = 0) -> Any:
    """Returns the words of the command for circuit a, and the sentences about what it leaves out."""
    found = page.ask(
        f"""(() => {{
        const {{ wirings, ...rest }} = {json.dumps(vocabulary(wiring))};
        const known = {{ ...rest, sides: {{ a: lab.circuitNames(wirings.a), b: null }} }};
        const experiment = new lab.Experiment(known, {seed});
        for (const change of {json.dumps(changes)}) experiment.add(change);
        return experiment.command("a", ...{json.dumps(arguments)});
        }})()"""
    )
    return shlex.split(found["command"]), found["leftOut"]


def change(what: str, on: Any = None, value: Any = None, step: int = 0) -> dict[str, Any]:
    return {"step": step, "what": what, "on": on, "value": value}


def agent_file(folder: Path, wiring: Wiring) -> Path:
    """Writes an untrained agent of a pendulum with this circuit."""
    path = folder / "an agent.safetensors"
    save_policy(make("circuit", wiring=wiring), path, {"env": "Pendulum-v1"})
    return path


def recorded(monkeypatch: pytest.MonkeyPatch, folder: Path, words: list[str]) -> Activity:
    """Runs the command in a folder, and returns its recording."""
    assert words[0] == "ncp-control"
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    assert main(words[1:]) == 0
    (out,) = set(folder.iterdir()) - before
    return Activity.load(out)


def test_the_command_records_what_the_laboratory_did(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiring = nc.AutoNCP(9, 1, seed=1).build(3)
    path = agent_file(tmp_path, wiring)
    (source, target, _), *_ = wiring.synapses
    (sensor, reached, _), *_ = wiring.sensory
    synapse = [wiring.neuron_names[source], "->", wiring.neuron_names[target]]
    sense = [wiring.input_names[sensor], "->", wiring.neuron_names[reached]]
    changes = [change("silence", "command0"), change("hold", "inter1", -0.125), change("cut", synapse),
               change("cut", sense), change("random", None, 0.5), change("friction", None, 0.5, 40)]  # fmt: skip
    usual = {"random": 0, "env": None, "out": "what the page did.npz"}
    words, left_out = command_of(page, wiring, changes, path.name, 60, usual, seed=7)
    assert left_out == ["step 40: friction 0.5: the command changes nothing during a run."]
    found = recorded(monkeypatch, tmp_path, words)
    assert found.steps == 60
    assert found.about["seeds"] == [7]
    assert found.about["silenced"] == ["command0=0", "inter1=-0.125", "".join(synapse), "".join(sense)]
    names = wiring.neuron_names.index
    np.testing.assert_array_equal(found.neurons[:, names("command0")], 0)
    np.testing.assert_array_equal(found.neurons[:, names("inter1")], -0.125)
    assert np.abs(found.currents[:, 0]).max() < 1e-6 < np.abs(found.currents[:, 1:]).max()
    assert np.abs(found.sensory_currents[:, 0]).max() < 1e-6 < np.abs(found.sensory_currents[:, 1:]).max()
    chance = found.get("is_random")
    assert chance is not None
    assert 15 < chance.sum() < 45


def test_the_usual_share_of_random_actions_is_not_said(page: Page) -> None:
    words, left_out = command_of(page, PLAIN, [], "x.safetensors", 100, {"random": 0.05})
    assert words == [
        "ncp-control",
        "record",
        "x.safetensors",
        "--steps",
        "100",
        "--seed",
        "0",
        "--out",
        "laboratory.npz",
    ]
    assert left_out == []
    words, _ = command_of(page, PLAIN, [], "-x.safetensors", 100, {"random": 0, "env": "Some-v0"})
    assert words[2:5] == ["./-x.safetensors", "--env", "Some-v0"]
    assert words[-4:-2] == ["--random", "0.05"]


def test_each_change_that_the_command_cannot_make_is_named(page: Page) -> None:
    (source, target, _), (start, end, _), *_ = PLAIN.synapses
    one, other = (PLAIN.neuron_names[k] for k in PLAIN.gap_junctions[0])
    first = [PLAIN.neuron_names[source], "->", PLAIN.neuron_names[target]]
    second = [PLAIN.neuron_names[start], "->", PLAIN.neuron_names[end]]
    changes = [
        change("flip", first), change("scale", second, 0.5), change("cut", [one, "--", other]),
        change("tau", "inter0", 2), change("friction", None, 0.5), change("noise", None, 0.1), change("hide", "height"),
        change("push", "torso", [1, 2]), change("silence", "inter0", None, 5), change("hold", "inter1", 2),
        change("free", "inter1"), change("mass", None, 2), change("mass", None, 1),
    ]  # fmt: skip
    words, left_out = command_of(page, PLAIN, changes, "x.safetensors", 10, {"random": 0.05})
    assert words[4:] == ["10", "--seed", "0", "--out", "laboratory.npz"]
    assert [sentence.rpartition(": ")[0] for sentence in left_out] == [
        f"{''.join(first)} flipped", f"{''.join(second)} times 0.5", f"{one}--{other}", "inter0 2 times as slow",
        "friction 0.5", "noise 0.1", "height hidden", "torso pushed with 1, 2 N", "step 5: inter0=0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", [*(name for name in ODD if name != "\ud800"), "", "'", "'\"'", "\\", "\\'", "a b", "é", "x;y", "~", "*"]
)
def test_a_shell_reads_every_word_as_it_was(page: Page, text: str) -> None:
    word = page.ask(f"lab.shellWord({json.dumps(text)})")
    assert shlex.split(word) == [text]
    assert word == shlex.quote(text)


def test_hostile_names_are_recorded_or_left_out_and_do_nothing_else(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in odd_wiring().neuron_names if name != "\ud800"]
    wiring = Wiring.from_edges(
        3,
        inter=names[:-1],
        motor=names[-1:],
        sensory=[(k % 3, k) for k in range(len(names))],
        synapses=[(k, (3 * k + 2) % len(names)) for k in range(len(names))],
    )
    path = agent_file(tmp_path, wiring)
    changes = [change("silence" if k % 2 else "hold", name, None if k % 2 else 0.25) for k, name in enumerate(names)]
    changes += [
        change("cut", [wiring.neuron_names[source], "->", wiring.neuron_names[target]])
        for source, target, _ in wiring.synapses
    ]
    words, left_out = command_of(page, wiring, changes, path.name, 3, {"random": 0.05})
    found = recorded(monkeypatch, tmp_path, words)
    said = [*found.about["silenced"], *(sentence.rpartition(": ")[0] for sentence in left_out)]
    expected = [f"{name}={0 if k % 2 else 0.25:g}" for k, name in enumerate(names)]
    expected += [
        "->".join((wiring.neuron_names[source], wiring.neuron_names[target])) for source, target, _ in wiring.synapses
    ]
    assert sorted(said) == sorted(expected)
    assert len(left_out) < len(said) / 3
    held = [k for k, name in enumerate(names) if f"{name}={0 if k % 2 else 0.25:g}" in found.about["silenced"]]
    np.testing.assert_array_equal(found.neurons[:, held], np.tile([0 if k % 2 else 0.25 for k in held], (3, 1)))
    assert not (tmp_path / "hacked").exists()
