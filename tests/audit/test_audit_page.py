"""The page of a certificate: one file with every neuron and synapse, whatever their names are."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from helpers.certificates import SENSORS, certificate_of, feed_forward
from ncp_control.audit.certificate import Attack, Certificate
from ncp_control.audit.page import write, write_certificate
from ncp_control.audit.page.summary import summary
from ncp_control.base import sections
from ncp_control.wiring import AutoNCP, GapJunctions

pytest.importorskip("matplotlib")

HOSTILE = '</script><img src=x onerror="alert(1)">\u202e{{data}} & "quoted"'


class Reader(HTMLParser):
    """Collects the tags of a page with their attributes, and its text outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside not in ("script", "style"):
            self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """Returns the attributes of the tags of a kind whose attributes hold these words."""
        return [
            own
            for name, own in self.tags
            if name == tag and all(text in (own.get(key) or "").split() for key, text in wanted.items())
        ]


def page_of(certificate: Certificate, folder: Path) -> tuple[str, Reader]:
    write_certificate(certificate, folder / "page.html")
    text = (folder / "page.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    return text, reader


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_every_neuron_synapse_and_sensor_is_drawn(tmp_path: Path) -> None:
    certificate = certificate_of(GapJunctions(AutoNCP(20, 4, seed=1), 3).build(4))
    text, reader = page_of(certificate, tmp_path)
    neurons = reader.all("circle", **{"class": "neuron"})
    assert [one["aria-label"] for one in neurons] == [one.name for one in certificate.neurons]
    assert {one["data-synapse"] for one in reader.all("path")} == set(map(str, range(len(certificate.synapses))))
    assert len(reader.all("path", **{"class": "gap"})) == 3
    assert len(reader.all("circle", **{"class": "input"})) == len(SENSORS)
    assert [one["title"] for one in data_of(text)["inputs"]] == list(SENSORS)


def test_synapses_have_their_sign_and_are_as_thick_as_they_matter(tmp_path: Path) -> None:
    certificate = certificate_of()
    _, reader = page_of(certificate, tmp_path)
    drawn = {int(one["data-synapse"] or 0): one for one in reader.all("path")}
    kinds = {"+": "rises", "-": "falls", "?": "unknown"}
    for k, one in enumerate(certificate.synapses):
        words = (drawn[k]["class"] or "").split()
        assert kinds[one.sign] in words
        assert ("idle" in words) == (one.condition in ("dead", "closed"))
    order = sorted(range(len(drawn)), key=lambda k: certificate.synapses[k].matters or 0.0)
    widths = [float(drawn[k]["stroke-width"] or 0) for k in order]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_what_somebody_points_at_has_its_certified_facts(tmp_path: Path) -> None:
    text, _ = page_of(certificate_of(), tmp_path)
    found = data_of(text)
    facts = dict(found["neurons"][3]["facts"])
    assert facts["it forgets after"] == "30 steps"
    assert facts["it can move an action by"] == "3 %"
    assert facts["its time constant lies from"] == "1 to 2"
    assert "the attack reached" in facts
    assert dict(found["neurons"][0]["facts"])["it forgets after"] == "not proved"
    assert found["synapses"][0]["title"] == "cart velocity -> inter0"
    assert dict(found["inputs"][3]["facts"])["reaches"] == "no action"
    places = {one["key"]: one["places"] for one in found["colourings"]}
    assert places["forgets"][0] is None  # not proved
    assert (min(places["forgets"][1:]), max(places["forgets"][1:])) == (0, 1)


def test_a_colouring_that_is_known_of_no_neuron_is_not_offered(tmp_path: Path) -> None:
    text, _ = page_of(certificate_of(attacked=False), tmp_path)
    assert "used" not in {one["key"] for one in data_of(text)["colourings"]}
    text, _ = page_of(certificate_of(), tmp_path)
    assert "used" in {one["key"] for one in data_of(text)["colourings"]}


def test_all_tables_are_there_without_a_script(tmp_path: Path) -> None:
    certificate = certificate_of()
    _, reader = page_of(certificate, tmp_path)
    for name in (*SENSORS, *(one.name for one in certificate.neurons), "push", "turn"):
        assert name in reader.text
    assert certificate.notes[0] in reader.text
    assert "3 standard deviations around the mean of the training" in reader.text
    assert len(reader.all("table")) == 5


def test_what_holds_and_what_could_not_be_proved_come_first_and_long_tables_last_and_folded(tmp_path: Path) -> None:
    certificate = certificate_of(AutoNCP(48, 2, seed=1).build(3))
    text, reader = page_of(certificate, tmp_path)
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert titles[:5] == ["In short", "What is certified", "Circuit", "Actions", "Memory"]
    assert titles[-1] == "Synapses"
    in_short = text[text.index('id="in-short"') : text.index('id="what-is-certified"')]
    for word in ("actions", "memory", "not proved", "that the agent acts well"):
        assert word in in_short
    assert text.count("<details>") == 2  # neurons and synapses
    unfolded = re.sub(r"<details>.*?</details>", "", text)
    assert all(table.count("<tr>") <= sections.MANY + 1 for table in re.findall(r"<table>.*?</table>", unfolded))
    for neuron in certificate.neurons:
        assert neuron.name in reader.text


def test_the_summary_names_no_bound_that_says_nothing() -> None:
    certificate = certificate_of()
    unbounded = tuple(replace(one, moved_in_step=None, moved_in_episode=None) for one in certificate.actions)
    rows = dict(summary(replace(certificate, actions=unbounded, forgetting=None)).rows)
    assert "errors" not in rows
    assert "errors in one step cannot move 2 of 2 actions" in rows["not proved"]
    assert "current observation alone" in rows["memory"]
    small = tuple(replace(one, moved_in_step=0.01) for one in certificate.actions)
    rows = dict(summary(replace(certificate, actions=small)).rows)
    assert "move no action by more than 0.01 in one step" in rows["errors"]
    assert "in one step" not in rows["not proved"]


@pytest.mark.parametrize(
    ("attack", "verdict"),
    [
        (None, "not attacked"),
        (Attack(10_000, (), 1.5, 3.0), "an attack of 10,000 observations broke no claim"),
        (Attack(500, ("the state of inter0 left its range",), 1.5, 3.0), "An attack of 500 observations broke 1 claim"),
    ],
)
def test_the_page_begins_with_whether_the_claims_held(attack: Attack | None, verdict: str, tmp_path: Path) -> None:
    _, reader = page_of(certificate_of(attack=attack), tmp_path)
    assert verdict in reader.text
    assert bool(reader.all("div", role="alert")) == (attack is not None and bool(attack.violations))


def test_names_from_files_are_only_text(tmp_path: Path) -> None:
    whole = certificate_of(sensors=(HOSTILE, *SENSORS[1:]), actions=(HOSTILE, "turn"))
    first = whole.neurons[0].name
    swap = {first: f"neuron {HOSTILE}"}
    synapses = tuple(
        replace(one, source=swap.get(one.source, one.source), target=swap.get(one.target, one.target))
        for one in whole.synapses
    )
    neurons = tuple(replace(one, name=swap.get(one.name, one.name)) for one in whole.neurons)
    hostile = replace(
        whole, agent=HOSTILE, cell=HOSTILE, box=HOSTILE, notes=(HOSTILE,), neurons=neurons, synapses=synapses,
        attack=Attack(5, (HOSTILE,), None, 0.1),
    )  # fmt: skip
    text, reader = page_of(hostile, tmp_path)
    plain = page_of(certificate_of(attack=Attack(5, ("broken",), None, 0.1)), tmp_path)[1]
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in plain.tags]
    assert "\u202e" not in text
    assert data_of(text)["neurons"][0]["title"].startswith("neuron </script><img")
    assert "\u202e" not in json.dumps(data_of(text), ensure_ascii=False)


