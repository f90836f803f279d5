"""What runs on a laboratory's bench: one circuit or two, their steps, their ends, and what is kept of them."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import ncp_control as nc
from helpers.bench import bench, last_word, number, picture, press, rows, run, slide, status, untrained
from helpers.browser_page import Page
from helpers.laboratories import write
from helpers.waiting import wait_until
from ncp_control.activity import Activity, record
from ncp_control.activity.laboratory import Exhibit
from ncp_envs import IrregularTime, RandomActionOverwrite

pytestmark = pytest.mark.browser


def irregular_swimmer() -> Any:
    env = RandomActionOverwrite(gym.make("Swimmer-v5"), 0.2)
    return IrregularTime(env, frames=(1, 3), observe_elapsed="apart")


@pytest.fixture(scope="module")
def swimmer(tmp_path_factory: pytest.TempPathFactory) -> Exhibit:
    """A liquid circuit that knows the elapsed time, and whose training had random actions."""
    folder, env = tmp_path_factory.mktemp("swimmer"), irregular_swimmer()
    return untrained(folder, "liquid", env, 0.2, cell="ltc", wiring=nc.AutoNCP(9, 2, seed=1))


@pytest.fixture(scope="module")
def swimmers(swimmer: Exhibit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beside it a circuit whose neurons can neither be held nor slowed."""
    folder = tmp_path_factory.mktemp("swimmers")
    gated = untrained(folder, "gated", gym.make("Swimmer-v5"), cell="mlp", wiring=6)
    return write(folder, swimmer, gated)


@pytest.fixture
def pool(browser: Any, swimmers: Path) -> Iterator[Page]:
    page = bench(browser, swimmers, "seed=5")
    yield page
    assert page.errors() == []


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pendulum")
    exhibit = untrained(folder, "pole", gym.make("InvertedPendulum-v5"), wiring=nc.AutoNCP(9, 1, seed=1))
    return write(folder, exhibit)


def test_the_first_observation_has_the_noise_that_an_experiment_begins_with(lab: Page) -> None:
    plain = rows(lab, "observations", 1)
    run(lab, "seed=0 0:random=0 0:noise=0.5")
    assert np.abs(rows(lab, "observations", 1) - plain).min() > 1e-3


def test_a_push_meets_both_bodies(lab: Page) -> None:
    lab.ask("ncp.putBeside(0)")
    run(lab, "seed=0 0:random=0 3:push=torso@400,0", 8)
    one, other = rows(lab, "speeds", 9, "a"), rows(lab, "speeds", 9, "b")
    np.testing.assert_array_equal(one, other)
    run(lab, "seed=0 0:random=0", 8)
    assert one[5, 0] > rows(lab, "speeds", 9)[5, 0] + 1


def test_strong_currents_are_those_of_the_last_steps(lab: Page) -> None:
    lab.ask("ncp.select('command0')")
    run(lab, "seed=0 0:random=0", 39)
    sizes = np.abs(np.concatenate([rows(lab, name, 40)[20:].ravel() for name in ("sensory", "synapses")]))
    strong = np.sort(sizes.astype(np.float32))[int(0.98 * (len(sizes) - 1))]
    drawn = lab.ask("[...document.querySelectorAll('.neuron li i')].map((bar) => parseFloat(bar.style.width))")
    told = lab.ask("[...document.querySelectorAll('.neuron li b')].map((one) => one.textContent)")
    currents = np.array([abs(number(text)) for text in told])
    np.testing.assert_allclose(drawn, np.maximum(1, 64 * np.minimum(1, currents / strong)), rtol=0.02)


def test_random_actions_are_shaded_until_the_next_episode(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 20)
    before = picture(lab, "doing")
    above = [(x, 1) for x in range(80, 260)]  # no line comes so high
    background = lab.pixels("doing", above)
    run(lab, "seed=0 0:random=1", 20)
    assert (lab.pixels("doing", above) != background).any(axis=1).sum() > 50
    run(lab, "seed=0 0:random=0", 20)
    assert picture(lab, "doing") == before


def test_between_two_steps_the_body_moves_smoothly(lab: Page) -> None:
    slide(lab, "#speed", 0.1)
    pictures: dict[int, set[int]] = {}
    with lab.own_clock() as frames:
        lab.ask("ncp.play()")
        for _ in range(12):
            frames(1, 100)  # a fifth of a step
            pictures.setdefault(lab.ask("ncp.next()"), set()).add(picture(lab, "body"))
        lab.ask("ncp.pause()")
    slide(lab, "#speed", 1)
    assert [len(found) for found in pictures.values()] == [4, 5, 3]


