"""Experiments of a laboratory: the circuits and worlds whose names they use, and random changes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from helpers.browser_page import Page
from helpers.laboratory_scripts import open_scripts
from ncp_control.wiring import AutoNCP, GapJunctions, Wiring

# What a name may hold: signs of the line itself, of shells, of addresses and of pages, and half a pair of UTF-16.
ODD = ["touch at the nose", "a->b", "a--b", "-rf", "b-", "a=b", "x@1,2", "3:cut=*", "%41%", "50%", "a/b", "a&b#c",
       "$(touch hacked)", "`id`", "it's \"x\"", "<script>", "näse", "\U0001f99e", "\ud800", "seed=3", " ", "\n",
       "x%20 "]  # fmt: skip
SETTINGS = {
    "random": {"low": 0, "high": 1, "usual": 0.05},
    "noise": {"low": 0, "high": 10, "usual": 0},
    "dropout": {"low": 0, "high": 1, "usual": 0},
    "delay": {"low": 0, "high": 20, "usual": 0},
    "friction": {"low": 0, "high": 10, "usual": 1},
    "gravity": {"low": -3, "high": 3, "usual": 1},
    "mass": {"low": 0.1, "high": 10, "usual": 1},
}
PLAIN = GapJunctions(AutoNCP(12, 3, seed=1), 3, seed=1).build(4)


def odd_wiring() -> Wiring:
    """Returns a circuit whose neurons and inputs have odd names."""
    inputs, neurons = ODD[:3], [*ODD[3:], "c->d"]
    count = len(neurons)
    return Wiring.from_edges(
        inputs,
        inter=neurons[:-2],
        motor=neurons[-2:],
        sensory=[(k % 3, k) for k in range(count)],
        synapses=[(k, (3 * k + 1) % count, -1 if k % 2 else 1) for k in range(count)],
        gap_junctions=[(0, 1), (2, 5), (1, 7)],
    )


def vocabulary(a: Wiring, b: Wiring | None = None) -> dict[str, Any]:
    """Returns what `vocabularyOf` of the tests makes a vocabulary of."""
    return {
        "wirings": {"a": json.loads(a.to_json()), "b": b and json.loads(b.to_json())},
        "bodies": ["torso", "front foot", "a,b@c"],
        "observations": {"a": ["height", "angle of the hip", "50%"], "b": ["height"] if b else []},
        "settings": SETTINGS,
    }


def random_changes(rng: Random, wirings: dict[str, Wiring], two: bool) -> list[dict[str, Any]]:
    """Returns some random changes that a vocabulary of these circuits allows, in the order of their steps."""
    found = []
    for step in sorted(rng.randrange(500) for _ in range(rng.randrange(1, 12))):
        side = rng.choice(list(wirings)) if two else "a"
        wiring = wirings[side]
        names = wiring.neuron_names
        links = [[wiring.input_names[s], "->", names[t]] for s, t, _ in wiring.sensory]
        links += [[names[s], "->", names[t]] for s, t, _ in wiring.synapses]
        links += [[names[a], "--", names[b]] for a, b in wiring.gap_junctions]
        number = rng.choice([0.5, -0.25, 1e-7, 1.5e-300, 0.1 + 0.2, 1 / 3, 999.999, 0, -1, 1])
        of_circuit = {
            "silence": (rng.choice(names), None), "hold": (rng.choice(names), number * 10.0 ** rng.randrange(20)),
            "free": (rng.choice(names), None), "tau": (rng.choice(names), rng.choice([0.001, 2, 1000, 0.3])),
            "cut": (rng.choice(links), None), "flip": (rng.choice(links), None), "mend": (rng.choice(links), None),
            "scale": (rng.choice(links), number), "hide": ("height", None), "show": ("height", None),
        }  # fmt: skip
        of_world = {
            "push": (rng.choice(["torso", "a,b@c"]), rng.choice([[40, 0], [-1.5, 0, 1e-3]])), "random": (None, 0.3),
            "noise": (None, 1e-9), "dropout": (None, 1), "delay": (None, 3), "friction": (None, 0.1),
            "gravity": (None, -1 / 3), "mass": (None, 2.5), "as-it-was": (None, None),
        }  # fmt: skip
        what = rng.choice([*of_circuit, *of_world])
        on, value = {**of_circuit, **of_world}[what]
        change = {"step": step, "side": side if what in of_circuit else "", "what": what, "on": on, "value": value}
        found.append(change)
    return found


# Experiments of one circuit, of one with odd names, and of both.
WORLDS = {"one": vocabulary(PLAIN), "odd": vocabulary(odd_wiring()), "two": vocabulary(PLAIN, odd_wiring())}
SCRIPTS = ("experiment_names.js", "experiment_text.js", "experiment_condition.js", "experiment.js", "record_command.js")
MAKE = """const vocabularyOf = (world) => {
  const { wirings, ...rest } = window.data[world];
  return { ...rest, sides: { a: lab.circuitNames(wirings.a), b: wirings.b && lab.circuitNames(wirings.b) } };
};
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const plain = (values) => JSON.parse(JSON.stringify(values));
const refusal = (work) => { try { work(); return "nothing was refused"; } catch (error) { return error.message; } };
const tuned = (found) => found && { ...found, held: [...found.held],
  ...Object.fromEntries(["sensory", "synapses", "gaps", "constants"].map((name) => [name, [...found[name]]])) };
const settings = (experiment, step) => {
  const { world, pushes, a, b } = experiment.settingsAt(step);
  return plain({ world, pushes, a: tuned(a), b: tuned(b) });
};"""


def open_experiments(browser: Any, folder: Path) -> Page:
    """Opens a page with the scripts of experiments and the data of `WORLDS`."""
    return open_scripts(browser, folder, SCRIPTS, ["Experiment", "circuitNames", "shellWord"], WORLDS)


def does(page: Page, script: str, **given: Any) -> Any:
    """Returns what a script returns, which has the names of `given`."""
    values = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in given.items())
    return page.ask(f"(() => {{ {MAKE}\n{values}{script} }})()")
