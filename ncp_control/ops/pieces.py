"""One long scan as many short ones side by side, for a cell that forgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from ncp_control.ops.cpu import library
from ncp_control.ops.problem import ScanProblem

SHORTEST = 64  # no shorter piece is worth the steps before it
BEFORE = 4  # a piece first takes a fourth as many of the steps before it
ROWS = {"gpu": 1024, "reference": 64}  # which run in hardly more time than one; for kernels on the CPU, see below
CLOSE = 64  # roundings by which a piece may miss the end of the piece before it


def check_pieces(parallel: object) -> None:
    """Refuses what is neither true, false nor a number of pieces."""
    if not isinstance(parallel, bool | int) or parallel < 0:
        raise ValueError(f"parallel is true, false or a number of pieces, got {parallel!r}")


def pieces_of(problem: ScanProblem, parallel: bool | int, backend: str) -> int:
    """Returns into how many pieces to cut each row's steps.

    :param problem: the scan
    :param parallel: a number of pieces, or true for as many as fill the lanes of the processor
    :param backend: the backend that will run them
    """
    check_pieces(parallel)
    batch, time = problem.inputs.shape[:2]
    if parallel is not True:
        return max(1, min(int(parallel), time))
    if backend == "cpu":
        rows = library.vector_bytes() // problem.inputs.element_size() * torch.get_num_threads()
    else:
        rows = ROWS[backend]
    return max(1, min(rows // max(batch, 1), time // SHORTEST))


def run_in_pieces(problem: ScanProblem, pieces: int, run: Callable[[ScanProblem], Tensor]) -> Tensor:
    """Returns the states of a scan, (B, T, N), whose steps are cut into pieces that run at the same time.

    Each piece starts where a run over a part of the piece before it ends. If the cell has forgotten by then from where
    that run started, this is where the piece before ends, too. Where it is not, up to rounding, all pieces run again
    from where the pieces before them ended. So the result is that of the whole scan: exact from the beginning for one
    piece more with every run, at the latest after as many runs as there are pieces.

    Gradients reach back through the steps that were run, and at a seam no further than the cell remembers.

    :param problem: the scan
    :param pieces: how many pieces each row has
    :param run: runs a problem on a backend
    """
    batch, time = problem.inputs.shape[:2]
    length = -(-time // pieces)
    cut = _cut(problem, pieces, length)
    first = problem.state[:, None]
    own = cut.state.view(batch, pieces, -1)
    last = max(1, length // BEFORE)
    ahead = run(_each(cut, lambda values: values[:, -last:]))[:, -1].view_as(own)
    starts = torch.cat([first, ahead[:, :-1]], dim=1)
    for _ in range(pieces):
        states = run(replace(cut, state=starts.flatten(0, 1)))
        ends = states[:, -1].view_as(own)
        wanted = torch.cat([first, ends[:, :-1]], dim=1)
        if _same(starts.detach(), wanted.detach()):
            break
        starts = wanted
    return states.view(batch, pieces * length, -1)[:, :time]


def _cut(problem: ScanProblem, pieces: int, length: int) -> ScanProblem:
    """Returns the pieces as rows, (B * pieces, length, I), with steps at the end that change nothing."""
    batch, time = problem.inputs.shape[:2]
    lacking = pieces * length - time

    def rows(values: Tensor) -> Tensor:
        padding = [0, 0] * (values.dim() - 2) + [0, lacking]
        padded = functional.pad(values, padding) if lacking else values
        return padded.reshape(batch * pieces, length, *values.shape[2:])

    if lacking and problem.mask is None:
        problem = replace(problem, mask=torch.ones_like(problem.inputs[..., 0], dtype=torch.bool))
    return replace(_each(problem, rows), state=problem.state.repeat_interleave(pieces, dim=0))


def _each(problem: ScanProblem, change: Callable[[Tensor], Tensor]) -> ScanProblem:
    """Returns the scan with everything changed that has a value for each step, (B, T, ...)."""
    elapsed, reset, mask = problem.elapsed, problem.reset, problem.mask
    return replace(
        problem,
        inputs=change(problem.inputs),
        elapsed=change(elapsed) if isinstance(elapsed, Tensor) and elapsed.dim() == 2 else elapsed,
        reset=None if reset is None else change(reset),
        mask=None if mask is None else change(mask),
    )


def _same(one: Tensor, other: Tensor) -> bool:
    """Returns whether two sets of states differ by no more than rounding; NaN is NaN."""
    allowed = CLOSE * torch.finfo(one.dtype).eps
    return torch.allclose(one, other, rtol=allowed, atol=allowed, equal_nan=True)
