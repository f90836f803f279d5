"""The command line, as a person meets it: what it prints, where, and with which exit code."""

import json
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ncp_control as nc
from ncp_control import cli
from ncp_control.cli import main
from ncp_control.cli.arguments import help_text, options_of
from ncp_control.cli.packages import PACKAGES, package_of
from ncp_control.ops import BACKENDS
from ncp_control.wiring.plan_text import parse_plan

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A real `ncp-control`, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ncp_control.cli", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=120,
    )


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line on stderr of a command that must be refused with exit code 2."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must succeed prints."""
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def described(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(printed(capsys, "describe", *words, "--json"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints") / "small.safetensors"
    nc.save(nc.RNN(nc.LTC(4, nc.AutoNCP(12, 2))), path, note={"seed": 3})
    return path


# The front door


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "--help") == printed(capsys, "-h")
    text = printed(capsys, "--help")
    assert all(f"  {name} " in text and does in text for name, does in cli.COMMANDS.items())


def test_every_command_explains_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        with pytest.raises(SystemExit) as leaving:
            main([name, "--help"])
        assert leaving.value.code == 0
        assert f"ncp-control {name}" in capsys.readouterr().out


def test_help_needs_no_numerical_library() -> None:
    seen = "import sys; from ncp_control.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "usage: ncp-control" in result.stdout
    loaded = set(result.stderr.split())
    assert "ncp_control.cli" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "scipy", "gymnasium", "tyro", "rich"})


