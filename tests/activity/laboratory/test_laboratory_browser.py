"""A laboratory in a browser: the circuit runs its body as in Python, and all that is done to it has the same effect."""

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.bench import untrained
from helpers.browser_page import Page, running_browser
from helpers.command_line import ROOT
from helpers.laboratories import NOVEL, exhibit_of, opened, rollout, write
from ncp_control.activity.page import write_page
from ncp_control.activity.recording.activity import Activity

pytestmark = pytest.mark.browser

SAME = 1e-5  # of states; the page computes in float64 and keeps float32


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from running_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("lab"))


@pytest.fixture
def lab(browser: Any, path: Path) -> Iterator[Page]:
    """The laboratory of the shipped circuit that sees positions; after the test, no error may have occurred in it."""
    page = opened(Page(browser, path))
    yield page
    assert page.errors() == []


def rows(page: Page, name: str, steps: int) -> np.ndarray:
    return np.array([page.ask(f"ncp.row({json.dumps(name)}, {step})") for step in range(steps)])


def ran(page: Page, line: str, steps: int) -> dict[str, np.ndarray]:
    """Runs a line for so many steps and returns what the page kept of them."""
    page.ask(f"ncp.runLine({json.dumps(line)})")
    assert page.ask(f"ncp.advance({steps - 1})") == steps - 1
    return {name: rows(page, name, steps) for name in ("observations", "neurons", "actions", "rewards")}


def press(page: Page, name: str) -> None:
    """Clicks the button of this name that can be seen."""
    found = page.browser.find_elements("xpath", f"//button[normalize-space()={name!r}]")
    button = next(one for one in found if one.is_displayed())
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def slide(page: Page, selector: str, value: float) -> None:
    page.browser.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))",
        selector,
        value,
    )


def status(page: Page) -> str:
    return page.find("#status").text


def test_it_is_one_file_of_less_than_5_megabytes_that_asks_for_nothing_else(browser: Any, path: Path) -> None:
    assert path.stat().st_size < 5e6
    page = opened(Page(browser, path))
    page.ask("ncp.play()")
    time.sleep(0.5)
    asked = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"].partition(":")[0])
    assert set(asked) <= {"file", "data", "about", "blob"}
    assert asked.count("file") == 1
    policy = page.find("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    assert "default-src 'none'" in policy
    assert "'unsafe-eval'" not in policy.replace("'wasm-unsafe-eval'", "")
    refused = browser.execute_script(
        "return new Promise((done) => {"
        "addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective));"
        "fetch('http://127.0.0.1:9/').catch(() => {}); })"
    )
    assert refused == "connect-src"


def test_it_runs_as_python_does(lab: Page) -> None:
    steps = 40
    found, wanted = ran(lab, "seed=7 0:random=0", steps), rollout(NOVEL, steps, seed=7)
    for name in ("observations", "neurons", "actions"):
        np.testing.assert_allclose(found[name][:20], wanted[name][:20], atol=1e-6, err_msg=name)
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-3, err_msg=name)
    np.testing.assert_allclose(found["rewards"][:20, 0], wanted["rewards"][:20], atol=1e-5)


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("0:silence=command3", {"hold": {"command3": 0.0}}),
        ("0:hold=inter4@0.5 0:silence=motor2", {"hold": {"inter4": 0.5, "motor2": 0.0}}),
        ("0:cut=inter3->command0", {"cut": ("inter3->command0",)}),
    ],
)
def test_silencing_holding_and_cutting_have_the_effects_that_they_have_in_python(
    lab: Page, line: str, how: dict[str, Any]
) -> None:
    found, wanted = ran(lab, f"seed=1 0:random=0 {line}", 20), rollout(NOVEL, 20, seed=1, **how)
    np.testing.assert_allclose(found["neurons"], wanted["neurons"], atol=SAME)
    untouched = rollout(NOVEL, 20, seed=1)
    assert np.abs(wanted["neurons"] - untouched["neurons"]).max() > 100 * SAME


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
    slide(lab, ".tools input[type=range]", 0.25)
    lab.ask("ncp.oneStep()")
    assert lab.ask("ncp.row('neurons')")[number] == 0.25
    press(lab, "Let go")
    before = lab.ask("ncp.row('constants')")[number]
    slide(lab, ".tools label:nth-of-type(2) input", 3)
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