def test_the_speed_is_that_of_whole_steps_while_the_body_is_shown_between_two(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 60)  # it runs by now
    slide(lab, "#speed", 0.1)
    notes: dict[int, set[str]] = {}
    with lab.own_clock() as frames:
        lab.ask("ncp.play()")
        for _ in range(12):
            frames(1, 100)  # a fifth of a step
            notes.setdefault(lab.ask("ncp.next()"), set()).add(lab.find("#body-note").text)
        lab.ask("ncp.pause()")
    slide(lab, "#speed", 1)
    last = notes[max(notes)]
    assert len({note.partition(" · ")[0] for note in last}) > 1, "the place is that of the body in the picture"
    speeds = [{note.partition(" · ")[2] for note in shown} for shown in notes.values()]
    assert all(len(shown) == 1 for shown in speeds)
    assert speeds[-1] == {lab.find("#body-note").text.partition(" · ")[2]}


def test_what_is_kept_of_a_run_is_what_python_records(pool: Page, swimmer: Exhibit, tmp_path: Path) -> None:
    run(pool, "seed=5", 39)
    path = tmp_path / "page.npz"
    path.write_bytes(base64.b64decode(pool.ask("ncp.recording()")))
    found = Activity.load(path)
    env = irregular_swimmer()
    python = record(swimmer.agent, env, tmp_path / "python.npz", 40, seed=5)
    env.close()
    assert found.about["note"]["laboratory"] == "seed=5"
    np.testing.assert_array_equal(found.extras["elapsed"], python.extras["elapsed"])
    assert len(set(found.extras["elapsed"].tolist())) == 3
    np.testing.assert_array_equal(found.extras["is_random"], python.extras["is_random"])
    assert 0 < found.extras["is_random"].sum() < 40
    assert (np.abs(found.extras["executed_actions"] - found.extras["actions"]).max(axis=1) > 0)[
        found.extras["is_random"]
    ].all()
    for name in ("neurons", "sensory_currents", "currents", "time_constants", "outputs"):
        np.testing.assert_allclose(getattr(found, name), getattr(python, name), rtol=1e-3, atol=1e-4, err_msg=name)
    for name in ("actions", "executed_actions", "body_ends", "rewards"):
        np.testing.assert_allclose(found.extras[name], python.extras[name], rtol=1e-3, atol=1e-3, err_msg=name)


def test_the_share_of_random_actions_is_at_first_that_of_the_training(pool: Page) -> None:
    assert float(pool.find("#setting-random").get_property("value")) == pytest.approx(0.2)
    assert "changed" not in pool.ask("document.getElementById('setting-random').parentElement.className")
    slide(pool, "#setting-random", 0.5)
    press(pool, "As it was")
    assert float(pool.find("#setting-random").get_property("value")) == pytest.approx(0.2)


def test_a_body_that_is_seen_from_above_is_pushed_aside_and_stays_in_the_picture(pool: Page) -> None:
    press(pool, "↑")
    force = [float(part) for part in last_word(pool).partition("@")[2].split(",")]
    assert force[0] == force[2] == 0 < force[1]
    body = pool.ask("ncp.bodies()")[0]
    run(pool, " ".join(["seed=5", *(f"{step}:push={body}@0,2000,0" for step in range(0, 60, 4))]), 60)
    sideways = number(pool.find("#body-note").text.partition("y ")[2].split(" ")[0])
    assert abs(sideways) > 3
    # Its limbs are drawn, wherever it swims: the picture has more than the ground and the sky.
    colour = pool.ask("getComputedStyle(document.documentElement).getPropertyValue('--limb')")
    limb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
    middle = pool.ask("document.getElementById('body').width") / 2
    seen = pool.pixels("body", [(middle + x, y) for x in range(-120, 121, 4) for y in range(0, 170, 3)])
    assert (np.abs(seen - limb).max(axis=1) < 12).sum() > 5