def test_no_help_page_needs_torch() -> None:
    code = f"""
import contextlib, sys
from ncp_control.cli import main
for name in {list(cli.COMMANDS)}:
    with contextlib.suppress(SystemExit):
        main([name, "--help"])
    if "torch" in sys.modules:
        sys.exit(name)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stderr) == (0, "")


def test_describing_a_plan_does_not_load_torch() -> None:
    words = ["describe", "AutoNCP(12, 2)", "--inputs", "4"]
    seen = f"import sys; from ncp_control.cli import main; main({words}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], capture_output=True, cwd=ROOT).returncode == 0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == f"ncp-control {nc.__version__}\n"


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("docter", "did you mean doctor?"),
        ("desc", "did you mean describe?"),
        ("zzz", f"the commands are {', '.join(cli.COMMANDS)}"),
    ],
)
def test_an_unknown_command_names_the_near_ones(capsys: pytest.CaptureFixture[str], word: str, advice: str) -> None:
    line = refused(capsys, word)
    assert f"no command {word!r}" in line
    assert advice in line


def test_a_wrong_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "doctor has no option --jsno; did you mean --json?" in refused(capsys, "doctor", "--jsno")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fit", "--bogus", "3"), "fit has no option --bogus"),
        (("fit", "./x", "--epoch=3"), "fit has no option --epoch; did you mean --epochs?"),
        (("fit", "./x", "./y"), "fit does not know what to do with ./y (see `ncp-control fit --help`)"),
        (("train",), "RECIPE is missing: the name of a recipe, or a .yml file"),
        (("train", "x", "--seed", "y"), "--seed takes a whole number, not 'y'"),
        (("train", "x", "--steps", "1.5"), "--steps takes a whole number, not '1.5'"),
        (("train", "x", "-q"), "train does not know what to do with -q"),
        (("evaluate", "x", "--noise=much"), "--noise takes a number, not 'much'"),
        (("evaluate", "x", "--noise"), "--noise takes a number, and got nothing"),
        (("collect", "--env"), "--env takes a value, and got nothing"),
        (("doctor", "--json", "3"), "doctor does not know what to do with 3"),
        (("view",), "EPISODE ... is missing: a recording, or several"),
    ],
)
def test_wrong_words_get_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused(capsys, *words)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = helped(capsys, name, "--help")
    lines = page.splitlines()
    assert len(lines) <= 35
    assert max(len(line) for line in lines if not line.startswith("  ncp-control ")) <= 80
    assert any(line.startswith(f"  ncp-control {name}") for line in lines), "an example to copy"
    kind = import_module(f"ncp_control.cli.{name}").Arguments
    everything = helped(capsys, name, "--help-all")
    for option in options_of(kind):
        assert f"  {option.word}" in everything
        assert option.text, f"{option.word} is not explained"
        assert option.word in page


def test_help_shows_defaults_and_what_stands_for_values() -> None:
    page = help_text(import_module("ncp_control.cli.evaluate").Arguments, "ncp-control evaluate")
    assert "usage: ncp-control evaluate CHECKPOINT [OPTIONS]" in page
    assert "--episodes N   How many episodes. [20]" in page
    assert "[None]" not in page
    assert "[False]" not in page


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as leaving:
        main(list(words))
    assert leaving.value.code == 0
    return capsys.readouterr().out


# Errors


def test_an_error_is_one_line_in_a_real_process() -> None:
    result = run("describe", "missing.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ncp-control: missing.json: No such file or directory\n"


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("describe", "missing.json", "--traceback"), {}),
        (("--traceback", "describe", "missing.json"), {}),
        (("describe", "missing.json"), {"NCP_CONTROL_TRACEBACK": "1"}),
    ],
)
def test_a_traceback_on_request(words: tuple[str, ...], environment: dict[str, str]) -> None:
    result = run(*words, **environment)
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "FileNotFoundError" in result.stderr


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(name: str, words: object) -> int:
        raise error

    monkeypatch.setattr(cli, "run_command", fail)


def test_control_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "ncp-control: interrupted\n"


def test_a_long_message_becomes_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, nc.WiringError("first\n  second"))
    assert refused(capsys, "doctor") == "ncp-control: first second"


def test_a_missing_package_names_its_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ModuleNotFoundError("No module named 'minari'", name="minari.dataset"))
    assert 'minari, which is missing: pip install "ncp-control[data]"' in refused(capsys, "doctor")


@pytest.mark.parametrize("error", [KeyError("gone"), ModuleNotFoundError("No module named 'ours'", name="ours")])
def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    raising(monkeypatch, error)
    with pytest.raises(type(error)):
        main(["doctor"])


@pytest.mark.skipif(os.name != "posix", reason="pipes end otherwise elsewhere")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--help"], ["describe", "AutoNCP(12, 2)", "--inputs", "4"]])
def test_a_reader_that_leaves_early_hears_no_complaint(words: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "ncp_control.cli", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        timeout=120,
    )
    os.close(writer)
    assert result.stderr == ""


# describe


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
        "density": wiring.density,
    }


def test_plans_are_read_as_python_would() -> None:
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
def test_a_plan_that_cannot_be(capsys: pytest.CaptureFixture[str], text: str, reason: str) -> None:
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


# describe: rollouts and policies


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's datasets in a folder of the test's own."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from stable_baselines3 import PPO

    from ncp_control.rl import save_policy

    path = tmp_path_factory.mktemp("policies") / "upright.safetensors"
    save_policy(PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu"), path, {"score": 21.5, "command": "train it"})
    return path


def collected(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """The JSON object of a collection of CartPole that must succeed."""
    assert main(["collect", "--env", "CartPole-v1", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_describe_a_dataset(capsys: pytest.CaptureFixture[str], datasets: Path) -> None:
    made = collected(capsys, "--rollouts", "4", "--random", "0.2", "--seed", "7", "--out", "ncp/pole-v0")
    for target in ("ncp/pole-v0", str(datasets / "ncp" / "pole-v0"), str(datasets / "ncp" / "pole-v0" / "data")):
        found = described(capsys, target)["rollouts"]
        assert (found["rollouts"], found["steps"], found["terminated"]) == (4, made["steps"], 4)
        assert found["returns"]["mean"] == made["mean_return"]
        assert found["random_actions"]["share"] == made["random_share"]
        assert found["random_actions"]["wanted"] == 0.2
        assert found["random_actions"]["low"] < made["random_share"] < found["random_actions"]["high"]
        assert found["elapsed"] is None
        assert [row["name"] for row in found["observations"]][:2] == ["cart position", "cart velocity"]
        assert all(row["least"] <= row["mean"] <= row["most"] for row in found["observations"])
        assert found["about"]["seed"] == 7
    text = printed(capsys, "describe", "ncp/pole-v0")
    for word in ("20.00% was wanted", "95 % interval", "pole angular velocity", "controller", "ncp-control collect"):
        assert word in " ".join(text.split())


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_description_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], datasets: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    collected(capsys, "--rollouts", "2", "--out", "ncp/pole-v0")
    assert max(map(len, printed(capsys, "describe", "ncp/pole-v0").splitlines())) <= int(columns)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_figure_of_rollouts(capsys: pytest.CaptureFixture[str], datasets: Path, tmp_path: Path, suffix: str) -> None:
    collected(capsys, "--rollouts", "2", "--out", "ncp/pole-v0")
    figure = tmp_path / f"pole{suffix}"
    described(capsys, "ncp/pole-v0", "--figure", str(figure))
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert figure.read_bytes().startswith(start)
    if suffix == ".svg":
        assert b"</svg>" in figure.read_bytes()


def test_describe_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import numpy as np

    folder = tmp_path / "traces"
    folder.mkdir()
    for k in range(3):
        np.save(folder / f"{k}.npy", np.arange(20.0).reshape(10, 2) + k)
    found = described(capsys, str(folder), "--figure", str(tmp_path / "traces.png"))["rollouts"]
    assert (found["rollouts"], found["steps"], found["returns"], found["random_actions"]) == (3, 27, None, None)
    one = described(capsys, str(folder / "1.npy"))["rollouts"]["observations"]
    assert one == [
        {
            "name": f"observation {k}",
            "mean": 10.0 + k,
            "std": pytest.approx(33**0.5),
            "least": 1.0 + k,
            "most": 19.0 + k,
        }
        for k in range(2)
    ]
    np.savez(folder / "1.npz", observations=np.ones((4, 2)), elapsed=np.array([1, 0.5, 2, 3.5]))
    assert described(capsys, str(folder / "1.npz"))["rollouts"]["elapsed"]["most"] == 3.5
    assert "0.5 to 3.5, mean 2" in printed(capsys, "describe", str(folder / "1.npz"))
    assert "none stored" in printed(capsys, "describe", str(folder))


def test_rollouts_that_cannot_be_described(
    capsys: pytest.CaptureFixture[str], datasets: Path, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no Minari dataset" in refused(capsys, "describe", str(tmp_path / "empty"))
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY")
    assert "cut.npy" in refused(capsys, "describe", str(tmp_path / "cut.npy"))
    assert "there is no file, folder or dataset" in refused(capsys, "describe", "ncp/nothing-v0")
    assert "--figure draws rollouts" in refused(capsys, "describe", str(checkpoint), "--figure", "x.png")
    assert "--inputs is for plans" in refused(capsys, "describe", str(tmp_path / "empty"), "--inputs", "3")
    assert ".png, .svg or .pdf" in refused(capsys, "describe", str(tmp_path / "empty"), "--figure", "x.txt")


def test_describe_a_policy(capsys: pytest.CaptureFixture[str], policy: Path) -> None:
    found = described(capsys, str(policy))["policy"]
    assert found["class"] == "ActorCriticPolicy"
    assert found["action_space"] == "Discrete(2)"
    assert found["observation_space"].startswith("Box(")
    assert found["normalizes_observations"] is False
    assert found["note"] == {"score": 21.5, "command": "train it"}
    text = printed(capsys, "describe", str(policy))
    for word in ("ActorCriticPolicy", "Discrete(2)", "21.5", "train it", found["sha256"][:20]):
        assert word in text


# collect


def test_collect_with_a_policy(capsys: pytest.CaptureFixture[str], datasets: Path, policy: Path) -> None:
    made = collected(capsys, "--policy", str(policy), "--rollouts", "3", "--random", "0")
    assert made["id"] == "ncp/cartpole/upright-r00-v0"
    assert Path(made["folder"]) == datasets / made["id"]
    assert (made["rollouts"], made["random_share"]) == (3, 0.0)
    about = described(capsys, made["id"])["rollouts"]["about"]
    assert about["controller"]["name"] == "upright"
    assert about["controller"]["sha256"] == described(capsys, str(policy))["policy"]["sha256"]
    assert list((datasets / "ncp" / "cartpole").iterdir()) == [datasets / made["id"]]


def test_the_recorded_command_makes_it_again(
    capsys: pytest.CaptureFixture[str], datasets: Path, tmp_path: Path
) -> None:
    from ncp_control.data import Rollouts

    first, second = tmp_path / "a b-v0", tmp_path / "again-v0"
    collected(capsys, "--rollouts", "3", "--seed", "9", "--random", "0.5", "--out", str(first))
    command = shlex.split(described(capsys, str(first))["rollouts"]["about"]["command"])
    assert command[:2] == ["ncp-control", "collect"]
    assert command[-1] == str(first)
    assert main([*command[1:-1], str(second)]) == 0
    one, other = Rollouts.load(first), Rollouts.load(second)
    assert all((a.observations == b.observations).all() for a, b in zip(one, other, strict=True))


def test_an_existing_dataset_is_refused_before_any_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("ncp_control.data.collect")  # the package has a function of that name

    def work(*arguments: Any, **named: Any) -> None:
        raise AssertionError("work was done")

    (tmp_path / "there-v0").mkdir()
    monkeypatch.setattr(module, "collect", work)
    line = refused(capsys, "collect", "--env", "CartPole-v1", "--out", str(tmp_path / "there-v0"))
    assert "exists already: choose another --out" in line


def test_collections_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path, checkpoint: Path) -> None:
    out = ("--out", str(tmp_path / "x-v0"))
    assert "there is no environment 'CartPoel-v1'" in refused(capsys, "collect", "--env", "CartPoel-v1", *out)
    assert "unpickled, which runs code" in refused(capsys, "collect", "--policy", "model.zip", *out)
    assert "there is no checkpoint" in refused(capsys, "collect", "--policy", "missing.safetensors", *out)
    assert "holds a network, not a policy" in refused(capsys, "collect", "--policy", str(checkpoint), *out)
    assert "is a probability" in refused(capsys, "collect", "--env", "CartPole-v1", "--random", "2", *out)
    assert list(tmp_path.iterdir()) == []


def test_what_is_finished_survives_a_full_disk(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ncp_control.data.minari_files as module

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    words = ["collect", "--env", "CartPole-v1", "--rollouts", "3", "--out", str(tmp_path / "pole-v0")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_minari", full)
        assert main(words) == 2
    told = capsys.readouterr().err
    assert "3 of 3 rollouts are kept in" in told
    assert "No space left" in told.splitlines()[-1]
    assert main(words) == 2
    assert "--resume goes on with it" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["pole-v0"]


def test_control_c_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ncp_control.data.episodes as module

    write, written = module.write_trace, []

    def interrupted(rollout: Any, path: Path) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        write(rollout, path)

    words = ["collect", "--env", "CartPole-v1", "--rollouts", "3", "--out", str(tmp_path / "pole-v0")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_trace", interrupted)
        assert main(words) == 130
    assert "2 of 3 rollouts are kept in" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0


# doctor


def test_doctor_reports_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(printed(capsys, "doctor", "--json"))
    assert report["ok"] is True
    assert report["ncp_control"] == nc.__version__
    packages = {package["name"]: package for package in report["packages"]}
    import numpy
    import torch

    assert packages["numpy"]["version"] == numpy.__version__
    assert packages["torch"]["required"] is True
    assert packages["torch"]["problem"] == ""
    assert report["threads"]["torch"] == torch.get_num_threads()
    assert bool(report["cuda"]["devices"]) == torch.cuda.is_available()
    assert report["backends"]["reference"]["ok"] is True
    assert all(backend["reason"] for backend in report["backends"].values())


def test_doctor_in_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    text = printed(capsys, "doctor")
    for word in ("torch", "safetensors", "reference", "MUJOCO_GL", "osmesa", "GPU"):
        assert word in text


def test_doctor_says_how_to_get_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncp_control.cli import doctor

    find = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "sb3_contrib" else find(name))
    monkeypatch.setenv("COLUMNS", "200")
    assert 'pip install "ncp-control[rl]"' in printed(capsys, "doctor")
    report = json.loads(printed(capsys, "doctor", "--json"))
    (missing,) = [package for package in report["packages"] if package["name"] == "sb3-contrib"]
    assert (missing["version"], missing["problem"]) == (None, "not installed")


def test_doctor_fails_when_the_core_is_incomplete(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ncp_control.cli import doctor

    find = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "torchdiffeq" else find(name))
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    (missing,) = [package for package in report["packages"] if package["name"] == "torchdiffeq"]
    assert missing["fix"] == "pip install ncp-control"
    assert main(["doctor"]) == 1
    assert "does not work" in capsys.readouterr().out


def test_the_doctor_knows_the_extras_of_the_project() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {None: project["dependencies"], **project["optional-dependencies"]}
    declared = {
        (requirement.name, extra)
        for extra, lines in groups.items()
        if extra not in ("all", "dev")
        for requirement in map(Requirement, lines)
        if requirement.name != project["name"]
    }
    known = {(package.distribution, package.extra) for package in PACKAGES}
    assert declared <= known
    assert known - declared == {("mujoco", "envs"), ("h5py", "data")}  # the extras of gymnasium and minari


def test_a_module_leads_to_its_package() -> None:
    package = package_of("stable_baselines3.common.env_util")
    assert package is not None
    assert package.fix == 'pip install "ncp-control[rl]"'
    assert package_of("somebody_elses") is None
