"""The tools of a laboratory: what each button, slider, menu and key changes, and how the page shows it."""

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.bench import key, last_word, number, picture, press, run, slide, status
from helpers.browser_page import Page
from helpers.waiting import wait_until
from ncp_control.activity import Activity

pytestmark = pytest.mark.browser

MENUS = (("#window", 500, 100, "raster"), ("#colouring", "range", "bounds", "wiring"))


def pressed(page: Page, name: str) -> bool:
    found = page.browser.find_elements("xpath", f"//button[normalize-space()={name!r}]")
    return next(one for one in found if one.is_displayed()).get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(
    ("what", "on", "value"),
    [("silence", "command0", None), ("cut", "inter3->command0", None), ("flip", "inter3->command0", None),
     ("tau", "command0", 2), ("hide", "back thigh angle", None)],
)  # fmt: skip
def test_the_wiring_shows_at_once_what_was_changed(lab: Page, what: str, on: str, value: Any) -> None:
    run(lab, "seed=0 0:random=0", 5)
    before = picture(lab, "wiring")
    lab.browser.execute_script("ncp.change(...arguments)", what, on, value)
    assert picture(lab, "wiring") != before
    press(lab, "Undo")
    assert picture(lab, "wiring") == before
    assert status(lab).startswith("undone: ")


def test_buttons_of_a_neuron_show_what_holds(lab: Page) -> None:
    lab.ask("ncp.select('command2')")
    free = lab.browser.find_element("xpath", "//button[.='Let go']")
    assert not free.is_enabled()
    press(lab, "Silence")
    assert pressed(lab, "Silence")
    assert free.is_enabled()
    press(lab, "Undo")
    assert not pressed(lab, "Silence")
    lab.ask("ncp.change('tau', 'command2', 4)")
    slower = lab.find(".neuron .tools label:last-of-type")
    assert slower.find_element("css selector", "input").get_property("value") == "2"
    assert slower.text.endswith("\u00d7 4")


def test_the_menu_of_a_neuron_opens_each_of_its_synapses(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 20)
    lab.ask("ncp.select('command2')")
    options = lab.ask("[...document.querySelectorAll('.tools option')].map((one) => [one.value, one.text])")[1:]
    assert len(options) > 20
    effects = set()
    for value, name in options[::4]:
        slide(lab, ".tools select", value)
        assert lab.ask("ncp.picked()") == name
        effect, _, current = lab.find("#picked h3 span").text.partition(", current ")
        assert effect == ("pushes down" if number(current) < 0 else "pushes up")
        effects.add(effect)
    assert len(effects) == 2


def test_the_colour_of_a_synapse_is_that_of_the_sign_of_its_current(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 40)
    lab.ask("ncp.select('command0')")
    bars = lab.ask(
        "[...document.querySelectorAll('.neuron .lists li:not(.more)')]"
        ".map((row) => [row.querySelector('b').textContent, getComputedStyle(row.querySelector('i')).backgroundColor])"
    )
    legend = "getComputedStyle(document.querySelector('.legend .line.{}')).backgroundColor"
    colours = {up: lab.ask(legend.format(name)) for name, up in (("raises", True), ("lowers", False))}
    signs = [number(text) > 0 for text, _ in bars]
    assert len(set(signs)) == 2
    assert [colour for _, colour in bars] == [colours[up] for up in signs]


def test_the_strength_of_a_synapse_is_cut_at_0_and_mended_at_1(lab: Page) -> None:
    lab.ask("ncp.pick(40)")
    for value, change in ((2, "scale"), (0, "cut"), (1, "mend")):
        slide(lab, "#picked input", value)
        assert f":{change}=" in last_word(lab)
        assert last_word(lab).endswith("*2") == (value == 2)
        assert pressed(lab, "Cut") == (value == 0)
        assert not pressed(lab, "Flip")