def test_what_a_cell_cannot_do_is_said_in_place_of_its_tools_and_refused(pool: Page) -> None:
    pool.ask("ncp.putBeside(1)")
    pool.ask("(ncp.showSide('b'), ncp.select(0))")
    line = pool.ask("ncp.line()")
    reason = pool.find(".neuron .tools .note").text
    assert "none can be held" in reason
    pool.ask("ncp.add({ what: 'silence', on: 0 })")
    assert status(pool) == reason
    refusal = "(() => { try { ncp.runLine(%r); } catch (error) { return error.message; } })()"
    assert pool.ask(refusal % "seed=9 3:b/silence=motor0") == reason
    assert "time constants" in pool.ask(refusal % "seed=9 3:b/tau=motor0*2")
    assert pool.ask("ncp.line()") == line


def test_the_first_scale_of_a_second_circuit_is_that_of_its_own_numbers(pool: Page) -> None:
    run(pool, "seed=5 0:hold=motor0@0.9", 30)
    # After a new episode the least and the greatest values of the old one are forgotten.
    run(pool, "seed=5", 30)
    again = picture(pool, "raster"), picture(pool, "constants"), picture(pool, "returns")
    pool.browser.get("about:blank")
    pool.errors()
    fresh = bench(pool.browser, pool.path, "seed=5")
    run(fresh, "seed=5", 30)
    assert (picture(fresh, "raster"), picture(fresh, "constants"), picture(fresh, "returns")) == again


def test_each_circuit_goes_on_until_its_own_body_falls(browser: Any, pendulum: Path) -> None:
    page = bench(browser, pendulum, "seed=0")
    page.ask("ncp.putBeside(0)")
    run(page, "seed=0 0:b/silence=motor0")
    page.ask("ncp.advance(2000)")
    taken = [page.ask(f"ncp.steps('{side}')") for side in "ab"]
    assert taken[0] != taken[1]
    assert page.ask("[ncp.over('a'), ncp.over('b')]") == ["fell", "fell"]
    assert page.ask("ncp.next()") == max(taken)
    press(page, "Step")
    for side, steps in zip("AB", taken, strict=True):
        assert f"{side}: the body fell after {steps} steps, return " in status(page)
        told = number(page.find(f"#return-{side.lower()}").text.removeprefix("return "))
        assert told == pytest.approx(page.ask(f"ncp.return('{side.lower()}')"), rel=1e-3)
    assert page.errors() == []


def test_where_the_body_is_counts_what_moves_alone(browser: Any, pendulum: Path) -> None:
    page = bench(browser, pendulum, "seed=0 0:push=cart@300,0")
    page.ask("(ncp.advance(4), ncp.lookAt())")
    ends = rows(page, "ends", page.ask("ncp.next()")).reshape(-1, 3, 2, 2)  # of the rail, the cart and the pole
    assert (ends[0, 0] == ends[-1, 0]).all()
    moved = ends[-1, 1:, :, 0].mean()
    assert abs(moved) > 0.05
    assert number(page.find("#body-note").text.removeprefix("x ").split(" ")[0]) == pytest.approx(moved, abs=0.01)
    assert page.errors() == []


def test_the_circuit_beside_begins_with_the_same_seed_and_keeps_what_was_changed(lab: Page) -> None:
    run(lab, "seed=7 0:silence=command0 0:gravity=0.5")
    lab.ask("ncp.putBeside(1)")
    assert lab.ask("ncp.line()") == "seed=7 0:a/silence=command0 0:gravity=0.5"
    lab.ask("ncp.select('command1')")
    lab.ask("ncp.showSide('b')")
    assert lab.ask("ncp.selected()") == []
    assert lab.find("#seed").get_property("value") == "7"


def test_the_return_of_the_other_circuit_is_a_dashed_line(lab: Page) -> None:
    run(lab, "seed=0 0:random=0", 30)
    alone = picture(lab, "returns")
    lab.ask("ncp.putBeside(0)")
    run(lab, "seed=0 0:random=0", 30)
    assert picture(lab, "returns") != alone


def test_an_address_that_is_changed_by_hand_is_opened_and_a_broken_one_is_refused(lab: Page) -> None:
    lab.ask("void (location.hash = '#seed=9&0:random=0&0:silence=command1')")
    line = "seed=9 0:random=0 0:silence=command1"
    wait_until(lambda: lab.ask("ncp.line()") == line, "the experiment of another address")
    for address, words in (("#seed=9&0:silence=nobody", "no neuron nobody"), ("#beside=7", "no circuit 7")):
        lab.ask(f"void (location.hash = {address!r})")
        wait_until(lambda words=words: words in status(lab), words)
        assert lab.ask("ncp.sides()") == ["a"]
        assert lab.ask("ncp.line()") == "seed=0"
