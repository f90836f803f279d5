"""The line of an experiment: a person can read it, and it says everything exactly."""

from random import Random
from typing import Any

import pytest

from helpers.browser_page import Page
from helpers.experiments import PLAIN, WORLDS, does, odd_wiring, open_experiments, random_changes

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return open_experiments(browser, tmp_path_factory.mktemp("page"))


def line_of(page: Page, changes: list[dict[str, Any]], world: str = "one", seed: int = 0) -> str:
    return does(
        page,
        """const experiment = new lab.Experiment(vocabularyOf(world), seed);
        for (const change of changes) experiment.add(change);
        return experiment.line();""",
        changes=changes,
        world=world,
        seed=seed,
    )


def refused(page: Page, line: str, world: str = "one") -> str:
    return does(page, "return refusal(() => lab.Experiment.parse(line, vocabularyOf(world)));", line=line, world=world)


def test_a_line_is_one_that_a_person_can_read(page: Page) -> None:
    source, target, _ = next(iter(PLAIN.synapses))
    names = PLAIN.neuron_names
    link = f"{names[source]}->{names[target]}"
    one, other = (names[k] for k in PLAIN.gap_junctions[0])
    changes = [
        {"step": 0, "side": "", "what": "random", "on": None, "value": 0.05},
        {"step": 120, "side": "a", "what": "silence", "on": "command0", "value": None},
        {"step": 130, "side": "a", "what": "hold", "on": "motor1", "value": -0.5},
        {"step": 140, "side": "a", "what": "cut", "on": [names[source], "->", names[target]], "value": None},
        {"step": 150, "side": "a", "what": "scale", "on": link, "value": 0.5},
        {"step": 150, "side": "a", "what": "flip", "on": [other, "--", one], "value": None},
        {"step": 180, "side": "", "what": "push", "on": "torso", "value": [40, 0]},
        {"step": 190, "side": "a", "what": "hide", "on": "angle of the hip", "value": None},
        {"step": 200, "side": "", "what": "as-it-was", "on": None, "value": None},
    ]
    assert line_of(page, changes, seed=3) == (
        f"seed=3 0:random=0.05 120:silence=command0 130:hold=motor1@-0.5 140:cut={link} 150:scale={link}*0.5 "
        f"150:flip={one}--{other} 180:push=torso@40,0 190:hide=angle%20of%20the%20hip 200:as-it-was"
    )


@pytest.mark.parametrize("world", WORLDS)
def test_a_line_gives_the_same_list_again(page: Page, world: str) -> None:
    rng, odd = Random(world), odd_wiring()
    wirings = {"one": {"a": PLAIN}, "odd": {"a": odd}, "two": {"a": PLAIN, "b": odd}}[world]
    lists = [random_changes(rng, wirings, world == "two") for _ in range(300)]
    seeds = [rng.choice([0, 7, 2**31, 2**53 - 1]) for _ in lists]
    # In an address, browsers write these characters as percent and digits.
    faults = does(
        page,
        """const known = vocabularyOf(world), faults = [];
        const asAddress = (text) => new URL("#" + text, "file:///lab.html").hash.slice(1);
        lists.forEach((changes, k) => {
          const experiment = new lab.Experiment(known, seeds[k]);
          for (const change of changes) experiment.add(change);
          if (!same(experiment.changes, changes)) faults.push(["kept", changes, experiment.changes]);
          const line = experiment.line();
          if (/[\\n\\r]/.test(line)) faults.push(["lines", line]);
          for (const text of [line, ` ${line} `, asAddress(line), asAddress(experiment.address())]) {
            const again = lab.Experiment.parse(text, known);
            const isSame = same(again.changes, changes) && again.seed === seeds[k] && again.line() === line;
            if (!isSame) faults.push([text, changes, again.changes]);
          }
        });
        return faults.slice(0, 3);""",
        world=world,
        lists=lists,
        seeds=seeds,
    )
    assert faults == []
    assert sum(map(len, lists)) > 1000


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("120:silence=commandX", "the word 120:silence=commandX cannot be used: this circuit has no neuron commandX"),
        ("0:kill=command0", "there is no change called kill"),
        ("0:constructor=command0", "there is no change called constructor"),
        ("silence=command0", "a change is written STEP:CHANGE=NAME"),
        ("-1:silence=command0", "a change is written STEP:CHANGE=NAME"),
        ("0:hold=command0", "hold is written hold=NAME@VALUE"),
        ("0:hold=command0@", "nothing is not a number"),
        ("0:hold=command0@0x10", "0x10 is not a number"),
        ("0:hold=command0@1e999", "hold needs a number"),
        ("0:tau=command0*0", "tau takes a number from 0.001 to 1000, not 0"),
        ("0:cut=command0", "a synapse is written source->target"),
        ("0:cut=motor0->nobody", "no neuron nobody"),
        ("0:cut=nobody->motor0", "no neuron nobody"),
        ("0:cut=motor0->motor1", "has no synapse motor0->motor1"),
        ("0:cut=motor0--motor1", "has no gap junction motor0--motor1"),
        ("0:cut=%zz->motor0", "%zz has a % that is not followed by the two digits"),
        ("0:random=1.5", "random takes a number from 0 to 1, not 1.5"),
        ("0:delay=1.5", "delay takes a whole number of steps"),
        ("0:push=torso@1", "push takes the force along x and z"),
        ("0:push=torso@1,2e9", "each from -100000 to 100000 N"),
        ("0:push=head@1,2", "this world has no body head"),
        ("0:hide=smell", "this world has no observation smell"),
        ("0:b/silence=command0", "there is only one circuit here, and no circuit b"),
        ("0:a/random=0.1", "random changes the world and not one circuit"),
        ("0:as-it-was=command0", "as-it-was takes no name"),
        ("0:friction=ice*2", "ice*2 is not a number"),
        ("seed=1 seed=2", "the word seed=2 cannot be used: a line has one seed"),
        ("seed=1.5", "a seed is a whole number of at least 0, not 1.5"),
        ("99999999999999999999:silence=command0", "a step is a whole number of at least 0"),
    ],
)
def test_a_broken_line_is_refused_with_the_word(page: Page, line: str, why: str) -> None:
    found = refused(page, f"5:as-it-was {line}")
    assert why in found
    assert found.startswith(f"the word {line.split()[-1]} cannot be used: ")
    assert len(found.splitlines()) == 1


