"""Which runs a sweep has, what they are called, and which commands they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncp_control.scale.plan import (
    LONGEST_NAME,
    PlannedRun,
    Setting,
    job_of,
    read_values,
    runs_of,
    settings_of,
    split_values,
    words_of,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ["1"]),
        ("1,2", ["1", "2"]),
        ("AutoNCP(40, 16),AutoNCP(20, 8)", ["AutoNCP(40, 16)", "AutoNCP(20, 8)"]),
        ("[64, 64],[32]", ["[64, 64]", "[32]"]),
        ("{a: [1, 2], b: 3},x", ["{a: [1, 2], b: 3}", "x"]),
        ("a),b", ["a)", "b"]),
        ("1,,2", ["1", "", "2"]),
        (" 1 , 2 ", ["1", "2"]),
        ("", [""]),
    ],
)
def test_values_are_split_at_commas_outside_of_brackets(text: str, values: list[str]) -> None:
    assert split_values(text) == values


@pytest.mark.system
@given(st.lists(st.from_regex(r"[a-z0-9.\-]{1,5}(\([0-9, ]{0,6}[0-9]\))?", fullmatch=True), min_size=1, unique=True))
def test_values_that_are_joined_by_commas_come_back(values: list[str]) -> None:
    assert split_values(",".join(values)) == values
    assert read_values([f"key={','.join(values)}"]) == {"key": values}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["learning_rate"], "--set takes KEY=VALUE,VALUE with at least one value, not 'learning_rate'"),
        (["=3"], "with at least one value, not '=3'"),
        (["a="], "with at least one value, not 'a='"),
        (["a=1,,2"], "with at least one value, not 'a=1,,2'"),
        (["a=1", "a=2"], "--set names a twice: put its values into one word, a=VALUE,VALUE"),
        (["a=1,1"], "--set names a value of a twice: 1,1"),
        (["seed=1,2"], "--set cannot set seed"),
        (["out=x"], "--set cannot set out"),
    ],
)
def test_values_that_make_no_sense_are_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        read_values(words)
    assert sentence in str(refused.value)


def test_a_sweep_has_every_combination_and_names_only_what_varies() -> None:
    settings = settings_of(["a", "b"], {"x": ["1", "2"], "y": ["3"], "p.z": ["4", "5"]})
    assert [one.label for one in settings] == [
        f"{subject} x={x} p.z={z}" for subject in "ab" for x in (1, 2) for z in (4, 5)
    ]
    assert {one.common for one in settings} == {(("y", "3"),)}
    assert settings[0].slug == "a-x=1-z=4"
    runs = runs_of(settings, (7, 3))
    assert [run.seed for run in runs] == [7] * 8 + [3] * 8, "a table has all its rows as early as possible"
    assert runs[0].folder == "runs/a-x=1-z=4-s7"
    assert settings_of(["a"], {}) == [Setting("a")]


@pytest.mark.parametrize(
    ("subjects", "values", "seeds", "sentence"),
    [
        (["a"], {}, (), "at least one seed"),
        (["a"], {}, (1, 1), "each seed once: 1 1"),
        (["a"], {}, (0, -1), "a seed is a whole number from 0 to 4294967295, not -1"),
        (["a"], {}, (2**32,), "not 4294967296"),
        (["a", "a"], {}, (0,), "would have the folder a-s0"),
        (["here/a.yml", "there/a.yml"], {}, (0,), "would have the folder a-s0"),
        (["a"], {"k": ["1/2", "1:2"]}, (0,), "would have the folder a-k=1_2-s0"),
    ],
)
def test_runs_that_could_not_be_told_apart_are_refused(
    subjects: list[str], values: dict[str, list[str]], seeds: tuple[int, ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        runs_of(settings_of(subjects, values), seeds)
    assert sentence in str(refused.value)


@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_every_name_can_name_a_folder(subject: str, value: str) -> None:
    run = PlannedRun(Setting(subject, (("key", value),)), 3)
    assert "/" not in run.name
    assert "\0" not in run.name
    assert len(run.name) <= LONGEST_NAME + 3
    assert run.name not in (".", "..")


def test_long_names_stay_different() -> None:
    settings = settings_of(["a"], {"key": ["x" * 100, "x" * 100 + "y"]})
    assert len({one.slug for one in settings}) == 2
    assert all(len(one.slug) == LONGEST_NAME for one in settings)


def test_a_run_is_a_command_that_is_resumed() -> None:
    (setting,) = settings_of(["pendulum-positions"], {"learning_rate": ["1e-3"]})
    words = words_of("train", PlannedRun(setting, 4), ["--steps", "100"])
    assert " ".join(words) == (
        "train pendulum-positions --seed 4 --set learning_rate=1e-3 --steps 100 --out runs/pendulum-positions-s4 "
        "--resume --json"
    )
    (setting,) = settings_of(
        ["inputs/data"], {"cell": ["cfc"], "weight_decay": ["0.1"], "actions": ["true"], "residual": ["False"]}
    )
    job = job_of("fit", PlannedRun(setting, 0), [])
    assert " ".join(job.arguments["words"]) == (
        "fit inputs/data --seed 0 --cell cfc --weight-decay 0.1 --actions --out runs/data-s0 --resume --json"
    )
    assert job.reads == ("inputs/data",)
    assert job.writes == ("runs/data-s0", "logs/data-s0.txt")
    assert job_of("train", PlannedRun(Setting("pendulum-positions"), 0), []).reads == ()
