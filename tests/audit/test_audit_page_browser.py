"""The page of a certificate in a browser: its menu, its tables and what somebody points at."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.browser_page import Page, running_browser
from helpers.certificates import certificate_of, feed_forward
from ncp_control.audit.page import write_certificate

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from running_browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Page]:
    """The page of a certificate, open in the browser. After the test, no error may have occurred in it."""
    found = opened(browser, tmp_path, certificate_of())
    yield found
    assert found.errors() == []


def opened(browser: Any, folder: Path, certificate: Any, **how: Any) -> Page:
    write_certificate(certificate, folder / "page.html")
    found = Page(browser, folder / "page.html")
    found.open(**how)
    return found


def fill(page: Page, neuron: int) -> str:
    return str(page.ask(f"""getComputedStyle(document.querySelector('[data-neuron="{neuron}"]')).fill"""))


def choose(page: Page, name: str) -> None:
    page.ask(
        f"""(() => {{ const menu = document.getElementById("colouring");
        menu.selectedIndex = [...menu.options].findIndex((one) => one.textContent === "{name}");
        menu.dispatchEvent(new Event("change")); }})()"""
    )


def column(page: Page, section: str, number: int) -> list[str]:
    cells = f"#{section} tbody tr > *:nth-child({number + 1})"
    return [str(text) for text in page.ask(f"""[...document.querySelectorAll("{cells}")].map((c) => c.textContent)""")]


def test_the_menu_changes_what_colours_show(page: Page) -> None:
    before = [fill(page, k) for k in range(12)]
    assert len(set(before)) > 6
    assert page.find("#scale-high").text == "11 %"
    choose(page, "steps until it forgets")
    after = [fill(page, k) for k in range(12)]
    assert before != after
    missing = page.ask("getComputedStyle(document.documentElement).getPropertyValue('--missing')")
    assert missing == "#b9bec5"
    assert after[0] == "rgb(185, 190, 197)"  # not proved, and so not the colour of any number
    assert (page.find("#scale-low").text, page.find("#scale-high").text) == ("10", "110")


def test_pointing_at_a_neuron_shows_its_facts_and_a_click_keeps_them(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    neuron = page.find('[data-neuron="3"]')
    ActionChains(page.browser).move_to_element(neuron).perform()
    assert page.find("#chosen-title").text == "inter3"
    assert "30 steps" in page.find("#chosen-facts").text
    neuron.click()
    ActionChains(page.browser).move_to_element(page.find("h1")).perform()
    assert page.find("#chosen-title").text == "inter3"
    lists = page.find("#chosen-lists").text
    assert "what reaches it" in lists
    assert "what it reaches" in lists
    near = page.ask("document.querySelectorAll('.synapse.near').length")
    assert near == sum("inter3" in (one.source, one.target) for one in certificate_of().synapses)
    neuron.click()
    ActionChains(page.browser).move_to_element(page.find("h1")).perform()
    assert page.find("#chosen-title").text.startswith("Point at a neuron")


def test_a_neuron_is_reached_with_the_keyboard(page: Page) -> None:
    page.ask("""document.querySelector('[data-neuron="5"]').focus()""")
    assert page.find("#chosen-title").text == "inter5"
    page.press("\ue007")
    page.ask("document.activeElement.blur()")
    assert page.find("#chosen-title").text == "inter5"


def test_a_table_is_sorted_by_its_numbers_and_what_is_not_proved_comes_last(page: Page) -> None:
    heads = page.browser.find_elements("css selector", "#neurons thead button")
    forgets = [head.text for head in heads].index("forgets after")
    heads[forgets].click()
    assert column(page, "neurons", forgets) == [*(f"{10 * k} steps" for k in range(1, 12)), "not proved"]
    heads[forgets].click()
    assert column(page, "neurons", forgets) == [*(f"{10 * k} steps" for k in range(11, 0, -1)), "not proved"]
    assert page.ask("document.querySelector('#neurons [aria-sort]').getAttribute('aria-sort')") == "descending"
    constant = [head.text for head in heads].index("time constant")
    heads[constant].click()
    assert column(page, "neurons", constant)[0] == "0.25 to 0.5"  # the narrowest range


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_no_wider_than_the_screen(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    page = opened(browser, tmp_path, certificate_of(), width=width, height=900, scheme=scheme)
    assert page.ask("document.documentElement.scrollWidth") <= width
    ground = page.ask("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(244, 245, 246)" if scheme == "light" else "rgb(18, 21, 24)")
    assert page.errors() == []


def test_pages_without_a_circuit_and_with_hostile_names_work(browser: Any, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, feed_forward())
    assert page.errors() == []
    hostile = '<img src=x onerror="document.title=1">'
    whole = certificate_of(sensors=(hostile, "a", "b", "c"))
    page = opened(browser, tmp_path, replace(whole, agent=hostile))
    page.ask("document.querySelector('[data-input=\"0\"]').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    assert page.find("#chosen-title").text == hostile
    assert page.ask("document.images.length") == 0
    assert page.errors() == []
