"""Experiments by hand in a laboratory: everything that somebody can click, slide, type and press."""

import json
import re

import numpy as np
import pytest

from helpers.bench import press, rows, slide, status
from helpers.browser_page import Page

pytestmark = pytest.mark.browser


def test_a_synapse_that_is_cut_flipped_scaled_and_mended_by_hand_carries_as_much(lab: Page) -> None:
    lab.ask("ncp.restart(0)")
    lab.ask("ncp.advance(30)")
    strongest = int(np.argmax(np.abs(lab.ask("ncp.row('sensory')"))))
    lab.ask(f"ncp.pick({strongest})")
    assert "→" in lab.find("#picked h3").text
    # Whatever the state is, a flipped synapse pulls towards the other side and a scaled one pulls as much stronger.
    for name, line in (("Cut", ":cut="), ("Mend", ":mend="), ("Flip", ":flip="), ("Mend", ":mend=")):
        press(lab, name)
        assert line in lab.ask("ncp.line()").split()[-1]
        lab.ask("ncp.oneStep()")
        current = lab.ask("ncp.row('sensory')")[strongest]
        assert (abs(current) < 1e-6) == (name == "Cut")
    slide(lab, "#picked input[type=range]", 2)
    assert lab.ask("ncp.line()").split()[-1].endswith("*2")


def test_a_neuron_is_chosen_silenced_held_slowed_and_let_go_by_hand(lab: Page) -> None:
    lab.ask("ncp.restart(0)")
    lab.click_on("command2")
    assert lab.ask("ncp.selected()") == ["command2"]
    number = lab.ask("ncp.names().neurons.indexOf('command2')")
    press(lab, "Silence")
    assert lab.find("#line").get_property("value").endswith("1:silence=command2")
    lab.ask("ncp.oneStep()")
    assert lab.ask("ncp.row('neurons')")[number] == 0
    slide(lab, ".neuron .tools input[type=range]", 0.25)
    lab.ask("ncp.oneStep()")
    assert lab.ask("ncp.row('neurons')")[number] == 0.25
    press(lab, "Let go")
    before = lab.ask("ncp.row('constants')")[number]
    slide(lab, ".neuron .tools label:nth-of-type(2) input", 3)
    assert lab.ask("ncp.line()").endswith("3:free=command2 3:tau=command2*8")
    lab.ask("ncp.oneStep()")
    assert lab.ask("ncp.row('neurons')")[number] != 0.25
    assert lab.ask("ncp.row('constants')")[number] > before


