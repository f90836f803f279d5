"""Damaged and forged traces and recordings: the content that was written, something whole, or an error."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import ncp_control as nc
from helpers.fuzzing import examine
from helpers.mutations import damaged, objects, reshaped, rezipped
from helpers.rollout_contents import alike, content_of, fine


def write_traces(place: Path) -> list[bytes]:
    from ncp_control.data import Rollout
    from ncp_control.data.sources import write_trace

    random = np.random.default_rng(0)
    seen = random.normal(size=(6, 3))
    whole = Rollout(
        seen, random.normal(size=(5, 2)), random.normal(size=5), np.arange(5) > 3, np.arange(1.0, 7.0), True, 7
    )
    write_trace(whole, place / "whole.npz")
    np.savez_compressed(place / "packed.npz", observations=seen.astype(np.float32), seed=np.int64(3))
    return [(place / name).read_bytes() for name in ("whole.npz", "packed.npz")]


def test_a_damaged_trace(times: int, place: Path) -> None:
    from ncp_control.data.sources import read_trace

    contents, path = write_traces(place), place / "mutated.npz"
    known = []
    for content in contents:
        path.write_bytes(content)
        known.append(content_of(read_trace(path)))

    def mutate(random: Random) -> bytes:
        return damaged(random.choice(contents), random, random.choice(contents))

    found = examine(
        1200 * times, path, mutate, read_trace, lambda one: any(alike(content_of(one), own) for own in known)
    )
    assert min(found.values()) > 0


def test_a_forged_trace(times: int, place: Path, trap: Path) -> None:
    from ncp_control.data import Rollouts

    contents = write_traces(place)
    found = examine(
        300 * times,
        place / "mutated.npz",
        lambda random: rezipped(random.choice(contents), random, trap),
        Rollouts.load,
        fine,
    )
    assert min(found.values()) > 0


def test_a_mutated_plain_trace(times: int, place: Path, trap: Path) -> None:
    """An `.npy` has no checksum: other numbers may be read from a damaged one, but always a whole trace."""
    from ncp_control.data import Rollouts

    np.save(place / "whole.npy", np.random.default_rng(0).normal(size=(9, 3)))
    whole = (place / "whole.npy").read_bytes()

    def mutate(random: Random) -> bytes:
        change = random.random()
        if change < 0.02:
            return objects(trap)
        return reshaped(whole, random) if change < 0.4 else damaged(whole, random, whole)

    found = examine(700 * times, place / "mutated.npy", mutate, Rollouts.load, fine)
    assert min(found.values()) > 0


def write_recording(path: Path, seed: int) -> None:
    from ncp_control.activity import record_network

    torch.manual_seed(seed)
    rnn = nc.RNN(nc.LTC(3, nc.GapJunctions(nc.AutoNCP(7, 2), 2)))
    record_network(rnn, torch.randn(5, 3), path, elapsed=0.5)


def arrays_of(found: Any) -> dict[str, Any]:
    from ncp_control.activity.recording.activity import NEEDED

    return {**{name: getattr(found, name) for name in NEEDED}, **found.extras}


@pytest.mark.parametrize(("how", "count"), [("damaged", 300), ("forged", 120)])
def test_a_mutated_recording(how: str, count: int, times: int, place: Path, trap: Path) -> None:
    from ncp_control.activity import Activity

    contents, known, path = [], [], place / "mutated.npz"
    for seed in range(2):
        write_recording(path, seed)
        contents.append(path.read_bytes())
        known.append(Activity.load(path))

    def mutate(random: Random) -> bytes:
        if how == "forged":
            return rezipped(random.choice(contents), random, trap)
        return damaged(random.choice(contents), random, random.choice(contents))

    def same(found: Any) -> bool:
        arrays = arrays_of(found)
        if how == "forged":
            return all(np.issubdtype(values.dtype, np.number) or values.dtype == bool for values in arrays.values())
        return any(
            found.about == own.about
            and found.wiring == own.wiring
            and arrays.keys() == arrays_of(own).keys()
            and all(np.array_equal(values, arrays_of(own)[name]) for name, values in arrays.items())
            for own in known
        )

    found = examine(count * times, path, mutate, Activity.load, same)
    assert min(found.values()) > 0
