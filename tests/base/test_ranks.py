"""Processes that work together: what they exchange, and what happens when one of them ends."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.children import in_child
from helpers.ranks import end_of_ranks, in_ranks, start_ranks
from helpers.waiting import wait_until
from ncp_control.base import ranks as ranks_module
from ncp_control.base.machine import peak_memory
from ncp_control.base.ranks import LostRankError, Ranks, joined, process_numbers


def test_a_process_alone_has_everything_and_exchanges_nothing() -> None:
    with joined() as ranks:
        assert (ranks.rank, ranks.count, ranks.first) == (0, 1, True)
        numbers = torch.arange(5)
        assert torch.equal(ranks.share(numbers), numbers)
        values = torch.tensor([1.0, 2.0])
        ranks.average([values], 0.5)
        assert values.tolist() == [1.0, 2.0]
        assert ranks.gather("here") == ["here"]
        assert ranks.from_first(lambda: 3) == ranks.once_a_machine(lambda: 3) == 3
        assert ranks.device(torch.device("cpu")) == torch.device("cpu")


def test_processes_exchange_sums_averages_and_values(tmp_path: Path) -> None:
    def work() -> Any:
        with joined() as ranks, joined() as same:
            assert same is ranks
            one, two = torch.full((2, 3), float(ranks.rank)), torch.full((1,), 10.0 * ranks.rank)
            ranks.average([one, two], (0.5, 0.3, 0.2)[ranks.rank])
            total = ranks.sum(torch.tensor([2.0**ranks.rank], dtype=torch.float64))
            told = ranks.from_first(lambda: f"from {ranks.rank}")
            beside = ranks.once_a_machine(lambda: f"of {ranks.rank}")
            shares = [ranks.share(torch.arange(count)).tolist() for count in (7, 2, 0)]
            return one.flatten().tolist() + two.tolist(), total.item(), told, beside, ranks.gather(ranks.rank), shares

    found = in_ranks(3, work, tmp_path)
    for sums, total, told, beside, gathered, _ in found:
        assert sums == pytest.approx([0.7] * 6 + [7.0])
        assert (total, told, beside, gathered) == (7.0, "from 0", "of 0", [0, 1, 2])
    assert [one[-1] for one in found] == [[[0, 1, 2], [0], []], [[3, 4], [1], []], [[5, 6], [], []]]


def test_an_error_of_the_first_is_an_error_of_all(tmp_path: Path) -> None:
    def refuse() -> None:
        raise FileExistsError("the folder is taken")

    def work() -> Any:
        with joined() as ranks:
            with pytest.raises(FileExistsError if ranks.first else ValueError, match="the folder is taken"):
                ranks.from_first(refuse)
            return ranks.gather(None)

    assert in_ranks(2, work, tmp_path) == [[None, None]] * 2


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Last words that will come are waited for, however long that takes."""
    monkeypatch.setattr(ranks_module, "SECONDS_FOR_LAST_WORDS", 300.0)


@pytest.mark.system
def test_what_a_process_said_before_it_ended_is_told_by_the_others(patient: None, tmp_path: Path) -> None:
    def work() -> Any:
        with joined() as ranks:
            if ranks.rank == 1:
                raise ValueError("the disk\nis gone")
            while True:
                ranks.sum(torch.ones(1))

    first, second = end_of_ranks(2, work, tmp_path)
    assert "LostRankError: process 1 has ended (the disk is gone): start all processes again" in first.output
    assert second.output.rstrip().endswith("is gone")


@pytest.mark.system
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_leaves_no_other_hanging(killed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks_module, "SECONDS_FOR_LAST_WORDS", 0.2)  # there will be none

    def work() -> Any:
        with joined() as ranks:
            (tmp_path / f"began{ranks.rank}").touch()
            while True:
                ranks.sum(torch.ones(1))

    children = start_ranks(2, work, tmp_path)
    wait_until(lambda: all((tmp_path / f"began{rank}").exists() for rank in (0, 1)), "two processes that began")
    children[killed].kill()
    assert children[killed].wait().code == -signal.SIGKILL
    words = "LostRankError: another process was killed, or answers no more: start all processes again"
    assert words in children[1 - killed].wait().output


@pytest.mark.system
def test_an_interrupted_process_ends_the_others(patient: None, tmp_path: Path) -> None:
    def work() -> Any:
        with joined() as ranks:
            if ranks.rank == 1:
                os.kill(os.getpid(), signal.SIGINT)
            while True:
                ranks.sum(torch.ones(1))

    first, second = end_of_ranks(2, work, tmp_path)
    assert "process 1 has ended (interrupted)" in first.output
    assert "KeyboardInterrupt" in second.output


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2, and RANK is not set: start the processes with torchrun"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is two, and WORLD_SIZE is 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "-1", "LOCAL_RANK": "0"}, "RANK is '-1'"),
        ({"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0"}, "there is no process 2 of 2"),
    ],
)
def test_a_place_that_makes_no_sense_is_refused(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words), joined():
        pass


def test_a_world_of_one_is_a_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert process_numbers() == (0, 1, 0)


def test_an_address_that_nobody_can_use_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ConnectionError, match=r"the 2 processes did not find each other .*MASTER_ADDR"), joined():
        pass


def test_a_gpu_a_process_is_refused_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "99", "RANK": "98", "LOCAL_RANK": "98"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="process 98 of this machine has no GPU"), joined(torch.device("cuda")):
        pass
    with pytest.raises(ValueError, match="choose device cuda, not cuda:0"), joined(torch.device("cuda", 0)):
        pass
    assert Ranks(1, 2, 1).device(torch.device("cuda")) == torch.device("cuda", 1)


def test_the_peak_of_memory_counts_what_was_given_back(tmp_path: Path) -> None:
    def work() -> int:
        before = peak_memory()
        values = torch.ones(2**26)
        assert values.sum() == 2**26
        del values
        return peak_memory() - before

    # in a process of its own: this one may have had more memory before, in another test
    assert 2**27 < in_child(work, tmp_path) < 2**30


def test_a_lost_process_is_an_error_of_the_system() -> None:
    assert issubclass(LostRankError, OSError)


def test_processes_on_several_machines_share_by_their_numbers_among_all() -> None:
    shares = [Ranks(rank, 4, local=rank % 2).share(torch.arange(6)).tolist() for rank in range(4)]
    assert shares == [[0, 1], [2, 3], [4], [5]]