def test_nothing_is_fetched(tmp_path: Path) -> None:
    text, reader = page_of(certificate_of(), tmp_path)
    assert re.findall(r"https?://\S+|@import|url\(|\bfetch\(|XMLHttpRequest", text) == []
    assert [
        own for _, own in reader.tags if own.get("src") or not (own.get("href") or "data:").startswith("data:")
    ] == []
    (policy,) = [own["content"] for _, own in reader.tags if own.get("http-equiv") == "Content-Security-Policy"]
    assert (policy or "").startswith("default-src 'none'")


def test_an_agent_without_a_memory_has_tables_and_no_circuit(tmp_path: Path) -> None:
    _, reader = page_of(feed_forward(), tmp_path)
    assert "there is no circuit to draw" in reader.text
    assert reader.all("svg") == []
    assert "push" in reader.text


def test_of_too_many_synapses_those_are_shown_that_matter_most_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "MOST_SYNAPSES", 20)
    certificate = certificate_of()
    text, reader = page_of(certificate, tmp_path)
    shares = sorted(one.matters or 0.0 for one in certificate.synapses)
    drawn = data_of(text)["synapses"]
    assert len(drawn) == len(reader.all("path")) == 20
    assert min(float(one["share"].removesuffix(" %")) for one in drawn) >= 100 * shares[12] * (1 - 1e-9)
    assert "12 synapses that matter less are not drawn and not listed" in reader.text
    assert "14 of 32 are active" in reader.text
    assert "that matter less" not in page_of(feed_forward(), tmp_path)[1].text


def test_a_half_cheetahs_page_is_small(tmp_path: Path) -> None:
    certificate = certificate_of(AutoNCP(48, 16, seed=1).build(17), tuple(f"sensor {k}" for k in range(17)))
    write_certificate(certificate, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_000_000
