"""The experiments of a laboratory: what holds at which step, and what was done can be undone."""

from random import Random
from typing import Any

import pytest

from helpers.browser_page import Page
from helpers.experiments import PLAIN, does, odd_wiring, open_experiments, random_changes

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return open_experiments(browser, tmp_path_factory.mktemp("page"))


def settings_of(page: Page, line: str, step: int, world: str = "one") -> Any:
    script = "return settings(lab.Experiment.parse(line, vocabularyOf(world)), step);"
    return does(page, script, line=line, step=step, world=world)


def test_numbers_may_stand_for_names(page: Page) -> None:
    script = """const experiment = new lab.Experiment(vocabularyOf("one"));
    const add = (what, on, value) => experiment.add({ step: 0, side: "a", what, on, value }).on;
    const link = (kind, index) => ({ kind, index });
    return [add("silence", 3), add("hide", 1), add("cut", link("sensory", 2)), add("cut", link("synapses", 4)),
      add("scale", link("gaps", 1), 2), refusal(() => add("silence", 12)),
      refusal(() => add("cut", link("gaps", 3)))];"""
    found = does(page, script)
    names = PLAIN.neuron_names
    (source, target, _), (begin, end, _) = list(PLAIN.sensory)[2], list(PLAIN.synapses)[4]
    assert found[:5] == [
        names[3], "angle of the hip", [PLAIN.input_names[source], "->", names[target]],
        [names[begin], "->", names[end]], [names[PLAIN.gap_junctions[1][0]], "--", names[PLAIN.gap_junctions[1][1]]],
    ]  # fmt: skip
    assert "has no neuron" in found[5]
    assert "a synapse is written" in found[6]


def test_settings_hold_from_their_step_on(page: Page) -> None:
    (source, target, _), (start, end, _) = list(PLAIN.sensory)[1], list(PLAIN.synapses)[2]
    one, other = (PLAIN.neuron_names[k] for k in PLAIN.gap_junctions[2])
    sensory = f"{PLAIN.input_names[source]}->{PLAIN.neuron_names[target]}"
    synapse = f"{PLAIN.neuron_names[start]}->{PLAIN.neuron_names[end]}"
    line = (
        f"0:friction=0.5 10:silence=inter0 10:hold=motor1@0.25 10:cut={sensory} 10:flip={synapse} "
        f"10:scale={one}--{other}*3 10:tau=command0*4 10:hide=50%25 10:push=torso@40,2 20:flip={synapse} "
        f"20:free=inter0 20:mend={sensory} 20:show=50%25 30:scale={synapse}*0.5 30:flip={synapse} 40:as-it-was"
    )
    before, first, second, third, last = (settings_of(page, line, step) for step in (9, 10, 25, 30, 40))
    usual = {"random": 0.05, "noise": 0, "dropout": 0, "delay": 0, "friction": 1, "gravity": 1, "mass": 1}
    assert before["world"] == first["world"] == third["world"] == {**usual, "friction": 0.5}
    assert last["world"] == usual
    ones = {name: [1] * len(getattr(PLAIN, name)) for name in ("sensory", "synapses")}
    as_it_was = {**ones, "held": [], "hidden": [], "gaps": [1] * 3, "constants": [1] * PLAIN.units}
    assert before["a"] == last["a"] == as_it_was
    assert before["b"] is None
    neuron = PLAIN.neuron_names.index
    assert sorted(first["a"]["held"]) == [[neuron("inter0"), 0], [neuron("motor1"), 0.25]]
    assert second["a"]["held"] == [[neuron("motor1"), 0.25]]
    assert [found["a"]["sensory"][1] for found in (before, first, second)] == [1, 0, 1]
    assert [found["a"]["synapses"][2] for found in (before, first, second, third)] == [1, -1, 1, -0.5]
    assert [found["a"]["gaps"] for found in (first, third)] == [[1, 1, 3]] * 2
    assert [found["a"]["constants"][neuron("command0")] for found in (before, first, last)] == [1, 4, 1]
    assert [found["a"]["hidden"] for found in (before, first, second)] == [[], [2], []]
    assert first["pushes"] == [{"body": "torso", "force": [40, 0, 2]}]
    assert [found["pushes"] for found in (before, second)] == [[], []]


def test_two_circuits_have_settings_of_their_own(page: Page) -> None:
    found = settings_of(page, "0:a/silence=command0 0:b/silence=-rf 0:noise=0.5", 0, "two")
    assert found["a"]["held"] == [[PLAIN.neuron_names.index("command0"), 0]]
    assert found["b"]["held"] == [[0, 0]]
    assert found["world"]["noise"] == 0.5


