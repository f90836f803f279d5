"""Every shipped checkpoint loads in one line, and does what its card says."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from ncp_control.activity.laboratory.world import layers_data
from ncp_control.base.kinds import Kind, kind_of
from ncp_control.cli import main
from ncp_control.cli.trained_in import AS_MADE, UNDISTURBED, layers, make
from ncp_control.data import Scaler, collect
from ncp_control.dynamics import one_step_error
from ncp_control.dynamics.model_file import checksum_of
from ncp_control.rl import evaluate
from ncp_control.rl.recipes.building import make_env
from scripts.cards import model_card, policy_card

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints"
FILES = sorted(FOLDER.glob("*.safetensors"))
AGENTS = [path for path in FILES if kind_of(path) is Kind.POLICY]


def name(path: Path) -> str:
    return path.stem


TEACHERS = {"halfcheetah-teacher", "halfcheetah-robust-teacher", "hopper-teacher", "swimmer-teacher"}


CIRCUITS = {
    "halfcheetah", "halfcheetah-positions", "halfcheetah-positions-acyclic", "halfcheetah-positions-sparse",
    "halfcheetah-robust",
}  # fmt: skip


def test_there_are_four_teachers_five_circuits_and_two_models() -> None:
    assert {path.stem for path in AGENTS} == CIRCUITS | TEACHERS
    assert len(FILES) == 11


@pytest.mark.parametrize("path", FILES, ids=name)
def test_it_has_a_card_and_loads_in_one_line(path: Path) -> None:
    card = path.with_suffix(".md").read_text()
    loaded = nc.load(path)
    assert f"`{loaded.note['command']}`" in card
    assert f"{path.stat().st_size / 1e6:.2f} MB" in card
    for word in ("seed", "versions", "SHA-256"):
        assert word in card
    if path.stem not in TEACHERS:
        assert path.stat().st_size < 300_000
        assert re.search(r"\d+ neurons", card)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_its_card_is_what_the_scripts_write_from_the_note_in_the_file(path: Path) -> None:
    text = path.with_suffix(".md").read_text(encoding="utf-8")
    write = policy_card if path in AGENTS else model_card
    assert write(path, description=text.split("\n\n")[1]) == text


@pytest.mark.parametrize("path", AGENTS, ids=name)
def test_it_acts_in_its_space_and_always_alike(path: Path) -> None:
    agent = nc.load(path)
    observations = np.random.default_rng(0).normal(size=(7, *agent.observation_space.shape)).astype(np.float32)
    actions, state = agent.predict(observations)
    assert all(action in agent.action_space for action in actions)
    assert np.ptp(actions, axis=0).min() > 0.01
    np.testing.assert_array_equal(actions, agent.predict(observations)[0])
    assert (state is not None) == (path.stem in CIRCUITS)
    remembered = agent.predict(observations, state)[0]
    assert np.allclose(remembered, actions) == (state is None)


# What the first 100 steps of an episode earn: the mean of forty, whose spread is at most 37 for a half-cheetah, 0.7 for
# the hopper and 1.1 for the swimmer. Random actions earn -20, 18 and 1 there, and no actions at all 0, 98 and -1.
AT_FIRST = {
    "halfcheetah": 585,
    "halfcheetah-positions": 588,
    "halfcheetah-positions-acyclic": 576,
    "halfcheetah-positions-sparse": 565,
    "halfcheetah-robust": 409,
    "halfcheetah-teacher": 605,
    "halfcheetah-robust-teacher": 515,
    "hopper-teacher": 228,
    "swimmer-teacher": 25,
}


@pytest.mark.parametrize("path", AGENTS, ids=name)
def test_it_moves_from_its_first_steps_on(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working folder
    agent = nc.load(path)
    wrappers = layers(agent.note, **UNDISTURBED)
    found = evaluate(agent, lambda: make_env(agent.note["env"], wrappers, {"max_episode_steps": 100}), 4, seed=0)
    assert min(found.returns) > 0.55 * AT_FIRST[path.stem]


@pytest.mark.parametrize("circuit", sorted(CIRCUITS))
def test_a_laboratory_can_build_its_world_with_the_body_as_it_was_made(circuit: str) -> None:
    note = nc.load(FOLDER / f"{circuit}.safetensors").note
    with closing(make(note["env"], note, **AS_MADE)) as env:
        kinds = [layer["kind"] for layer in layers_data(env)[0]]
    trained = [next(iter(one)) if isinstance(one, dict) else one for one in note["env_wrapper"]]
    assert ("noise" in kinds, "dropout" in kinds) == ("ObservationNoise" in trained, "ObservationDropout" in trained)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", AGENTS, ids=name)
def test_it_returns_what_its_card_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = nc.load(path).note
    words = ["--episodes", str(note["episodes"]), "--seed", str(note["episodes_seed"])]
    for option, numbers in evaluations_of(note).items():
        assert main(["evaluate", str(path), *words, *option, "--json"]) == 0
        found = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert found["episodes"] == note["episodes"]
        # Other processors round differently and a gait is chaotic, so these are other episodes than the card's. Four
        # deviations of the difference of two means leave one comparison in 16,000 to chance.
        spreads = numbers["return_std"], found["std_return"]
        allowed = 4 * np.hypot(*spreads) / note["episodes"] ** 0.5
        assert found["mean_return"] == pytest.approx(numbers["return"], abs=max(allowed, 1e-3 * numbers["return"]))


@pytest.mark.parametrize("path", AGENTS, ids=name)
def test_its_card_has_its_returns_and_the_commands_that_measure_them(path: Path) -> None:
    note = nc.load(path).note
    card = path.with_suffix(".md").read_text()
    words = ["--episodes", str(note["episodes"]), "--seed", str(note["episodes_seed"])]
    for option, numbers in evaluations_of(note).items():
        assert f"**{numbers['return']:,.0f}** ± {numbers['return_std']:,.0f}" in card
        assert f"`ncp-control evaluate checkpoints/{path.name} {' '.join([*words, *option])}`" in card


def evaluations_of(note: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """The options of the evaluations that a card shows, and the numbers of each."""
    if "undisturbed" not in note:
        return {(): note}
    return {("--random", f"{note['random']:g}"): note, ("--random", "0"): note["undisturbed"]}


@pytest.mark.parametrize("stem", ["halfcheetah-dynamics", "halfcheetah-dynamics-off-policy"])
def test_a_model_predicts_new_rollouts_as_well_as_its_card_says(stem: str) -> None:
    path = FOLDER / f"{stem}.safetensors"
    model, teacher = nc.load(path), nc.load(FOLDER / "halfcheetah-teacher.safetensors")
    said = model.note["rows"][0]["one_step"]
    assert f"| this model, recorded | {said:.4f} |" in path.with_suffix(".md").read_text()
    rollouts = collect(teacher, "HalfCheetah-v5", 5, random_action_fraction=0.05, seed=2026, progress=False)
    # The median, because in one rollout of hundreds the teacher falls, on one kind of processor and not on another.
    # Over six seeds the median of five rollouts is 0.0072 to 0.0079 for the first model, whose card says 0.0078, and
    # 0.0051 to 0.0058 for the second one, 0.0056; the linear model errs by 0.0760.
    std = torch.as_tensor(Scaler.fit(rollouts).std, dtype=torch.float32)
    errors = [one_step_error(model, rollouts[k : k + 1], scale=std) for k in range(len(rollouts))]
    assert 0.5 * said < np.median(errors) < 1.6 * said


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_card_has_the_checksum_of_its_file(path: Path) -> None:
    checksum = nc.load(path).sha256 if path in AGENTS else checksum_of(path)
    assert f"SHA-256 of its content {checksum[:16]}" in path.with_suffix(".md").read_text()
