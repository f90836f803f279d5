"""`ncp-control describe` of plans, wirings and checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ncp_control as nc
from helpers.command_line import ROOT, described, printed, refused
from ncp_control.ops import BACKENDS
from ncp_control.wiring.plan_text import parse_plan


def test_describing_a_plan_does_not_load_torch() -> None:
    words = ["describe", "AutoNCP(12, 2)", "--inputs", "4"]
    seen = f"import sys; from ncp_control.cli import main; main({words}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, cwd=ROOT).returncode == 0


def test_describe_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    wiring = nc.AutoNCP(12, 2, seed=5).build(4)
    assert printed(capsys, "describe", "AutoNCP(12, 2, seed=5)", "--inputs", "4") == f"{wiring.summary()}\n"
    found = described(capsys, "AutoNCP(12, 2, seed=5)", "--inputs", "4")
    assert found["checkpoint"] is None
    assert found["wiring"] == {
        "inputs": 4,
        "units": 12,
        "outputs": 2,
        "layers": {name: part.stop - part.start for name, part in wiring.layers.items()},
        "sensory_synapses": len(wiring.sensory),
        "synapses": len(wiring.synapses),
        "gap_junctions": 0,
        "allowed_synapses": 4 * 6 + 6 * 4 + 4 * 4 + 4 * 2,
        "density": wiring.density,
    }


def test_plans_are_written_as_in_python() -> None:
    assert parse_plan("GapJunctions(AutoNCP(40,16), 4)") == nc.GapJunctions(nc.AutoNCP(40, 16), 4)
    assert parse_plan(" Random(8, 2, sparsity=.25) ") == nc.Random(8, 2, sparsity=0.25)
    assert parse_plan("FullyConnected(8)") == nc.FullyConnected(8)
    layers = parse_plan("NCP((6, 4), 3, 2, sensory_fanout=2, inter_fanout=2, recurrent_command=1, motor_fanin=2)")
    assert layers == nc.NCP((6, 4), 3, 2, sensory_fanout=2, inter_fanout=2, recurrent_command=1, motor_fanin=2)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AutoNCP(40, 16", "is not a plan"),
        ("AutoNCP(40)", "outputs"),
        ("AutoNCP(40, 16, colour=1)", "colour"),
        ("AutoNCP(4, 16)", "18 neurons"),
        ("AutoNCP(forty, 16)", "'forty' is neither a number"),
        ("AutoNCP(*[40, 16])", "neither a number"),
        ("AutoNCP(**{'units': 40})", "write every argument out"),
        ("AutoNCP(40, 16).build(8)", "the plans are AutoNCP"),
        ("Magic(40, 16)", "the plans are AutoNCP"),
        ("GapJunctions(open('x'), 4)", "the plans are AutoNCP"),
        ("(" * 5000, "is not a plan"),
    ],
)
def test_a_plan_that_cannot_be_built_is_refused(capsys: pytest.CaptureFixture[str], text: str, reason: str) -> None:
    assert reason in refused(capsys, "describe", text, "--inputs", "4")


def test_text_that_looks_like_a_plan_is_never_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    for text in (
        f"open({str(trap)!r}, 'w')",
        f"AutoNCP(open({str(trap)!r}, 'w'), 2)",
        f"AutoNCP(12, outputs=[open({str(trap)!r}, 'w')])",
    ):
        refused(capsys, "describe", text, "--inputs", "4")
    assert not trap.exists()


def test_a_plan_needs_its_inputs_and_a_file_does_not(capsys: pytest.CaptureFixture[str], checkpoint: Path) -> None:
    assert "--inputs 8" in refused(capsys, "describe", "AutoNCP(12, 2)")
    assert "--inputs is for plans" in refused(capsys, "describe", str(checkpoint), "--inputs", "4")


def test_describe_a_wiring_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wiring = nc.GapJunctions(nc.AutoNCP(12, 2), 3).build(4)
    path = tmp_path / "wiring.json"
    path.write_text(wiring.to_json(), encoding="utf-8")
    assert printed(capsys, "describe", str(path)) == f"{wiring.summary()}\n"
    assert described(capsys, str(path))["wiring"]["gap_junctions"] == 3


def test_files_that_cannot_be_described(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    for content, reason in ((b"{", "not JSON"), (b"{}", "not a wiring"), (b"\xff\xfe\x00", "not text")):
        path.write_bytes(content)
        line = refused(capsys, "describe", str(path))
        assert str(path) in line
        assert reason in line
    assert "No such file" in refused(capsys, "describe", str(tmp_path / "missing.json"))
    assert "there is no file" in refused(capsys, "describe", "missing")
    (tmp_path / "notes.txt").write_text("AutoNCP(12, 2)", encoding="utf-8")
    assert "cannot tell" in refused(capsys, "describe", str(tmp_path / "notes.txt"))
    assert str(tmp_path) in refused(capsys, "describe", str(tmp_path / "missing.safetensors"))
    (tmp_path / "bad.safetensors").write_bytes(b"not safetensors at all")
    assert "bad.safetensors" in refused(capsys, "describe", str(tmp_path / "bad.safetensors"))


def test_describe_a_checkpoint(capsys: pytest.CaptureFixture[str], checkpoint: Path) -> None:
    rnn = nc.load(checkpoint)
    found = described(capsys, str(checkpoint))
    assert found["wiring"]["units"] == 12
    told = found["checkpoint"]
    assert told["cell"] == "LTC"
    assert told["config"] == json.loads(json.dumps(rnn.cell.config()))
    assert told["parameters"] == sum(parameter.numel() for parameter in rnn.parameters())
    assert told["backend"]["asked"] == "auto"
    assert told["backend"]["runs"] in BACKENDS
    assert told["guarantee"] == rnn.cell.guarantee._asdict()
    assert told["written"] == {"by": f"ncp-control {nc.__version__}", "format": "1", "note": {"seed": 3}}
    low, high = rnn.cell.time_constant_bounds()
    assert told["time_constants"]["all"] == pytest.approx([low.min().item(), high.max().item()])
    motor = rnn.wiring.motor
    low, high = rnn.cell.state_bounds()
    assert told["states"]["motor"] == pytest.approx([low[motor].min().item(), high[motor].max().item()])
    assert list(told["states"]) == ["all", *rnn.wiring.layers]


def test_describe_a_checkpoint_in_words(capsys: pytest.CaptureFixture[str], checkpoint: Path) -> None:
    rnn = nc.load(checkpoint)
    text = printed(capsys, "describe", str(checkpoint))
    assert text.startswith(rnn.wiring.summary())
    for word in ("LTC", "bounds hold", "seed  ", f"ncp-control {nc.__version__}", "command", "time constants"):
        assert word in text


def test_a_bound_that_does_not_exist_is_null(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "lstm.safetensors"
    nc.save(nc.RNN(nc.LSTM(4, 6)), path)
    told = described(capsys, str(path))["checkpoint"]
    assert told["states"]["memory"] == [None, None]
    assert told["time_constants"]["all"] == [0.0, None]
    assert told["guarantee"]["holds"] is False
    assert "0 to unbounded" in printed(capsys, "describe", str(path))
