"""The page of a recorded rollout in a browser: it shows what was recorded, and its controls work."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browser_page import Page, running_browser
from helpers.recordings import make_recording, with_continuations, with_unknown_currents
from helpers.waiting import wait_until
from ncp_control.activity.page import write_page
from ncp_control.activity.recording.activity import Activity
from ncp_control.wiring import AutoNCP, FullyConnected, GapJunctions, Wiring

pytestmark = pytest.mark.browser

# Viridis at nine even places; the page's colours are straight lines between them.
VIRIDIS = np.array([[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
                    [92, 200, 99], [170, 220, 50], [253, 231, 37]])  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from running_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def activity() -> Activity:
    wiring = GapJunctions(AutoNCP(20, 4, seed=1), 3).build(5)
    return make_recording(wiring, 200, starts=(0, 100), body=True, about={"dt": 0.05})


@pytest.fixture(scope="module")
def foreseen() -> Activity:
    """A recording of a model whose continuations part from the body after ten steps."""
    activity = make_recording(AutoNCP(20, 4, seed=1).build(5), 80, body=True, about={"kind": "model", "dt": 0.05})
    return with_continuations(activity)


@pytest.fixture(scope="module")
def opener(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Page]:
    """A function that writes the page of one rollout or several and returns it, not yet open."""

    def write(activity: Activity | list[Activity]) -> Page:
        path = tmp_path_factory.mktemp("page") / "page.html"
        write_page(activity, path)
        return Page(browser, path)

    return write


@pytest.fixture
def page(opener: Callable[..., Page], activity: Activity) -> Iterator[Page]:
    """The page of `activity`, open in the browser. After the test, no error may have occurred in it."""
    found = opener(activity)
    found.open()
    yield found
    assert found.errors() == []


def colour(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def shade(fraction: float) -> np.ndarray:
    place = np.clip(fraction, 0, 1) * (len(VIRIDIS) - 1)
    return np.array([np.interp(place, np.arange(len(VIRIDIS)), channel) for channel in VIRIDIS.T])


def test_it_has_every_neuron_and_synapse(page: Page, activity: Activity) -> None:
    wiring = activity.wiring
    assert page.ask("ncp.counts") == {
        "neurons": wiring.units, "synapses": len(wiring.synapses), "sensory": len(wiring.sensory), "gaps": 3,
    }  # fmt: skip
    assert len(page.browser.find_elements("css selector", "#choose option:not([value=''])")) == wiring.units
    assert f"{wiring.units} neurons" in page.find("#summary").text


def test_nothing_is_asked_of_a_network(page: Page) -> None:
    with page.own_clock() as frames:
        page.press(" ")
        frames(3, 50)
        assert page.ask("ncp.step()") == 3
        page.press(" ")
    sent = [json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")]
    addresses = [e["params"]["request"]["url"] for e in sent if e["method"] == "Network.requestWillBeSent"]
    assert [address for address in addresses if not address.startswith(("file:", "data:"))] == []
    assert page.ask("performance.getEntriesByType('resource').map((entry) => entry.name)") == []


@pytest.mark.parametrize("step", [0, 57, 199])
def test_neurons_have_the_colour_of_their_recorded_state(step: int, page: Page, activity: Activity) -> None:
    page.ask(f"ncp.setStep({step})")
    values, fills, places = page.ask(
        "['valueOf', 'fillOf', 'placeOf']"
        ".map((what) => Array.from({ length: ncp.counts.neurons }, (_, n) => ncp[what](n)))"
    )
    states = activity.neurons[step]
    np.testing.assert_allclose(values, states, atol=1e-4)
    expected = np.array([shade((state + 1) / 2) for state in states])  # the bounds are -1 and 1
    assert np.abs([colour(fill) for fill in fills] - expected).max() <= 2
    beside_the_number = [(place["x"] - 0.72 * place["radius"], place["y"]) for place in places]
    assert np.abs(page.pixels("wiring", beside_the_number) - expected).max() <= 4


def test_a_click_on_a_neuron_opens_it_and_another_leaves_it(page: Page, activity: Activity) -> None:
    wiring = activity.wiring
    step, neuron = 80, wiring.layers["command"].start
    name = wiring.neuron_names[neuron]
    page.ask(f"ncp.setStep({step})")
    page.click_on(name)
    assert page.ask("ncp.selected()") == [name]
    rows = page.browser.find_elements("css selector", ".neuron .lists > div:first-child li:not(.more)")
    mine = wiring.synapses.target == neuron
    sources = [wiring.neuron_names[source] for source in wiring.synapses.source[mine]]
    into = dict(zip(sources, activity.currents[step, mine], strict=True))
    shown = [row.find_element("css selector", "span").text for row in rows]
    strongest = max(into, key=lambda source: abs(into[source]))
    assert strongest in shown
    numbers = [abs(float(row.find_element("css selector", "b").text.replace("\u2212", "-"))) for row in rows]
    assert numbers == sorted(numbers, reverse=True)
    number = numbers[shown.index(strongest)]
    assert number == pytest.approx(abs(into[strongest]), abs=0.03)

    page.click_on(wiring.neuron_names[-1])
    assert page.ask("ncp.selected()") == [name, wiring.neuron_names[-1]]
    assert len(page.browser.find_elements("css selector", ".neuron")) == 2
    page.click_on(name)
    assert page.ask("ncp.selected()") == [wiring.neuron_names[-1]]
    page.press("\ue00c")  # Escape
    assert page.ask("ncp.selected()") == []
    assert not page.find("#chosen-body").is_displayed()


def test_it_plays_in_real_time_and_stops(page: Page) -> None:
    with page.own_clock() as frames:
        page.find("#play").click()
        assert page.ask("ncp.playing()")
        frames(20, 50)  # a step takes 0.05 s
        assert page.ask("ncp.step()") == 20
        frames(20, 25)
        assert page.ask("ncp.step()") == 30
        frames(1, 10_000)  # after it was hidden for long, a page goes on by a quarter of a second
        assert page.ask("ncp.step()") == 35
        page.find("#play").click()
        assert not page.ask("ncp.playing()")
        frames(20, 50)
        assert page.ask("ncp.step()") == 35


def test_playing_ends_with_the_last_step_and_begins_again(page: Page, activity: Activity) -> None:
    with page.own_clock() as frames:
        page.ask("ncp.setStep(195)")
        page.ask("ncp.play()")
        frames(3, 50)
        assert (page.ask("ncp.playing()"), page.ask("ncp.step()")) == (True, activity.steps - 2)
        frames(2, 50)
        assert (page.ask("ncp.playing()"), page.ask("ncp.step()")) == (False, activity.steps - 1)
        page.ask("ncp.play()")
        assert page.ask("ncp.step()") == 0
        page.ask("ncp.pause()")


def test_the_keyboard_moves_in_time(page: Page, activity: Activity) -> None:
    left, right, home, end = "\ue012", "\ue014", "\ue011", "\ue010"
    last = activity.steps - 1
    for key, shift, step in [(right, False, 1), (right, True, 11), (left, False, 10), (left, True, 0), (left, False, 0),
                             (end, False, last), (right, False, last), (home, False, 0)]:  # fmt: skip
        page.press(key, shift=shift)
        assert page.ask("ncp.step()") == step
    with page.own_clock():
        page.press(" ")
        assert page.ask("ncp.playing()")
        page.press(" ")
        assert not page.ask("ncp.playing()")
    page.find("#step").click()  # the slider has arrows of its own: one press is still one step
    before = page.ask("ncp.step()")
    page.press(right)
    assert page.ask("ncp.step()") == before + 1


def test_the_address_holds_the_step(page: Page) -> None:
    page.open(address="#step=123")
    assert page.ask("ncp.step()") == 123
    page.browser.execute_script("location.hash = 'step=45'")
    wait_until(lambda: page.ask("ncp.step()") == 45, "the step of another address")
    page.ask("ncp.setStep(77)")
    wait_until(lambda: page.ask("location.hash") == "#step=77", "the address of another step")
    page.open(address="#step=100000")
    assert page.ask("ncp.step()") == 199


def test_the_body_is_drawn_and_moves(page: Page) -> None:
    picture = "document.getElementById('body').toDataURL()"
    assert page.colours("body") > 5
    first = page.ask(picture)
    page.ask("ncp.setStep(20)")
    assert page.ask(picture) != first


def body_recording(body: dict[str, Any], ends: list[Any], places: list[Any]) -> Activity:
    """Makes a recording of two limbs that stay where they are, the first of them the larger one."""
    wiring = AutoNCP(10, 2, seed=1).build(3)
    shapes = [[3, 0.1, 0.5, 0, *colour, 1] for colour in ((0.8, 0.6, 0.4), (0.2, 0.2, 0.8))]
    return make_recording(
        wiring, 20, body_ends=[ends] * 20, body_radii=[0.2, 0.1], body_places=[places] * 20, body_shapes=shapes,
        about={"body": body, "dt": 0.1},
    )  # fmt: skip


def limbs_at(page: Page, places: list[tuple[float, float]]) -> list[str]:
    """Returns which limb is drawn at places of the body's panel, in pixels."""
    page.open(scheme="light")
    names = {(74, 89, 104): "limb", (147, 164, 181): "other limb"}
    return [names.get(tuple(pixel), "none") for pixel in page.pixels("body", places)]