def test_undo_before_the_next_step_leaves_no_trace(page: Page) -> None:
    script = """const experiment = lab.Experiment.parse("seed=1 0:silence=inter0 5:cut=" + link, vocabularyOf("one"));
    const lines = [];
    for (let k = 0; k < 3; k++) lines.push(experiment.undo(k ? 0 : 5)?.what ?? null, experiment.line());
    return lines;"""
    source, target, _ = next(iter(PLAIN.synapses))
    link = f"{PLAIN.neuron_names[source]}->{PLAIN.neuron_names[target]}"
    assert does(page, script, link=link) == ["cut", "seed=1 0:silence=inter0", "silence", "seed=1", None, "seed=1"]


def test_undo_after_steps_keeps_what_was_done_so_that_the_line_replays(page: Page) -> None:
    (source, target, _), *_ = PLAIN.synapses
    link = f"{PLAIN.neuron_names[source]}->{PLAIN.neuron_names[target]}"
    start = (
        f"0:hold=inter0@0.5 5:hold=inter0@0.8 6:cut={link} 7:push=torso@1,2 8:friction=0.5 8:hide=height 9:as-it-was"
    )
    script = """const experiment = lab.Experiment.parse(start, vocabularyOf("one")), found = [];
    for (let step = 20; step < 28; step++) {
      const undone = experiment.undo(step);
      found.push([undone && undone.what, experiment.line().split(" ").slice(8).join(" ")]);
    }
    return found;"""
    assert does(page, script, start=start) == [
        ["as-it-was", added := f"20:hold=inter0@0.8 20:cut={link} 20:friction=0.5 20:hide=height"],
        ["hide", added := f"{added} 21:show=height"],
        ["friction", added := f"{added} 22:friction=1"],
        ["cut", added := f"{added} 23:mend={link}"],  # the push has happened
        ["hold", added := f"{added} 24:hold=inter0@0.5"],
        ["hold", added := f"{added} 25:free=inter0"],
        [None, added],
        [None, added],
    ]


def test_after_undo_everything_is_as_it_was_before(page: Page) -> None:
    odd = odd_wiring()
    rng = Random(5)
    lists = [random_changes(rng, {"a": PLAIN, "b": odd}, two=True) for _ in range(100)]
    faults = does(
        page,
        """const known = vocabularyOf("two"), faults = [];
        lists.forEach((changes, number) => {
          for (const between of [0, 3]) {
            const experiment = new lab.Experiment(known), seen = [settings(experiment, 0)];
            let step = 0;
            const compare = (what, wanted) => {
              const now = settings(experiment, step);
              for (const one of [now, wanted]) delete one.pushes;
              for (const side of ["a", "b"]) for (const one of [now, wanted]) one[side].held.sort();
              if (!same(now, wanted)) faults.push([number, between, what, experiment.line()]);
            };
            const lasting = changes.filter(({ what }) => what !== "push");
            for (const change of lasting) {
              experiment.add({ ...change, step });
              seen.push(settings(experiment, step));
              step += between;
            }
            for (let k = lasting.length - 1; k >= 0; k--, step += between) {
              experiment.undo(step);
              compare(`undo ${k}`, structuredClone(seen[k]));
            }
            if (!between && experiment.changes.length) faults.push(["traces", experiment.line()]);
            if (experiment.undo(step) !== null) faults.push("one undo too many");
            const again = lab.Experiment.parse(experiment.line(), known);
            for (let k = 0; k <= step; k++)
              if (!same(settings(again, k), settings(experiment, k))) faults.push(["replay", k]);
          }
        });
        return faults.slice(0, 3);""",
        lists=lists,
    )
    assert faults == []


def test_a_change_before_others_of_a_line_stands_before_them(page: Page) -> None:
    script = """const experiment = lab.Experiment.parse("5:noise=0.5 9:noise=1", vocabularyOf("one"));
    experiment.add({ step: 5, what: "noise", value: 0.7 });
    experiment.add({ step: 2, what: "noise", value: 0.2 });
    const noise = [1, 2, 5, 9].map((step) => experiment.settingsAt(step).world.noise);
    return [experiment.line(), noise, experiment.undo(2).step, experiment.undo(2).value, experiment.undo(2).step];"""
    line = "seed=0 2:noise=0.2 5:noise=0.5 5:noise=0.7 9:noise=1"
    assert does(page, script) == [line, [0, 0.2, 0.7, 1], 2, 0.7, 9]


def test_in_a_new_episode_what_holds_now_holds_from_the_start(page: Page) -> None:
    (source, target, _), *_ = PLAIN.synapses
    link = f"{PLAIN.neuron_names[source]}->{PLAIN.neuron_names[target]}"
    script = """const experiment = lab.Experiment.parse(line, vocabularyOf("one")), found = [];
    experiment.atReset(8, 30);
    found.push(experiment.line());
    experiment.undo(0);
    found.push(experiment.line());
    return found;"""
    line = f"seed=2 3:push=torso@9,9 4:flip={link} 5:silence=inter0 6:free=inter0 7:noise=0.5 31:mass=2"
    assert does(page, script, line=line) == [f"seed=8 0:flip={link} 0:noise=0.5", f"seed=8 0:flip={link}"]