def test_a_setting_goes_back_to_what_is_usual_with_its_own_button(lab: Page) -> None:
    slide(lab, "#setting-dropout", 0.2)
    assert lab.find("#setting-dropout + output").text == "20 %"
    slide(lab, "#setting-friction", 0.5)
    back = lab.find("[aria-label='Friction as it was']")
    assert back.is_displayed()
    lab.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", back)
    back.click()
    assert last_word(lab) == "1:friction=1"
    assert not back.is_displayed()


def test_a_sense_that_is_taken_away_is_not_ticked(lab: Page) -> None:
    lab.ask("ncp.change('hide', 2)")
    boxes = lab.ask("[...document.querySelectorAll('#senses input')].map((box) => box.checked)")
    assert [k for k, checked in enumerate(boxes) if not checked] == [2]
    assert lab.find("#senses-title").text == "Take away senses (1 gone)"
    lab.ask("ncp.change('show', 2)")
    assert lab.find("#senses-title").text == "Take away senses"


def test_buttons_push_the_chosen_part_as_hard_as_the_slider_says(lab: Page) -> None:
    part = lab.ask("ncp.bodies()")[2]
    slide(lab, "#push-body", 2)
    forces = []
    for strength in (1, 2):
        slide(lab, "#push-strength", strength)
        for arrow in "←→↑↓":
            press(lab, arrow)
            name, _, force = last_word(lab).partition("=")[2].partition("@")
            assert name == part
            forces.append([float(component) for component in force.split(",")])
    weight = forces[1][0]
    assert weight > 0
    assert forces[:4] == [[-weight, 0], [weight, 0], [0, weight], [0, -weight]]
    assert forces[5][0] == pytest.approx(2 * weight, rel=0.01)