def test_the_nearer_limb_is_drawn_over_the_one_behind(opener: Callable[..., Page]) -> None:
    body = {"seen_from": "side", "flat": False, "ground": 0.0}
    ends = [[[-0.5, 0.5], [0.5, 0.5]], [[-0.5, 0.5], [0.5, 0.5]]]
    for nearer, seen in ((-1.0, "other limb"), (1.0, "limb")):
        page = opener(body_recording(body, ends, [[0, 0, 0, 1, 0, 0, 0], [0, nearer, 0, 1, 0, 0, 0]]))
        page.open()
        width = page.ask("document.getElementById('body').width")
        # The limbs are 0.5 m above the ground, and the highest point, at 0.7 m, is 10 pixels below the upper edge.
        middle = (width / 2, 136 - 126 * 0.5 / 0.7)
        assert limbs_at(page, [middle]) == [seen]
        assert page.errors() == []


def test_a_body_from_above_stands_on_no_ground_and_its_place_is_told_both_ways(opener: Callable[..., Page]) -> None:
    body = {"seen_from": "above", "flat": True, "ground": -0.1}
    ends = [[[2.0, 3.0], [3.0, 3.0]], [[2.0, 2.0], [3.0, 2.0]]]
    page = opener(body_recording(body, ends, [[0, 0, 0, 1, 0, 0, 0]] * 2))
    page.open()
    assert page.find("#body-note").text == "x 2.50 m, y 2.50 m · 0.0 m/s"
    width = page.ask("document.getElementById('body').width")
    up, down = 0.7, -0.6  # metres from the middle to the highest and to the lowest point
    scale = 126 / (up - down)
    middle = (136 + 10 + (up + down) * scale) / 2
    places = [(width / 2, middle - 0.5 * scale), (width / 2, middle + 0.5 * scale), (width / 2 + 2, middle + 3)]
    assert limbs_at(page, places) == ["limb", "other limb", "none"]
    assert page.errors() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colour_scheme_and_the_button_changes_it(scheme: str, page: Page) -> None:
    page.open(scheme=scheme)
    brightness = "getComputedStyle(document.body).backgroundColor"
    dark = sum(colour(page.ask(brightness))[:3]) < 384
    assert dark == (scheme == "dark")
    page.find("#theme").click()
    assert (sum(colour(page.ask(brightness))[:3]) < 384) != dark