def test_a_seed_gives_the_same_episode_again_and_another_seed_another_one(lab: Page) -> None:
    def first(seed: int) -> np.ndarray:
        lab.ask(f"ncp.restart({seed})")
        lab.ask("ncp.advance(60)")
        return rows(lab, "observations", 60)

    env = exhibit_of().env
    one = first(11)
    np.testing.assert_array_equal(one[0], np.float32(env.reset(seed=11)[0]))
    np.testing.assert_array_equal(first(11), one)
    assert np.abs(first(12)[0] - one[0]).max() > 1e-3
    env.close()


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
    def steps_in(seconds: float) -> int:
        before = lab.ask("ncp.next()")
        lab.ask("ncp.play()")
        time.sleep(seconds)
        lab.ask("ncp.pause()")
        return lab.ask("ncp.next()") - before

    lab.ask("ncp.restart(0)")
    assert 10 <= steps_in(1) <= 26
    select(lab, "#speed", "0.25")
    assert 2 <= steps_in(1) <= 8
    lab.ask("ncp.restart(0)")
    select(lab, "#speed", "fastest")
    assert steps_in(0.5) > 50
    lab.ask("ncp.restart(0)")
    lab.ask("ncp.advance(30)")
    before = lab.ask("ncp.next()")
    press(lab, "Step")
    assert lab.ask("ncp.next()") == before + 1
    lab.press("\ue012")  # the left arrow
    assert lab.ask("ncp.step()") == before - 1
    assert lab.ask("ncp.next()") == before + 1