def test_what_the_pointer_drags_is_pushed_and_a_click_pushes_nothing(lab: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = lab.find("#body")
    lab.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    for across in range(-60, 61, 20):
        for down in (0, 25):
            mouse = ActionChains(lab.browser, duration=0).move_to_element_with_offset(canvas, across, down)
            mouse.click().click_and_hold().move_by_offset(30, 0).release().perform()
    words = [word for word in lab.ask("ncp.line()").split(" ") if ":push=" in word]
    assert len({word.partition("=")[2].partition("@")[0] for word in words}) > 2
    forces = [[float(part) for part in word.partition("@")[2].split(",")] for word in words]
    assert all(force[0] > 10 for force in forces)


def test_menus_choose_the_colours_and_how_many_steps_are_shown(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 60)
    for selector, other, usual, canvas in MENUS:
        slide(lab, selector, usual)
        before = picture(lab, canvas)
        slide(lab, selector, other)
        assert picture(lab, canvas) != before
        slide(lab, selector, usual)
        assert picture(lab, canvas) == before


def test_keys_look_back_and_leave_what_was_chosen(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 40)
    for name, held, step in (("ArrowLeft", {"shiftKey": True}, 30), ("ArrowRight", {}, 31), ("Home", {}, 0),
                             ("End", {}, 40)):  # fmt: skip
        key(lab, name, **held)
        assert lab.ask("ncp.step()") == step
    lab.ask("(ncp.select('command0'), ncp.pick(3))")
    key(lab, "Escape")
    assert (lab.ask("ncp.selected()"), lab.ask("ncp.picked()")) == ([], None)


def test_keys_of_the_browser_and_of_a_field_are_not_the_laboratorys(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 10)
    for on, held in (("body", {"ctrlKey": True}), ("#seed", {}), ("#line", {}), ("#setting-noise", {})):
        key(lab, "r", on, **held)
        assert lab.ask("ncp.next()") == 11
    key(lab, "r")
    assert lab.ask("ncp.next()") == 1


def test_after_a_pause_all_pictures_are_those_of_the_newest_step(lab: Page) -> None:
    slide(lab, "#speed", 8)
    with lab.own_clock() as frames:
        lab.ask("ncp.play()")
        frames(9, 22)  # 32 steps, the last of which are not drawn before the pause
        assert lab.ask("ncp.next()") == 32
        lab.ask("ncp.pause()")
    slide(lab, "#speed", 1)
    shown = [picture(lab, canvas) for canvas in ("wiring", "raster", "body")]
    lab.ask("ncp.lookAt()")
    assert [picture(lab, canvas) for canvas in ("wiring", "raster", "body")] == shown
    assert lab.ask("ncp.step()") == lab.ask("ncp.next()") - 1


@pytest.mark.parametrize(("typed", "seed"), [("-3", 0), ("2.7", 2), ("", 0), ("12", 12)])
def test_a_seed_that_is_none_is_read_as_the_nearest_one(lab: Page, typed: str, seed: int) -> None:
    slide(lab, "#seed", typed)
    press(lab, "Restart")
    assert lab.ask("ncp.line()") == f"seed={seed}"


def test_what_is_wrong_is_told_in_another_colour_and_without_marks_that_turn_the_writing(lab: Page) -> None:
    slide(lab, "#line", "seed=0 0:silence=a%E2%80%AEb")
    press(lab, "Run this line")
    assert "has no neuron a�b" in status(lab)
    colour = "getComputedStyle(document.getElementById('status')).color"
    wrong = lab.ask(colour)
    lab.ask("ncp.change('friction', null, 0.5)")
    assert status(lab) == ""
    assert lab.ask(colour) != wrong


def test_the_ways_out_of_the_page_are_shown_below_the_line(lab: Page, tmp_path: Path) -> None:
    lab.ask("ncp.putBeside(0)")
    run(lab, "seed=3 0:random=0 0:b/silence=command1 0:b/flip=inter3->command0", 20)
    lab.ask("ncp.showSide('b')")
    press(lab, "Copy a link")
    assert lab.find("#log-note").text == lab.ask("location.href")
    press(lab, "Copy the line")
    assert lab.find("#log-note").text == lab.ask("ncp.line()")
    press(lab, "Copy as a command")
    command = lab.find("#log-note").text
    assert re.search("^ncp-control record .* --steps 21 --seed 3 .*--silence command1 ", command)
    wait_until(lambda: "not in it: inter3->command0 flipped" in status(lab), "what the command leaves out")
    lab.browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    press(lab, "Save the recording")
    saved_as = tmp_path / "halfcheetah-positions-laboratory.npz"
    wait_until(saved_as.exists, "the recording")
    saved = Activity.load(saved_as)
    assert saved.about["silenced"][1:] == ["command1=0", "inter3->command0 flipped"]
    assert saved.about["seeds"] == [3]


def test_the_tour_takes_the_focus_and_gives_it_back(lab: Page) -> None:
    lab.ask("void (location.hash = '#seed=0')")
    run(lab, "seed=0 0:friction=0.5")
    for _ in range(2):  # a second start does not forget what was there before the tour
        lab.find("#tour-start").click()
        assert lab.ask("document.activeElement.id") == "tour-title"
        assert lab.ask("ncp.line()") == "seed=0"  # it chooses from a run without a change
    press(lab, "Next")
    press(lab, "Show the result at once")
    assert ":friction" not in lab.ask("ncp.line()")
    said = lab.ask("[...document.querySelectorAll('#tour-panel li')].map((item) => item.innerText)")
    means = [number(re.findall(r"reward (\S+)", words)[0]) for words in said]
    shares = [int(re.findall(r"(\d+)\u00a0% of what it was", words)[0]) for words in said[1:]]
    assert shares == pytest.approx([100 * mean / means[0] for mean in means[1:]], abs=1)
    # After a change in the experiment it is begun anew, and what is told is its own result again.
    lab.ask("ncp.runLine('seed=1')")
    press(lab, "Try it")
    lab.ask("ncp.pause()")
    assert ":silence=" in lab.ask("ncp.line()")
    press(lab, "End the tour")
    assert lab.ask("document.activeElement.id") == "tour-start"
    assert lab.ask("ncp.line()") == "seed=0 0:friction=0.5"
