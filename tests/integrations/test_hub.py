"""The Hugging Face Hub, against the real package: `python scripts/clients.py hub`.

What the library sends goes to a transport of its own HTTP client, which answers here as the Hub would.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ncp_control as nc
from helpers.docs_pages import ROOT

pytestmark = pytest.mark.clients
hub_library = pytest.importorskip("huggingface_hub")

AGENT = ROOT / "checkpoints" / "halfcheetah-positions.safetensors"


class Hub:
    """Answers the requests of a push, and keeps what was pushed."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.files: dict[str, bytes] = {}

    def answer(self, request: Any) -> Any:
        import httpx2

        path = request.url.path
        self.asked.append(f"{request.method} {path}")
        if path == "/api/repos/create":
            return httpx2.Response(200, json={"url": "https://huggingface.co/user/cheetah", "id": "user/cheetah"})
        if "/preupload/" in path:
            files = json.loads(request.content)["files"]
            modes = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]
            return httpx2.Response(200, json={"files": modes})
        if "/commit/" in path:
            for line in map(json.loads, request.content.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            address = "https://huggingface.co/user/cheetah/commit/" + "a" * 40
            return httpx2.Response(200, json={"commitUrl": address, "commitOid": "a" * 40})
        if path == "/api/validate-yaml":
            return httpx2.Response(200, json={"errors": [], "warnings": []})
        return httpx2.Response(404, json={"error": f"not answered here: {path}"})


@pytest.fixture
def answering() -> Iterator[Hub]:
    import httpx2

    there = Hub()
    hub_library.set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(there.answer)))
    yield there
    hub_library.utils.close_session()


def test_a_folder_gives_back_the_agent_and_its_card_has_the_result(tmp_path: Path) -> None:
    from ncp_control.integrations.hub import from_pretrained, save_pretrained

    folder = save_pretrained(AGENT, tmp_path / "made", "It runs.", license="apache-2.0")
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", AGENT.name]
    assert from_pretrained(folder).sha256 == nc.load(AGENT).sha256
    card = hub_library.ModelCard.load(folder / "README.md")
    assert (card.data.library_name, card.data.license) == ("ncp_control", "apache-2.0")
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.metric_value) == ("ncp/HalfCheetahNoVel-v0", "8144.63 +/- 998.43")
    assert "It runs." in card.text
    assert "8144.63 +/- 998.43, with 5 % of the actions at random" in card.text
    assert list(tmp_path.iterdir()) == [folder]


def test_a_network_has_a_card_too(tmp_path: Path) -> None:
    from ncp_control.integrations.hub import from_pretrained, save_pretrained

    rnn = nc.RNN(nc.LTC(3, nc.AutoNCP(12, 2)))
    nc.save(rnn, tmp_path / "small.safetensors")
    again = from_pretrained(save_pretrained(tmp_path / "small.safetensors", tmp_path / "made"))
    inputs = torch.randn(2, 5, 3)
    assert torch.equal(again(inputs)[0], rnn(inputs)[0])


def test_a_push_sends_the_file_and_the_card_and_nothing_else(tmp_path: Path, answering: Hub) -> None:
    from ncp_control.integrations.hub import push_to_hub, save_pretrained

    folder = save_pretrained(AGENT, tmp_path / "made")
    (folder / "private.txt").write_text("not for others")
    assert push_to_hub(folder, "user/cheetah", token="hf_none") == "https://huggingface.co/user/cheetah"
    assert set(answering.files) == {AGENT.name, "README.md"}
    assert answering.files[AGENT.name] == AGENT.read_bytes()
    assert answering.files["README.md"] == (folder / "README.md").read_bytes()
    with pytest.raises(ValueError, match="has its card already"):
        push_to_hub(folder, "user/cheetah", token="hf_none", description="another")


def test_a_folder_that_exists_and_what_is_no_file_of_ours_are_refused(tmp_path: Path) -> None:
    from ncp_control.integrations.hub import from_pretrained, save_pretrained

    with pytest.raises(FileExistsError, match="exists: name a new folder"):
        save_pretrained(AGENT, tmp_path)
    (tmp_path / "foreign.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="foreign"):
        save_pretrained(tmp_path / "foreign.safetensors", tmp_path / "made")
    assert not (tmp_path / "made").exists()
    (tmp_path / "second.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"several files: choose one with file=, from foreign\.safetensors, second"):
        from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no file third"):
        from_pretrained(tmp_path, "third.safetensors")
