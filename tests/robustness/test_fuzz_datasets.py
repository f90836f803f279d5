"""Damaged Minari datasets: what is read is what was written, or whole where there is no checksum."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from helpers.children import in_child
from helpers.fuzzing import examine
from helpers.mutations import altered, damaged, json_text
from helpers.rollout_contents import alike, content_of, fine


@pytest.fixture(scope="module")
def dataset(place: Path) -> Path:
    """A small dataset of ours."""
    pytest.importorskip("minari")
    import gymnasium as gym

    from ncp_control.data import collect
    from ncp_control.data.minari_files import write_minari

    spec = gym.make("Pendulum-v1", max_episode_steps=4).spec
    assert spec is not None
    rollouts = collect("random", spec, 2, progress=False)
    write_minari(rollouts, "small-v0", place / "small", spec, dict(rollouts.about))
    return place / "small"


def examine_dataset(folder: Path, count: int, mutate: Callable[[Random], bytes]) -> dict[str, int]:
    """Reads a dataset with damaged arrays in a process of its own, which an error within HDF5 may crash."""
    from ncp_control.data import Rollouts

    main = folder / "data" / "main_data.hdf5"
    whole = main.read_bytes()
    try:
        found: dict[str, int] = in_child(
            lambda: examine(count, main, mutate, lambda path: Rollouts.load(folder), fine, folder.name), folder.parent
        )
    finally:
        main.write_bytes(whole)
    return found


def test_damaged_arrays_of_a_dataset(times: int, dataset: Path) -> None:
    """Our datasets have a checksum: only what was written is read."""
    content = (dataset / "data" / "main_data.hdf5").read_bytes()
    found = examine_dataset(dataset, 250 * times, lambda random: damaged(content, random, content))
    assert found["refused"] > 220 * times


def test_damaged_arrays_of_another_programs_dataset(times: int, dataset: Path) -> None:
    """Other datasets have no checksum: only whole rollouts are read."""
    description = dataset / "data" / "metadata.json"
    before = description.read_text()
    content = (dataset / "data" / "main_data.hdf5").read_bytes()
    metadata = json.loads(before)
    del metadata["ncp_control"]
    description.write_text(json.dumps(metadata))
    try:
        found = examine_dataset(dataset, 120 * times, lambda random: damaged(content, random, content))
    finally:
        description.write_text(before)
    assert min(found.values()) > 0


def test_a_mutated_description_of_a_dataset(times: int, dataset: Path) -> None:
    from ncp_control.data import Rollouts

    path = dataset / "data" / "metadata.json"
    before = path.read_bytes()
    whole = Rollouts.load(dataset)

    def mutate(random: Random) -> bytes:
        if random.random() < 0.7:
            return json_text(altered(json.loads(before), random), random).encode("utf-8", "replace")
        return damaged(before, random, before)

    def same(found: Any) -> bool:
        return all(alike(content_of(one), content_of(own)) for one, own in zip(found, whole, strict=False))

    try:
        found = examine(120 * times, path, mutate, lambda path: Rollouts.load(dataset), same, dataset.name)
    finally:
        path.write_bytes(before)
    assert min(found.values()) > 0