def test_the_body_is_pushed_by_pointer_and_by_button(lab: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    lab.ask("ncp.restart(0)")
    canvas = lab.find("#body")
    lab.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    # The torso stands about the middle of the picture.
    held = None
    for down in range(-60, 60, 6):
        ActionChains(lab.browser).move_to_element_with_offset(canvas, 0, down).click_and_hold().move_by_offset(
            80, -40
        ).release().perform()
        if "push" in lab.ask("ncp.line()"):
            held = lab.ask("ncp.line()")
            break
    assert held is not None
    force = re.search(r"1:push=(\w+)@([-\d.]+),([-\d.]+)", held)
    assert force is not None
    weight = 14 * 9.81
    np.testing.assert_allclose([float(force[2]), float(force[3])], [weight, weight / 2], rtol=0.05)

    def speed_after(line: str) -> float:
        lab.ask(f"ncp.runLine({json.dumps(line)})")
        lab.ask("ncp.advance(5)")
        return lab.ask("ncp.row('speeds')")[0]

    press(lab, "→")
    assert lab.ask("ncp.line()").split()[-1].startswith("1:push=torso@")
    pushed, free = speed_after("seed=0 0:random=0 1:push=torso@400,0"), speed_after("seed=0 0:random=0")
    assert pushed > free + 1


def test_the_world_changes_with_its_sliders_and_the_senses_with_their_boxes(lab: Page) -> None:
    lab.ask("ncp.restart(0)")
    for name, value in (("random", 0.5), ("noise", 0.1), ("dropout", 0.2), ("delay", 2), ("friction", 0.1),
                        ("gravity", 0.5), ("mass", 2)):  # fmt: skip
        slide(lab, f"#setting-{name}", value)
        assert lab.ask("ncp.line()").endswith(f"1:{name}={value}")
    for selector in ("#senses-title", "#senses label:nth-of-type(3)"):
        lab.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", lab.find(selector))
        lab.find(selector).click()
    assert lab.ask("ncp.line()").endswith("1:hide=back%20thigh%20angle")
    # A sense that is taken away reads its mean, unless all of them are lost.
    lab.ask("ncp.runLine('seed=0 0:random=0 0:hide=back%20thigh%20angle')")
    lab.ask("ncp.advance(20)")
    assert np.ptp(rows(lab, "observations", 20)[:, 2]) == 0
    press(lab, "As it was")
    assert lab.ask("ncp.line()").endswith(":as-it-was")
    lab.ask("ncp.advance(20)")
    assert lab.ask("ncp.row('observations')")[2] != lab.ask("ncp.row('observations', 3)")[2]


def test_a_value_between_two_places_of_a_slider_is_told_as_it_is(lab: Page) -> None:
    lab.ask("ncp.runLine('seed=0 0:random=0.005 0:noise=0.003 0:mass=1.02')")
    random, noise, mass = (lab.find(f"output[for=setting-{name}]").text for name in ("random", "noise", "mass"))
    assert (random, noise) == ("0.5 %", "0.003")
    assert mass.endswith(" 1.02")


def test_undo_takes_back_one_change_after_the_other(lab: Page) -> None:
    lab.ask("ncp.runLine('seed=3')")
    lab.ask("ncp.change('silence', 'inter0')")
    lab.ask("ncp.change('gravity', null, 2)")
    press(lab, "Undo")
    assert lab.ask("ncp.line()") == "seed=3 1:silence=inter0"
    assert lab.find("#setting-gravity").get_property("value") == "1"
    lab.ask("ncp.advance(5)")
    press(lab, "Undo")
    assert lab.ask("ncp.line()") == "seed=3 1:silence=inter0 6:free=inter0"
    press(lab, "Undo")
    assert status(lab) == "there is nothing to undo"


def test_a_new_episode_begins_with_enter_and_says_nothing_of_the_last_one(lab: Page) -> None:
    lab.browser.execute_script("document.getElementById('line').value = 'nonsense'")
    press(lab, "Run this line")
    assert "nonsense" in status(lab)
    field = lab.find("#seed")
    field.clear()
    field.send_keys("6\n")
    assert lab.ask("ncp.line()").startswith("seed=6")
    assert status(lab) == ""


def test_it_plays_in_real_time_slower_and_faster_and_takes_single_steps(lab: Page) -> None:
    lab.ask("ncp.restart(0)")  # whose first step is taken at once; a step takes 0.05 s
    with lab.own_clock() as frames:
        lab.ask("ncp.play()")
        for speed, count, milliseconds, following in (("1", 20, 50, 21), ("0.25", 20, 50, 26), ("2", 10, 25, 36)):
            slide(lab, "#speed", speed)
            frames(count, milliseconds)
            assert lab.ask("ncp.next()") == following
        frames(1, 10_000)  # after it was hidden for long, a page goes on by a quarter of a second
        assert lab.ask("ncp.next()") == 46
        lab.ask("ncp.pause()")
        frames(20, 50)
        assert lab.ask("ncp.next()") == 46
    lab.ask("ncp.restart(0)")
    with lab.own_clock(reading=1) as frames:
        slide(lab, "#speed", "fastest")
        lab.ask("ncp.play()")
        frames(3, 16)  # each takes steps for 25 ms, and the first and the last reading of the time are not before one
        assert lab.ask("ncp.next()") == 1 + 3 * 24
        lab.ask("ncp.pause()")
    slide(lab, "#speed", "1")
    before = lab.ask("ncp.next()")
    press(lab, "Step")
    assert lab.ask("ncp.next()") == before + 1
    lab.press("\ue012")  # the left arrow
    assert lab.ask("ncp.step()") == before - 1
    assert lab.ask("ncp.next()") == before + 1


def test_a_line_that_is_pasted_runs_and_a_broken_one_is_refused_with_a_sentence(lab: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    field = lab.find("#line")
    field.clear()
    field.send_keys("seed=4 0:silence=command0 7:friction=0.1", Keys.ENTER)
    assert lab.ask("ncp.line()") == "seed=4 0:silence=command0 7:friction=0.1"
    for broken, words in (
        ("seed=4 0:silence=nobody", "this circuit has no neuron nobody"),
        ("seed=4 walk", "walk"),
        ("seed=4 0:gravity=9", "gravity"),
    ):
        field.clear()
        field.send_keys(broken, Keys.ENTER)
        assert words in status(lab)
    assert lab.ask("ncp.line()") == "seed=4 0:silence=command0 7:friction=0.1"


def test_the_keyboard_alone_does_an_experiment(lab: Page) -> None:
    lab.ask("ncp.restart(0)")
    lab.ask("document.getElementById('choose').focus()")
    lab.press("\ue015")  # down: the first neuron
    assert lab.ask("ncp.selected()") == ["inter0"]
    lab.press("\ue004")  # tab
    for _ in range(12):
        if lab.ask("document.activeElement.textContent") == "Silence":
            break
        lab.press("\ue004")
    lab.press(" ")
    assert lab.ask("ncp.line()").endswith("silence=inter0")
    lab.ask("document.activeElement.blur()")
    before = lab.ask("ncp.next()")
    lab.press(".")
    assert lab.ask("ncp.next()") == before + 1
    lab.press("u")
    assert lab.ask("ncp.line()").endswith("free=inter0")
    lab.press("r")
    assert lab.ask("ncp.next()") == 1
