"""The guided tour goes through its experiments with any circuit and body, and says what it measured."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.bench import number as number_of
from helpers.bench import untrained
from helpers.browser_page import Page
from helpers.laboratories import exhibit_of, opened, write

pytestmark = pytest.mark.browser

TITLES = 5


@pytest.fixture
def lab(browser: Any, cheetahs: Path) -> Iterator[Page]:
    page = opened(Page(browser, cheetahs), address="#seed=0")
    yield page
    assert page.errors() == []


def press(page: Page, words: str) -> None:
    buttons = page.browser.find_elements("css selector", "#tour-panel button")
    next(button for button in buttons if button.text == words).click()


def has(page: Page, words: str) -> bool:
    return words in [one.text for one in page.browser.find_elements("css selector", "#tour-panel button")]


def title(page: Page) -> str:
    return page.find("#tour-title").text


def results(page: Page) -> list[str]:
    return page.ask("[...document.querySelectorAll('#tour-panel li')].map((item) => item.innerText)")


def begin(page: Page, number: int = 0) -> None:
    """Opens the tour at a step, counted from 0."""
    page.find("#tour-start").click()
    for _ in range(number):
        press(page, "Next")


def test_every_experiment_of_the_tour_says_what_it_measured(lab: Page) -> None:
    begin(lab)
    for number in range(TITLES):
        assert title(lab).startswith(f"{number + 1} of {TITLES}: ")
        assert all(word not in lab.find("#tour-panel").text for word in ("undefined", "NaN", "null", "[object"))
        press(lab, "Show the result at once")
        line, said = lab.ask("ncp.line()"), results(lab)
        changes = [int(step) for step in re.findall(r" (\d+):", line)]
        parts = sorted(set(changes))
        assert len(said) == 1 + len(parts)
        assert line.endswith("as-it-was") == (number > 0)
        # What is said are means of the page's own rewards; the last part is measured when the body got going again.
        starts = [(parts or [250])[0] - 150, *parts]
        rewards = np.array(lab.ask("Array.from({ length: ncp.next() }, (_, step) => ncp.row('rewards', step)[0])"))
        for k, (start, words) in enumerate(zip(starts, said, strict=True)):
            last = number > 0 and k == len(parts)
            mean = rewards[start + (75 if last else 0) : start + 150].mean()
            # Three decimals are shown.
            assert number_of(re.findall(r"reward ([\u2212\d.]+)", words)[0]) == pytest.approx(mean, rel=1e-3, abs=6e-4)
        if number < TITLES - 1:
            press(lab, "Next")
    assert not has(lab, "Next")


def test_the_experiments_do_what_they_say(lab: Page) -> None:
    begin(lab, 1)
    text = lab.find("#tour-panel").text
    press(lab, "Show the result at once")
    neuron = re.findall(r":silence=(\S+)", lab.ask("ncp.line()"))[0]
    assert neuron.startswith("command")
    assert neuron in text
    assert neuron in lab.ask("ncp.selected()")
    start, end = (int(step) for step in re.findall(r" (\d+):", lab.ask("ncp.line()")))
    number = lab.ask("ncp.names().neurons").index(neuron)
    values = [lab.ask(f"ncp.row('neurons', {step})[{number}]") for step in (start - 1, start, end - 1, end)]
    assert values[1:3] == [0, 0]
    assert 0 not in (values[0], values[3])
    press(lab, "Next")
    press(lab, "Show the result at once")
    source, target = re.findall(r":cut=(\S+)->(\S+)", lab.ask("ncp.line()"))[0]
    assert lab.ask("ncp.picked()") == f"{source} → {target}"


def test_try_it_plays_the_experiment_to_its_end(lab: Page) -> None:
    begin(lab, 4)
    lab.browser.execute_script(
        "const menu = document.getElementById('speed'); menu.value = 8; menu.dispatchEvent(new Event('change'));"
    )
    with lab.own_clock() as frames:
        press(lab, "Try it")
        assert lab.ask("ncp.playing()")
        assert 200 < lab.ask("ncp.next()") < 260
        told = []
        while lab.ask("ncp.playing()"):
            frames(1, 50)
            told.append(results(lab))
    played = results(lab)
    assert any("now: the torso is pushed" in words for lines in told for words in lines)
    assert len(played) == 4
    assert not any("now:" in words for words in played)
    press(lab, "Show the result at once")
    assert results(lab) == played


def test_who_changes_something_is_told_that_the_experiment_is_another_one(lab: Page) -> None:
    begin(lab, 1)
    with lab.own_clock() as frames:
        press(lab, "Try it")
        frames(2, 50)
        lab.ask("ncp.change('friction', null, 0.5)")
        frames(20, 50)
        assert "You have changed the experiment" in lab.find("#tour-panel").text
        assert lab.ask("ncp.playing()")
        lab.ask("ncp.pause()")
    press(lab, "Show the result at once")
    assert "friction" not in lab.ask("ncp.line()")
    assert len(results(lab)) == 3


def test_the_end_of_the_tour_leaves_the_laboratory_as_one_found_it(lab: Page) -> None:
    def outlined() -> int:
        return lab.ask("[...document.querySelectorAll('section')].filter((one) => one.style.outline).length")

    lab.ask("ncp.putBeside(0)")
    lab.ask("ncp.runLine('seed=4 3:b/silence=command1')")
    begin(lab, 2)
    assert outlined() == 2
    press(lab, "Back")
    assert title(lab).startswith("2 of 5")
    assert outlined() == 2
    press(lab, "Show the result at once")
    press(lab, "End the tour")
    assert outlined() == 0
    assert not lab.find("#tour-panel").is_displayed()
    assert lab.ask("ncp.line()") == "seed=4 3:b/silence=command1"
    assert lab.ask("ncp.sides()") == ["a", "b"]
    begin(lab)
    assert title(lab).startswith("1 of 5")


def test_what_one_tries_on_the_way_is_still_there_at_the_end_of_the_tour(lab: Page) -> None:
    begin(lab, 1)
    press(lab, "Try it")
    lab.ask("ncp.pause()")
    lab.ask("ncp.change('friction', null, 0.5)")
    line = lab.ask("ncp.line()")
    press(lab, "End the tour")
    assert lab.ask("ncp.line()") == line
    assert "friction=0.5" in line


def test_beside_another_circuit_the_tour_shows_the_first_one(browser: Any, tmp_path: Path) -> None:
    page = opened(Page(browser, write(tmp_path, exhibit_of(name="first"), exhibit_of(name="second"))))
    assert page.ask("ncp.sides()") == ["a", "b"]
    begin(page, 1)
    assert page.ask("ncp.sides()") == ["a"]
    press(page, "Show the result at once")
    assert len(results(page)) == 3
    page.ask("ncp.putBeside(1)")
    press(page, "Show the result at once")
    assert page.ask("ncp.sides()") == ["a"]
    assert page.errors() == []


@pytest.mark.parametrize(
    ("env", "policy", "words"),
    [
        (
            "InvertedPendulum-v5",
            {"wiring": nc.AutoNCP(9, 1, seed=1)},
            ["then it fell", "twice its mass", "this body falls after"],
        ),
        pytest.param(
            "Swimmer-v5",
            {"cell": "cfc", "wiring": nc.AutoNCP(9, 2, seed=1)},
            ["twice its mass", "twice the mass:"],
            marks=pytest.mark.slow,
        ),
        ("Hopper-v5", {"cell": "mlp", "wiring": 6}, ["there is nothing to try"]),
        pytest.param(
            "Ant-v5",
            {"cell": "ctrnn", "wiring": nc.FullyConnected(9, 8)},
            ["a fifth of the friction"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_it_fits_every_body_and_circuit(
    browser: Any, tmp_path: Path, env: str, policy: dict[str, Any], words: list[str]
) -> None:
    page = opened(Page(browser, write(tmp_path, untrained(tmp_path, "agent", gym.make(env), **policy))))
    begin(page)
    seen = ""
    for number in range(TITLES):
        if has(page, "Show the result at once"):
            press(page, "Show the result at once")
            assert len(results(page)) >= 1
        seen += page.find("#tour-panel").text + json.dumps(page.find("#status").text)
        if number < TITLES - 1:
            press(page, "Next")
    assert [one for one in words if one not in seen] == []
    assert not re.search(r"undefined|NaN|null|\[object|Infinity", seen)
    assert page.errors() == []
