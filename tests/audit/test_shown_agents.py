"""Certificates of real agents of every kind are printed, compared and drawn."""

from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("matplotlib")

from helpers.small_agents import KINDS, small_agent
from ncp_control.audit import audit
from ncp_control.audit.page import write_certificate
from ncp_control.audit.printed import as_markdown, as_text, side_by_side


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_of_every_kind_is_shown(kind: str, tmp_path: Path) -> None:
    agent = small_agent(kind, tmp_path)
    certificate = audit(agent, box=2.0, elapsed=(0.5, 2.0), attack=1000, progress=False)
    assert certificate.holds
    text = as_text(certificate)
    lines = text.splitlines()
    assert len(lines) <= 45
    has_memory = kind != "plain"
    assert ("no memory" in text) != has_memory
    assert ("\nlayer " in text) == has_memory
    assert ("\nchoice " in text) == (kind == "choices")
    assert ("\naction " in text) == (kind != "choices")
    for name in certificate.sensors:
        assert f"| {name} |" in as_markdown(certificate)
    assert f"1: {kind}" in side_by_side(certificate, certificate)
    write_certificate(certificate, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<circle class="neuron') == len(certificate.neurons)
    assert page.count("<path data-synapse=") == len(certificate.synapses)
