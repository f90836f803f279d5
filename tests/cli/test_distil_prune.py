"""`ncp-control distil --prune` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import described, refused
from ncp_control.cli import main

WORDS = [
    "distil", "braking:brake", "--env", "ncp/PendulumNoVel-v0", "--out", "run", "--cell", "cfc", "--steps", "1600",
    "--iterations", "1", "--demonstrations", "0.5", "--batches", "3", "--batch", "4", "--length", "16", "--envs", "2",
    "--eval-episodes", "2",
]  # fmt: skip
SMALL = [*WORDS, "--wiring", "AutoNCP(12, 4)", "--prune", "--prune-rounds", "2"]


@pytest.mark.system
def test_sizes_are_printed_and_written_and_the_smallest_good_one_acts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(SMALL) == 0
    out = capsys.readouterr().out
    table = (folder / "run" / "pruned" / "table.csv").read_text().splitlines()
    sizes = [line.split(",")[1] for line in table[1:]]
    assert len(sizes) == 3
    lines = out.splitlines()
    head = next(k for k, line in enumerate(lines) if line.split()[:2] == ["synapses", "neurons"])
    assert [line.split()[0] for line in lines[head + 1 : head + 4]] == sizes
    assert "90%" in out
    assert "written to run/pruned" in out
    path = out.split("ncp-control evaluate ")[1].strip()
    assert main(["evaluate", path, "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == "ncp/PendulumNoVel-v0"
    circuit = described(capsys, f"run/pruned/{int(sizes[-1]):03d}-synapses.safetensors")["policy"]
    assert circuit["note"]["pruned_from"] == int(sizes[0])


@pytest.mark.slow
def test_json_has_a_row_for_each_size_also_of_a_run_that_is_resumed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert len(found["pruned"]) == 3
    assert found["smallest"] in found["pruned"]
    assert {"neurons", "synapses", "mean_return", "std_return", "min_return", "share", "kept"} <= found[
        "smallest"
    ].keys()
    assert main([*SMALL, "--json", "--resume"]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["pruned"] == found["pruned"]


def test_a_dense_cell_is_refused_in_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lstm" if word == "cfc" else word for word in WORDS]
    line = refused(capsys, *words, "--wiring", "6", "--prune")
    assert "LSTM is always fully connected" in line
    assert not (folder / "run").exists()
