"""KeepObservations keeps the entries that it is asked for, and refuses others."""

import pytest

gym = pytest.importorskip("gymnasium")

from ncp_envs import KeepObservations  # noqa: E402


def test_entries_come_in_the_order_that_was_asked_for() -> None:
    base, env = gym.make("CartPole-v1"), KeepObservations(gym.make("CartPole-v1"), indices=(3, 0))
    full, _ = base.reset(seed=0)
    kept, _ = env.reset(seed=0)
    assert kept.tolist() == [full[3], full[0]]
    kept[:] = 7.0  # an agent may write into it: the environment has an array of its own
    assert 7.0 not in env.unwrapped.state


@pytest.mark.parametrize(
    ("indices", "reason"),
    [
        ((), "at least one"),
        ((0, 4), "entry 4 does not exist: the observation has 4 entries, 0 to 3"),
        ((-1,), "entry -1 does not exist"),
        ((0, 2, 0), r"\[0, 2, 0\] names one more often"),
    ],
)
def test_entries_that_do_not_exist_or_come_twice_are_refused(indices: tuple[int, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        KeepObservations(gym.make("CartPole-v1"), indices=indices)


def test_only_vectors_have_entries_to_keep() -> None:
    grid = gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 2)
    with pytest.raises(TypeError, match="vector observations"):
        KeepObservations(grid, indices=(0,))