@pytest.mark.parametrize("width", [390, 768, 1366])
def test_nothing_hangs_over_the_side(width: int, page: Page, activity: Activity) -> None:
    page.open(width, 844)
    page.ask(f"ncp.select({activity.wiring.units - 1})")
    page.find("summary").click()
    assert page.ask("document.documentElement.scrollWidth") <= width
    wide = page.ask(
        "[...document.querySelectorAll('canvas, select, footer *')]"
        ".filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => one.id || one.tagName)"
    )
    assert wide == []


def test_on_a_phone_there_is_one_column(opener: Callable[..., Page], foreseen: Activity) -> None:
    page = opener(foreseen)
    page.open(390, 844)
    assert page.ask("document.documentElement.scrollWidth") <= 390
    lefts = page.ask(
        "[...document.querySelectorAll('section:not([hidden])')].map((one) => one.getBoundingClientRect().left)"
    )
    assert len(set(lefts)) == 1


def test_a_second_slider_chooses_the_moment_of_training(opener: Callable[..., Page], activity: Activity) -> None:
    moments = [
        make_recording(activity.wiring, 100, starts=(0, 50), body=True, about={"note": {"steps": 5000 * k}})
        for k in range(3)
    ]
    for k, moment in enumerate(moments):
        moment.neurons[:, 0] = [-1, 0, 1][k]
    page = opener(moments)
    page.open(address="#step=30&moment=2")
    assert (page.ask("ncp.moment()"), page.ask("ncp.step()")) == (2, 30)
    assert page.find("#moment-label").text == "10,000 steps"
    assert page.ask("ncp.valueOf(0)") == 1
    page.find("#moment").send_keys("\ue012")
    assert (page.ask("ncp.moment()"), page.ask("ncp.step()"), page.ask("ncp.valueOf(0)")) == (1, 30, 0)
    assert page.errors() == []


