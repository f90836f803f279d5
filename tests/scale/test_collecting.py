"""Groups of rollouts as jobs give the rollouts of a collection in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ncp_envs  # noqa: F401 (registers the environments)
from helpers.job_places import Here
from ncp_control.base.processes import JobPlace, Processes
from ncp_control.cli import main
from ncp_control.data import Rollouts, collect
from ncp_control.rl import load_policy
from ncp_control.scale.collecting import collect_group, on_place

ROOT = Path(__file__).parents[2]
SWIMMER = str(ROOT / "checkpoints" / "swimmer-teacher.safetensors")
SETTINGS: dict[str, Any] = {"env": "Swimmer-v5", "rollouts": 5, "group": 2, "seed": 3, "progress": False}


def assert_equal(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for ours, theirs in zip(one, other, strict=True):
        for key in ("observations", "actions", "rewards", "is_random"):
            np.testing.assert_array_equal(getattr(ours, key), getattr(theirs, key))
        assert ours.seed == theirs.seed


@pytest.mark.parametrize("policy", ["random", SWIMMER])
@pytest.mark.parametrize("place", [Here(), pytest.param(Processes(2), marks=pytest.mark.system)], ids=["here", "two"])
def test_the_rollouts_are_those_of_one_process(place: JobPlace, policy: str, tmp_path: Path) -> None:
    chosen = policy if policy == "random" else load_policy(policy)
    apart = collect(chosen, elsewhere=on_place(place, policy), keep=tmp_path / "a", **SETTINGS)
    assert_equal(apart, collect(chosen, **SETTINGS))


@pytest.mark.system
def test_only_missing_groups_are_collected_and_another_policy_is_refused(tmp_path: Path) -> None:
    policy = load_policy(SWIMMER)
    whole = collect(policy, keep=tmp_path / "a", **SETTINGS)
    removed = sorted((tmp_path / "a").glob("rollout_*.npz"))[3]
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("rollout_*.npz") if path != removed}
    removed.unlink()
    again = collect(policy, keep=tmp_path / "a", resume=True, elsewhere=on_place(Here(), SWIMMER), **SETTINGS)
    assert_equal(whole, again)
    assert kept == {path: path.stat().st_mtime_ns for path in kept}
    removed.unlink()
    with pytest.raises(ValueError, match="is another policy than the one that this collection was begun with"):
        collect(policy, keep=tmp_path / "a", resume=True, elsewhere=on_place(Here(), "random"), **SETTINGS)


@pytest.mark.system
def test_progress_is_told_in_rollouts_and_steps(tmp_path: Path) -> None:
    from ncp_control.data.batch_policies import as_batch_policy
    from ncp_control.data.collection import CollectionPlan
    from ncp_control.data.env_specs import make, spec_of

    spec = spec_of("Swimmer-v5")
    with make(spec) as example:
        chosen = as_batch_policy("random", example.action_space)
    plan = CollectionPlan(spec.to_json(), 3, 0.0, 0, 2, chosen.name, chosen.sha256, True)
    told: list[tuple[int, int]] = []
    on_place(Here(), "random")(plan.groups(), plan, tmp_path, lambda *counts: told.append(counts))
    assert np.sum(told, axis=0)[0] == 3
    assert 0 < np.sum(told, axis=0)[1] <= 3000
    assert callable(collect_group)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_the_dataset_of_a_cluster_has_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    words = [
        "collect",
        "--env",
        "Swimmer-v5",
        "--policy",
        SWIMMER,
        "--episodes",
        "5",
        "--group",
        "2",
        "--random",
        "0.05",
    ]
    assert main([*words, "--out", "./one-v0"]) == 0
    assert main([*words, "--out", "./two-v0", "--on", "ray", "--workers", "2"]) == 0
    one, two = (tmp_path / name / "data" / "main_data.hdf5" for name in ("one-v0", "two-v0"))
    assert one.read_bytes() == two.read_bytes()
    assert_equal(Rollouts.load(tmp_path / "one-v0"), Rollouts.load(tmp_path / "two-v0"))
