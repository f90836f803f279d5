"""The page draws NumPy's random numbers, bit for bit."""

from typing import Any

import numpy as np
import pytest

from helpers.browser_page import Page
from helpers.laboratory_scripts import open_scripts
from ncp_control.activity.laboratory.world import normal_widths
from ncp_control.base.pages import packed

pytestmark = pytest.mark.browser

# Seeds of one, two, four and more than four words of 32 bits.
SEEDS = [0, 1, 17, 2**31, 2**32 - 1, 2**32, 2**53 - 1, 3**60, 7**80]
KEYS: list[tuple[int, ...]] = [(), (0,), (0x6E637001, 0), (0x6E637004, 3), (2**40, 5)]


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    scripts, names = ["numbers.js", "numpy_random.js"], ["NumpyRandom", "Ziggurat", "unpacked"]
    return open_scripts(browser, tmp_path_factory.mktemp("random"), scripts, names, {"widths": packed(normal_widths())})


def drawn(page: Page, seed: int, key: tuple[int, ...], draw: str, count: int) -> np.ndarray:
    """Returns numbers of the page, of a fresh stream."""
    text = page.ask(
        f"""(() => {{
          const stream = new lab.NumpyRandom(new lab.Ziggurat(lab.unpacked(data.widths)));
          stream.restart({seed}n, {list(key)});
          const found = new Float64Array({count});
          for (let k = 0; k < {count}; k++) found[k] = {draw};
          let text = "";
          new Uint8Array(found.buffer).forEach((byte) => {{ text += byte.toString(16).padStart(2, "0"); }});
          return text;
        }})()"""
    )
    return np.frombuffer(bytes.fromhex(text), "<f8")


def generator(seed: int, key: tuple[int, ...] = ()) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


@pytest.mark.parametrize("key", KEYS)
def test_a_stream_begins_as_numpys_for_any_seed_and_key(page: Page, key: tuple[int, ...]) -> None:
    for seed in SEEDS:
        assert (drawn(page, seed, key, "stream.random()", 5) == generator(seed, key).random(5)).all(), seed


def test_a_hundred_thousand_uniform_and_normal_numbers_are_numpys(page: Page) -> None:
    count = 100_000
    expected = generator(17).uniform(-0.1, 0.1, count)
    assert (drawn(page, 17, (), "stream.uniform(-0.1, 0.1)", count) == expected).all()
    for seed in (3, 4):
        expected = generator(seed).standard_normal(count)
        assert (np.abs(expected) > 3.6541528853610088).sum() > 10  # some lie beyond the ziggurat
        assert (drawn(page, seed, (), "stream.normal()", count) == expected).all()


@pytest.mark.parametrize("count", [1, 2, 3, 6, 1000, 2**31 + 1, 2**32, 2**33 + 5, 2**62 + 3, 2**63])
def test_whole_numbers_are_numpys_also_between_other_draws(page: Page, count: int) -> None:
    own = generator(5)
    expected = [float(own.integers(count)) if k % 3 else own.random() for k in range(300)]
    found = drawn(page, 5, (), f"k % 3 ? Number(stream.integers({count}n)) : stream.random()", 300)
    assert (found == np.array(expected)).all()


def test_two_streams_without_a_seed_differ(page: Page) -> None:
    assert page.ask("new lab.NumpyRandom().random() !== new lab.NumpyRandom().random()")