def test_a_rollout_with_little_in_it_is_shown(opener: Callable[..., Page]) -> None:
    wiring = Wiring.from_edges(["touch"], motor=["reverse"], sensory=[("touch", "reverse")])
    activity = make_recording(
        wiring, 1, about={"kind": "network", "env": None, "controller": None, "dt": None, "note": None}
    )
    activity.extras.clear()
    activity.time_constants[:] = np.nan
    activity.state_bounds[:] = [[-np.inf], [np.inf]]
    page = opener(activity)
    page.open()
    page.ask("ncp.select('reverse')")
    page.press(" ")
    assert not page.find("#body-panel").is_displayed()
    assert page.find("#health").text.startswith("Never change: reverse")
    assert "time constant not known" in page.find(".neuron h3").text
    assert page.find("#constants-note").text == ""
    assert page.errors() == []


def test_many_synapses_are_thinned_and_the_page_says_so(opener: Callable[..., Page]) -> None:
    page = opener(make_recording(FullyConnected(40, 6).build(10), 30))
    page.open()
    assert "strongest of 2,000 synapses" in page.find("#thinned").text
    assert page.errors() == []


def test_currents_that_are_not_known_are_not_shown_as_zero(opener: Callable[..., Page], activity: Activity) -> None:
    wiring = activity.wiring
    unknown = with_unknown_currents(make_recording(wiring, 40))
    page = opener(unknown)
    page.open()
    assert page.find("#currents-legend").text == "currents: not known"
    synapse = next((s, t) for s, t, _ in wiring.synapses if s in range(10) and t in range(10, 16))
    # The middle of the curve to the next layer is the middle between its ends.
    ends = [page.ask(f"ncp.placeOf({end})") for end in synapse]
    middle = [sum(end[axis] for end in ends) / 2 for axis in "xy"]
    page.ask("ncp.setStep(3)")
    assert page.darkness("wiring", middle) > 120  # a line that is easily seen; without a current it would be faint
    page.ask(f"ncp.select({wiring.units - 1})")
    values = [value.text for value in page.browser.find_elements("css selector", ".neuron .lists li:not(.more) b")]
    assert values
    assert set(values) == {"not known"}
    bars = page.browser.find_elements("css selector", ".neuron .lists li:not(.more) i")
    assert not any(bar.is_displayed() for bar in bars)
    assert page.errors() == []


def test_a_neuron_whose_time_constant_is_not_known_says_so(opener: Callable[..., Page], activity: Activity) -> None:
    moment = make_recording(activity.wiring)
    moment.time_constants[:, 2] = np.nan
    page = opener(moment)
    page.open()
    page.ask("ncp.select(2)")
    page.ask("ncp.select(3)")
    unknown, known = (heading.text for heading in page.browser.find_elements("css selector", ".neuron h3"))
    assert "time constant not known" in unknown
    assert "not known" not in known
    assert page.errors() == []


def test_known_and_unknown_currents_can_share_a_page(opener: Callable[..., Page], activity: Activity) -> None:
    moments = [with_unknown_currents(make_recording(activity.wiring)), make_recording(activity.wiring)]
    page = opener(moments)
    page.open()
    page.ask(f"ncp.select({activity.wiring.units - 1})")
    shown = "[...document.querySelectorAll('.neuron .lists b')].map((one) => one.textContent)"
    assert page.find("#currents-legend").text == "wider: more current now"
    assert "not known" not in page.ask(shown)
    page.ask("ncp.setMoment(0)")
    assert page.find("#currents-legend").text == "currents: not known"
    assert set(page.ask(shown)) == {"not known"}
    page.ask("ncp.setMoment(1)")
    assert "not known" not in page.ask(shown)
    assert page.errors() == []


@pytest.mark.slow
def test_two_hundred_neurons_and_five_thousand_steps_are_drawn(opener: Callable[..., Page]) -> None:
    """scripts/benchmark_page.py says how fast."""
    page = opener(make_recording(AutoNCP(200, 10, sparsity=0.87, seed=1).build(20), 5000, starts=(0, 2500), body=True))
    page.open()
    pictures = "['wiring', 'raster'].map((name) => document.getElementById(name).toDataURL())"
    for window in ("100", "0"):  # a part of the steps, and all of them
        page.browser.execute_script(
            "const menu = document.getElementById('window'); menu.value = arguments[0];"
            "menu.dispatchEvent(new Event('change'))",
            window,
        )
        page.ask("ncp.setStep(40)")
        before = page.ask(pictures)
        page.ask("ncp.setStep(4940)")
        assert all(now != then for now, then in zip(page.ask(pictures), before, strict=True))
    assert page.errors() == []


