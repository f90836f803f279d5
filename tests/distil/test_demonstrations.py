"""The stream of demonstrations: made of episodes, joined, and kept as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.distilling import numbered
from ncp_control.data.episodes import copy_of
from ncp_control.distil.demonstrations import ALONE, Demonstrations, demonstrations_of


def test_an_episode_becomes_rows_that_begin_once() -> None:
    found = demonstrations_of([np.array([1.0, 2]), np.array([3.0, 4])], [np.array([5.0]), np.array([6.0])], own=True)
    assert found.observations[ALONE].tolist() == [[1, 2], [3, 4]]
    assert found.labels.tolist() == [[5], [6]]
    assert found.starts.tolist() == [True, False]
    assert found.own.tolist() == [True, True]


def test_dictionaries_become_one_array_for_each_key() -> None:
    seen = [{"elapsed": np.array([k]), "observations": np.array([k, -k])} for k in range(3)]
    found = demonstrations_of(seen, [0, 1, 2], own=False)
    assert {key: values.tolist() for key, values in found.observations.items()} == {
        "elapsed": [[0], [1], [2]],
        "observations": [[0, 0], [1, -1], [2, -2]],
    }
    assert found.labels.tolist() == [0, 1, 2]


def test_observations_of_different_lengths_are_refused_in_one_sentence() -> None:
    for seen in ([np.zeros(2), np.zeros(3)], [{"a": np.zeros(2)}, {"a": np.zeros(3)}]):
        with pytest.raises(ValueError, match="the environment gives observations of different lengths: each must"):
            demonstrations_of(seen, [0, 0], True)
    for ragged in ([0.0, [1.0, 2.0]], {"a": [0.0, [1.0, 2.0]]}):
        with pytest.raises(ValueError, match="the environment gives observations of different lengths: each must"):
            copy_of(ragged)


def test_episodes_follow_one_another_in_their_order() -> None:
    found = numbered([3, 1, 2], [True, False, True])
    assert len(found) == 6
    assert found.labels[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert found.starts.nonzero()[0].tolist() == [0, 3, 4]
    assert found.own.tolist() == [True, True, True, False, True, True]


def test_nothing_at_all_joins_to_nothing_and_adds_nothing() -> None:
    assert len(Demonstrations.joined([])) == 0
    assert len(Demonstrations.joined([Demonstrations(), demonstrations_of([], [], own=True)])) == 0
    found = Demonstrations.joined([Demonstrations(), numbered([2], [True]), Demonstrations()])
    assert found.labels[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("keys", [("",), ("a", "b.c", "observations.d")])
def test_the_arrays_make_the_same_demonstrations_again(keys: tuple[str, ...]) -> None:
    given = numbered([3, 2], [True, False])
    values = given.observations[ALONE]
    given.observations = {key: values + k for k, key in enumerate(keys)}
    found = Demonstrations.of_arrays({name: array.copy() for name, array in given.arrays().items()})
    assert found.arrays().keys() == given.arrays().keys()
    for name, array in given.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], array)
        assert found.arrays()[name].dtype == array.dtype


def test_the_first_steps_are_those_of_the_stream() -> None:
    found = numbered([3, 2], [True, False]).first(4)
    assert found.labels[:, 0].tolist() == [0, 1, 2, 3]
    assert found.starts.tolist() == [True, False, False, True]


@pytest.mark.parametrize("name", ["observations.", "labels", "starts", "own"])
def test_arrays_of_different_lengths_are_refused(name: str) -> None:
    arrays = numbered([3, 2], [True, False]).arrays()
    arrays[name] = arrays[name][:-1]
    with pytest.raises(ValueError, match="its arrays are not of the same steps"):
        Demonstrations.of_arrays(arrays)


@pytest.mark.parametrize("name", ["observations.", "labels", "starts", "own"])
def test_arrays_without_one_of_them_are_refused(name: str) -> None:
    arrays = numbered([3, 2], [True, False]).arrays()
    del arrays[name]
    with pytest.raises(ValueError, match="its arrays are not of the same steps"):
        Demonstrations.of_arrays(arrays)
