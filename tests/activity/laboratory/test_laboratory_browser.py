"""A laboratory in a browser: the circuit runs its body as in Python, and all that is done to it has the same effect."""

import base64
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.bench import bench, press, rows, slide, status, untrained
from helpers.browser_page import Page
from helpers.laboratories import NOVEL, exhibit_of, opened, rollout, write
from ncp_control.activity.page import write_page
from ncp_control.activity.recording.activity import Activity

pytestmark = pytest.mark.browser

SAME = 1e-5  # of states; the page computes in float64 and keeps float32


def ran(page: Page, line: str, steps: int) -> dict[str, np.ndarray]:
    """Runs a line for so many steps and returns what the page kept of them."""
    page.ask(f"ncp.runLine({json.dumps(line)})")
    assert page.ask(f"ncp.advance({steps - 1})") == steps - 1
    return {name: rows(page, name, steps) for name in ("observations", "neurons", "actions", "rewards")}


def test_it_is_one_file_of_less_than_5_megabytes_that_asks_for_nothing_else(browser: Any, tmp_path: Path) -> None:
    path = write(tmp_path)
    assert path.stat().st_size < 5e6
    page = opened(Page(browser, path))
    with page.own_clock() as frames:
        page.ask("ncp.play()")
        frames(10, 50)
        page.ask("ncp.pause()")
    assert page.ask("ncp.next()") == 11
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


def test_an_episode_ends_as_in_python_and_its_return_is_told(lab: Page) -> None:
    lab.ask("ncp.runLine('seed=0 0:random=0')")
    assert lab.ask("ncp.advance(5000)") == 999
    assert lab.ask("ncp.over()") == "time"
    press(lab, "Step")
    assert "the episode's time is over after 1000 steps, return" in status(lab)
    lab.ask("document.activeElement.blur()")
    with lab.own_clock() as frames:
        lab.press(" ")  # plays the episode again
        assert lab.ask("ncp.playing()")
        frames(4, 50)
        assert lab.ask("ncp.next()") == 5
        lab.ask("ncp.pause()")


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


def test_two_circuits_run_side_by_side_from_the_same_start(browser: Any, cheetahs: Path) -> None:
    page = opened(Page(browser, cheetahs))
    assert page.ask("ncp.sides()") == ["a", "b"]
    assert page.find("#body-b").is_displayed()
    assert page.colours("body-b") > 2, "the second body is drawn as soon as the page is open"
    page.ask("ncp.advance(50)")
    assert page.ask("ncp.row('observations', 0, 'a')") == page.ask("ncp.row('observations', 0, 'b')")
    assert page.ask("ncp.row('neurons', 5, 'a')") != page.ask("ncp.row('neurons', 5, 'b')")
    press(page, "B: halfcheetah-positions-acyclic")
    assert page.ask("ncp.side()") == "b"
    page.click_on("command0")
    press(page, "Silence")
    assert page.ask("ncp.line()").endswith("51:b/silence=command0")
    page.ask("ncp.oneStep()")
    number = page.ask("ncp.names().neurons.indexOf('command0')")
    assert page.ask("ncp.row('neurons', null, 'b')")[number] == 0
    assert page.ask("ncp.row('neurons', null, 'a')")[20] != 0, "the other circuit's command0"
    assert page.errors() == []


def test_an_intact_circuit_and_a_cut_one_run_beside_each_other(lab: Page) -> None:
    slide(lab, "#beside", "0")
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
    slide(lab, "#beside", "")
    assert lab.ask("ncp.sides()") == ["a"]
    assert not lab.find("#body-b").is_displayed()


def test_a_link_opens_the_experiment(browser: Any, cheetahs: Path) -> None:
    page = bench(browser, cheetahs)
    page.ask("ncp.runLine('seed=5 0:random=0 10:silence=command1 20:cut=inter0->command0')")
    line, address = page.ask("ncp.line()"), page.ask("location.hash")
    again = opened(Page(browser, cheetahs), address=address)
    assert again.ask("ncp.line()") == line
    page.ask("ncp.advance(25)")
    number = again.ask("ncp.names().neurons.indexOf('command1')")
    assert [again.ask(f"ncp.row('neurons', {step})")[number] == 0 for step in (9, 10)] == [False, True]
    beside = opened(Page(browser, cheetahs), address="#seed=5&0:b/silence=command1&beside=0")
    assert beside.ask("ncp.sides()") == ["a", "b"]


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
def test_nothing_is_cut_off_on_a_phone_or_in_the_dark(browser: Any, cheetahs: Path, width: int, scheme: str) -> None:
    page = opened(Page(browser, cheetahs), address="#seed=0", width=width, height=740, scheme=scheme)
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
    browser.get("about:blank")  # the next test opens a page of the usual size


def test_everything_has_a_name_for_a_screen_reader(lab: Page) -> None:
    lab.ask("ncp.select('command0')")
    lab.ask("ncp.pick(3)")
    tree = lab.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    wanted = {"button", "slider", "combobox", "textbox", "spinbutton", "checkbox", "image"}
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if "role" in node]
    named = [(role, name) for role, name in roles if role in wanted]
    assert len(named) > 40
    assert [role for role, name in named if not name.strip()] == []