def test_the_models_body_is_shown_over_the_real_one_while_it_does_not_look(
    opener: Callable[..., Page], foreseen: Activity
) -> None:
    page = opener(foreseen)
    page.open()
    assert (page.ask("ncp.run()"), page.ask("ncp.step()")) == (1, 40)
    assert page.find("#parting").text == (
        "The bodies part at step 50, after 11 open-loop steps (0.55 s): the first error above 0.5 (dashed)."
    )
    assert page.find("#body-legend").is_displayed()
    orange = colour_of_the_model(page)

    def outlined(step: int) -> int:
        page.ask(f"ncp.setStep({step})")
        return page.count_of("body", orange)

    assert outlined(39) == 0
    assert outlined(45) > 20
    assert page.find("#error-now").text == "now 0.300, the model's body 0.300 m ahead"
    assert outlined(55) > 20
    assert outlined(70) == 0
    assert page.find("#error-now").text == "no prediction here"
    assert page.errors() == []


def colour_of_the_model(page: Page) -> list[int]:
    text = page.ask("getComputedStyle(document.documentElement).getPropertyValue('--model')").strip()
    return [int(text[k : k + 2], 16) for k in (1, 3, 5)]


def test_the_step_at_which_the_model_stops_looking_can_be_chosen_by_the_keyboard(
    opener: Callable[..., Page], foreseen: Activity
) -> None:
    left, right = "\ue012", "\ue014"
    page = opener(foreseen)
    page.open()
    page.browser.execute_script("document.getElementById('run').focus()")
    page.press(right)
    assert (page.ask("ncp.run()"), page.ask("ncp.step()")) == (2, 60)
    assert page.find("#run-label").text == "step 60"
    assert "part at step 70, " in page.find("#parting").text
    wait_until(lambda: page.ask("location.hash") == "#step=60&from=60", "the address of another start")
    page.press(left)
    page.press(left)
    assert (page.ask("ncp.run()"), page.ask("ncp.step()")) == (0, 10)
    page.open(address="#step=65&from=60")
    assert (page.ask("ncp.run()"), page.ask("ncp.step()")) == (2, 65)
    assert page.errors() == []


def test_without_a_body_the_observations_are_compared(opener: Callable[..., Page], activity: Activity) -> None:
    page = opener([make_recording(activity.wiring, 80), with_continuations(make_recording(activity.wiring, 80))])
    page.open()
    assert page.find("#parting").text.startswith("The observations part at step 50, ")
    assert not page.find("#body-panel").is_displayed()
    assert page.colours("errors") > 5
    assert "open loop from step 40 on" in page.find("#seeing-note").text
    page.ask("ncp.setMoment(0)")
    assert not page.find("#ahead-panel").is_displayed()
    assert page.find("#seeing-note").text == ""
    page.ask("ncp.setMoment(1)")
    assert page.find("#ahead-panel").is_displayed()
    assert page.errors() == []


def test_the_learning_curve_marks_the_episode_that_is_shown_and_a_click_shows_another(
    browser: Any, activity: Activity, tmp_path: Path
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    moments = [make_recording(activity.wiring, about={"note": {"steps": steps}}) for steps in (0, 500, 1000)]
    write_page(moments, tmp_path / "page.html", curve=[(0, -100.0, 5.0), (400, -50.0, 9.0), (800, float("nan"), 0.0)])
    page = Page(browser, tmp_path / "page.html")
    page.open()
    assert page.find("#curve-note").text == "at this episode \u221250.00 \u00b1 9.000"
    canvas = page.find("#curve")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    before = page.pixels("curve", [(52, 40), (52, 60)])
    ActionChains(browser).move_to_element_with_offset(canvas, -canvas.size["width"] // 2 + 60, 0).click().perform()
    assert page.ask("ncp.moment()") == 0
    assert page.find("#curve-note").text == "at this episode \u2212100.0 \u00b1 5.000"
    assert (page.pixels("curve", [(52, 40), (52, 60)]) != before).any(), "a line stands at its steps"
    write_page(moments, tmp_path / "page.html")
    page.open()
    assert not page.find("#curve-panel").is_displayed()
    assert page.errors() == []