def select(page: Page, selector: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(page.find(selector)).select_by_value(value)


def test_an_episode_ends_as_in_python_and_its_return_is_told(lab: Page) -> None:
    lab.ask("ncp.runLine('seed=0 0:random=0')")
    assert lab.ask("ncp.advance(5000)") == 999
    assert lab.ask("ncp.over()") == "time"
    press(lab, "Step")
    assert "the episode's time is over after 1000 steps, return" in status(lab)
    lab.ask("document.activeElement.blur()")
    lab.press(" ")  # plays the episode again
    assert lab.ask("ncp.playing()")
    assert lab.ask("ncp.next()") < 100


def test_a_circuit_whose_numbers_overflow_ends_its_episode_with_a_sentence(browser: Any, tmp_path: Path) -> None:
    agent = untrained(tmp_path, "wild", gym.make("Swimmer-v5"), cell="ctrnn", wiring=nc.AutoNCP(9, 2, seed=1))
    page = opened(Page(browser, write(tmp_path, agent)))
    changes = " ".join(f"20:tau={name}*0.001" for name in page.ask("ncp.names().neurons"))
    page.ask(f"ncp.runLine('seed=0 {changes}')")
    steps = page.ask("ncp.advance(900)") + 1
    assert 20 < steps < 900
    page.ask("ncp.oneStep()")
    assert f"not finite any more after {steps} steps" in status(page)
    page.ask("ncp.recording()")
    page.ask("ncp.runLine('seed=0')")
    assert page.ask("ncp.advance(900)") == 900
    assert page.errors() == []


@pytest.fixture(scope="module")
def two(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cascade = ROOT / "checkpoints" / "halfcheetah-novel-cascade.safetensors"
    return write(tmp_path_factory.mktemp("two"), exhibit_of(), exhibit_of(cascade))


def test_two_circuits_run_side_by_side_from_the_same_start(browser: Any, two: Path) -> None:
    page = opened(Page(browser, two))
    assert page.ask("ncp.sides()") == ["a", "b"]
    assert page.find("#body-b").is_displayed()
    assert page.colours("body-b") > 2, "the second body is drawn as soon as the page is open"
    page.ask("ncp.advance(50)")
    assert page.ask("ncp.row('observations', 0, 'a')") == page.ask("ncp.row('observations', 0, 'b')")
    assert page.ask("ncp.row('neurons', 5, 'a')") != page.ask("ncp.row('neurons', 5, 'b')")
    press(page, "B: halfcheetah-novel-cascade")
    assert page.ask("ncp.side()") == "b"
    page.click_on("command0")
    press(page, "Silence")
    assert page.ask("ncp.line()").endswith("51:b/silence=command0")
    page.ask("ncp.oneStep()")
    number = page.ask("ncp.names().neurons.indexOf('command0')")
    assert page.ask("ncp.row('neurons', null, 'b')")[number] == 0
    assert page.ask("ncp.row('neurons', null, 'a')")[number] != 0
    assert page.errors() == []


def test_an_intact_circuit_and_a_cut_one_run_beside_each_other(lab: Page) -> None:
    select(lab, "#beside", "0")
    assert lab.ask("ncp.sides()") == ["a", "b"]
    lab.ask("ncp.runLine('seed=0 0:random=0 0:b/silence=command0')")
    lab.ask("ncp.advance(19)")
    wanted = rollout(NOVEL, 20, hold={"command0": 0.0})["neurons"]
    found = np.array([lab.ask(f"ncp.row('neurons', {step}, 'b')") for step in range(20)])
    np.testing.assert_allclose(found, wanted, atol=SAME)
    intact = np.array([lab.ask(f"ncp.row('neurons', {step}, 'a')") for step in range(20)])
    np.testing.assert_allclose(intact, rollout(NOVEL, 20)["neurons"], atol=SAME)
    address = lab.ask("location.href")
    assert "beside=0" in address
    select(lab, "#beside", "")
    assert lab.ask("ncp.sides()") == ["a"]
    assert not lab.find("#body-b").is_displayed()


def test_a_link_opens_the_experiment(browser: Any, path: Path) -> None:
    page = opened(Page(browser, path))
    page.ask("ncp.runLine('seed=5 0:random=0 10:silence=command1 20:cut=inter0->command0')")
    line, address = page.ask("ncp.line()"), page.ask("location.hash")
    again = opened(Page(browser, path), address=address)
    assert again.ask("ncp.line()") == line
    page.ask("ncp.advance(25)")
    number = again.ask("ncp.names().neurons.indexOf('command1')")
    assert [again.ask(f"ncp.row('neurons', {step})")[number] == 0 for step in (9, 10)] == [False, True]
    beside = opened(Page(browser, path), address="#seed=5&0:b/silence=command1&beside=0")
    assert beside.ask("ncp.sides()") == ["a", "b"]


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


def test_the_run_becomes_a_recording_that_python_views(lab: Page, tmp_path: Path) -> None:
    lab.ask("ncp.runLine('seed=2 0:random=0 0:silence=command0')")
    lab.ask("ncp.advance(99)")
    file = tmp_path / "run.npz"
    file.write_bytes(base64.b64decode(lab.ask("ncp.recording()")))
    activity = Activity.load(file)
    assert activity.steps == 100
    assert activity.about["seeds"] == [2]
    assert "command0=0" in activity.about["silenced"]
    wanted = rollout(NOVEL, 20, seed=2, hold={"command0": 0.0})
    np.testing.assert_allclose(activity.neurons[:20], wanted["neurons"], atol=SAME)
    np.testing.assert_allclose(activity.extras["actions"][:20], wanted["actions"], atol=SAME)
    write_page(activity, tmp_path / "page.html")


def test_the_command_records_the_same_in_python(lab: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    from ncp_control.cli import main

    lab.ask("ncp.runLine('seed=6 0:random=0 0:silence=command0 0:cut=inter0->command1 0:hold=inter2@0.5')")
    lab.ask("ncp.advance(19)")
    said = lab.ask("ncp.command()")
    assert said["leftOut"] == []
    words = shlex.split(said["command"])
    words[words.index("--out") + 1] = str(tmp_path / "same.npz")
    assert main(words[1:]) == 0
    recorded = Activity.load(tmp_path / "same.npz")
    # Python computes in float32, whose rounding grows in a body with contacts.
    np.testing.assert_allclose(recorded.neurons[:10], rows(lab, "neurons", 10), atol=1e-3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1366])
def test_nothing_is_cut_off_on_a_phone_and_all_has_contrast(browser: Any, path: Path, width: int, scheme: str) -> None:
    page = opened(Page(browser, path), width=width, height=740, scheme=scheme)
    page.ask("ncp.select('command0')")
    page.ask("ncp.pick(3)")
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask("document.documentElement.dataset.theme") == scheme
    outside = page.ask(
        "[...document.querySelectorAll('button, input, select, textarea, canvas')].filter((e) => e.offsetParent)"
        f".filter((e) => e.getBoundingClientRect().right > {width} + 1 || e.getBoundingClientRect().left < -1)"
        ".map((e) => e.id || e.textContent)"
    )
    assert outside == []
    assert page.errors() == []


def test_everything_has_a_name_for_a_screen_reader(lab: Page) -> None:
    lab.ask("ncp.select('command0')")
    lab.ask("ncp.pick(3)")
    tree = lab.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    wanted = {"button", "slider", "combobox", "textbox", "spinbutton", "checkbox", "image"}
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if "role" in node]
    named = [(role, name) for role, name in roles if role in wanted]
    assert len(named) > 40
    assert [role for role, name in named if not name.strip()] == []


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
