"""One long scan as many short ones side by side, which pays for a cell that forgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ncp_control.ops.cpu import library
from ncp_control.ops.problem import ScanProblem

SHORTEST = 64  # a shorter piece is not worth the run that finds its start
BEFORE = 4  # this run takes a fourth as many steps as a piece has
ROWS = {"gpu": 1024, "reference": 64}  # so many rows take hardly longer than one; `pieces_of` counts those of a CPU
SIDE_BY_SIDE = 2  # all pieces run so often at once, before those that still do not fit run one after another

Run = Callable[[ScanProblem], Tensor]


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


def run_in_pieces(problem: ScanProblem, pieces: int, run: Run) -> Tensor:
    """Returns the states of a scan, (B, T, N), whose steps are cut into pieces that run at the same time.

    A run over the last steps of the piece before it finds where a piece starts. If the cell forgets during these steps
    where that run started, the piece before ends there, too, to the last bit. Otherwise the pieces run again, in the
    end one after another, until each starts exactly where the one before it ends. So the result is that of the whole
    scan for every cell; with a cell that never forgets it takes as long.

    Gradients are those of the whole scan, too: what arrives at the start of a piece goes on from the end of the piece
    before it.

    :param problem: the scan
    :param pieces: how many pieces each row has
    :param run: runs a problem on a backend
    """
    batch, time = problem.inputs.shape[:2]
    length = -(-time // pieces)  # rounded up: the last piece is padded
    cut = _cut(problem, pieces, length)
    with torch.no_grad():
        starts = _ahead(cut, pieces, run)
    read = _differentiated(problem) if torch.is_grad_enabled() else []
    if read:
        states, begun = _recorded(cut, problem.state, starts, run)
        ends = states.detach()[:, :-1, -1]
        if not _same(starts[:, 1:], ends):
            with torch.no_grad():
                starts, _ = _fitted(cut, torch.cat([starts[:, :1], ends], dim=1), run)
            states, begun = _recorded(cut, problem.state, starts, run)
        states = _Joined.apply(cut, run, (states, begun), *read)  # type: ignore[no-untyped-call]
    else:
        _, states = _fitted(cut, starts, run)
    return states.reshape(batch, pieces * length, -1)[:, :time]


def _ahead(cut: ScanProblem, pieces: int, run: Run) -> Tensor:
    """Returns where each piece starts, (B, P, N), by runs over the last steps of the piece before it."""
    shape = cut.inputs.shape[0] // pieces, pieces
    before = max(1, cut.inputs.shape[1] // BEFORE)
    ends = run(_each(cut, lambda values: values[:, -before:]))[:, -1].unflatten(0, shape)
    return torch.cat([cut.state.unflatten(0, shape)[:, :1], ends[:, :-1]], dim=1)


def _recorded(cut: ScanProblem, state: Tensor, starts: Tensor, run: Run) -> tuple[Tensor, Tensor]:
    """Returns the states of the pieces, (B, P, L, N), and the leaf of the graph from which all but the first start."""
    begun = starts.clone().requires_grad_()
    own = torch.cat([state[:, None], begun[:, 1:]], dim=1)
    return run(replace(cut, state=own.flatten(0, 1))).unflatten(0, starts.shape[:2]), begun


def _fitted(cut: ScanProblem, starts: Tensor, run: Run) -> tuple[Tensor, Tensor]:
    """Returns where each piece starts, (B, P, N), and its states, (B, P, L, N), so that every seam fits.

    :param cut: the pieces as rows
    :param starts: where each piece is supposed to start
    :param run: runs a problem on a backend
    """
    pieces = starts.shape[1]
    for _ in range(SIDE_BY_SIDE):
        states = run(replace(cut, state=starts.flatten(0, 1))).unflatten(0, starts.shape[:2])
        if _same(starts[:, 1:], states[:, :-1, -1]):
            return starts, states
        # In every run one more piece starts where the one before it really ends, and in a cell that forgets all do.
        used, starts = starts, torch.cat([starts[:, :1], states[:, :-1, -1]], dim=1)
    for piece in range(1, pieces):
        starts[:, piece] = states[:, piece - 1, -1]
        if not _same(used[:, piece], starts[:, piece]):  # `states` are those of `used`
            states[:, piece] = run(replace(_piece(cut, pieces, piece), state=starts[:, piece]))
    return starts, states


class _Joined(torch.autograd.Function):
    """The states of pieces, (B, P, L, N), as those of one scan: in the backward pass, the gradient that arrives at the
    start of a piece is added at the end of the piece before it, until what arrives changes no more.
    """

    @staticmethod
    def forward(ctx: Any, cut: ScanProblem, run: Run, graph: tuple[Tensor, Tensor], *read: Tensor) -> Tensor:
        ctx.cut, ctx.run, ctx.graph, ctx.read = cut, run, graph, read
        return graph[0].detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("a scan in pieces has no second derivatives: run the whole one, with parallel=False")
        states, begun = ctx.graph
        pieces = begun.shape[1]
        total, ends = grad.clone(), grad[:, :-1, -1].clone()
        # As in the forward direction: the first steps of a piece may suffice to tell what arrives at its start.
        first = max(1, grad.shape[2] // BEFORE)
        few = _each(ctx.cut, lambda values: values[:, :first])
        arrived = _arriving(few, begun, total[:, :, :first], ctx.run)
        for _ in range(SIDE_BY_SIDE):
            before = arrived
            total[:, :-1, -1] = ends + before[:, 1:]
            arrived, *grads = torch.autograd.grad(
                states, (begun, *ctx.read), total, retain_graph=True, allow_unused=True
            )
            if _same(arrived[:, 1:], before[:, 1:]):
                return None, None, None, *grads
        for piece in range(pieces - 1, 0, -1):
            if piece < pieces - 1 and not _same(arrived[:, piece + 1], before[:, piece + 1]):
                piece_alone = slice(piece, piece + 1)
                arrived[:, piece_alone] = _arriving(
                    _piece(ctx.cut, pieces, piece), begun[:, piece_alone], total[:, piece_alone], ctx.run
                )
            total[:, piece - 1, -1] = ends[:, piece - 1] + arrived[:, piece]
        grads = torch.autograd.grad(states, ctx.read, total, retain_graph=True, allow_unused=True)
        return None, None, None, *grads


def _arriving(cut: ScanProblem, starts: Tensor, grad: Tensor, run: Run) -> Tensor:
    """Returns the gradient that arrives at the starts of pieces, (B, P, N), from that of their states, (B, P, L, N)."""
    leaf = starts.detach().flatten(0, 1).requires_grad_()
    with torch.enable_grad():
        states = run(replace(cut, state=leaf))
    (arrived,) = torch.autograd.grad(states, leaf, grad.flatten(0, 1))
    return arrived.view_as(starts)


def _differentiated(problem: ScanProblem) -> list[Tensor]:
    """Returns the tensors that the scan reads and that need a gradient."""
    cell: Any = problem.cell
    read = (problem.inputs, problem.state, problem.elapsed, *cell.parameters())
    return [value for value in read if isinstance(value, Tensor) and value.requires_grad]


def _piece(cut: ScanProblem, pieces: int, piece: int) -> ScanProblem:
    """Returns one piece of every row, (B, L, I)."""
    return _each(cut, lambda values: values[piece::pieces])


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
    """Returns the scan with a change of everything that has a value for each step, (B, T, ...)."""
    elapsed, reset, mask = problem.elapsed, problem.reset, problem.mask
    return replace(
        problem,
        inputs=change(problem.inputs),
        elapsed=change(elapsed) if isinstance(elapsed, Tensor) and elapsed.dim() == 2 else elapsed,
        reset=None if reset is None else change(reset),
        mask=None if mask is None else change(mask),
    )


def _same(first: Tensor, second: Tensor) -> bool:
    """Returns whether two sets of numbers are equal; NaN is NaN."""
    return bool(((first == second) | (first.isnan() & second.isnan())).all())