def test_a_line_of_one_circuit_names_what_another_lacks(page: Page) -> None:
    lines = ["0:silence=command0", "0:a/silence=command0", "0:b/silence=command0"]
    found = [refused(page, line, "two") for line in lines]
    assert "there are two circuits: write a/silence or b/silence" in found[0]
    assert found[1] == "nothing was refused"
    assert "circuit b has no neuron command0" in found[2]


def test_a_world_without_a_setting_refuses_it(page: Page) -> None:
    script = """const known = vocabularyOf("one");
    known.settings = { random: known.settings.random };
    return refusal(() => lab.Experiment.parse("0:friction=0.5", known));"""
    assert "this world has no setting friction" in does(page, script)


def test_what_was_changed_is_said_as_a_recording_says_it(page: Page) -> None:
    (source, target, _), *_ = PLAIN.synapses
    link = f"{PLAIN.neuron_names[source]}->{PLAIN.neuron_names[target]}"
    line = (
        f"0:silence=inter0 0:hold=motor1@0.123456789 0:hold=motor0@0.00001 0:cut={link} 4:scale={link}*-2 "
        "4:tau=inter0*3 9:push=torso@1,0"
    )
    found = does(page, 'return lab.Experiment.parse(line, vocabularyOf("one")).words("a");', line=line)
    assert found == [
        "inter0=0", f"motor1={0.123456789:g}", f"motor0={0.00001:g}", link, f"step 4: {link} times -2",
        "step 4: inter0 3 times as slow", "step 9: torso pushed with 1, 0 N",
    ]  # fmt: skip


def test_inputs_may_be_shown_by_other_names_unless_two_things_had_one_name(page: Page) -> None:
    script = """const { wirings, ...rest } = window.data.one;
    const known = (shown) => ({ ...rest, sides: { a: lab.circuitNames(wirings.a, shown), b: null } });
    const [source, target] = lab.circuitNames(wirings.a).sensory[0];
    const others = ["height", "speed", "left hip", "right hip"];
    const experiment = new lab.Experiment(known(others));
    experiment.add({ step: 0, what: "cut", on: { kind: "sensory", index: 0 } });
    return [experiment.line(), experiment.words("a"), experiment.command("a", "x.safetensors", 5).command,
      refusal(() => lab.Experiment.parse(`0:cut=${source}->${target}`, known(others))),
      lab.circuitNames(wirings.a, ["inter0", "speed", "left hip", "right hip"]).inputs];"""
    (source, target, _), *_ = PLAIN.sensory
    own, shown = PLAIN.input_names[source], ["height", "speed", "left%20hip", "right%20hip"][source]
    line, words, command, other, kept = does(page, script)
    assert line == f"seed=0 0:cut={shown}->{PLAIN.neuron_names[target]}"
    assert words == [f"{own}->{PLAIN.neuron_names[target]}"]
    assert f"--cut '{own}->{PLAIN.neuron_names[target]}'" in command
    assert f"no neuron {own}" in other
    assert kept == list(PLAIN.input_names)
