"""The steps of a fit from a CUDA graph, which launches all their kernels at once.

A small model's kernels take less time than the processor takes to launch them one by one. A graph only repeats what it
has captured: the same kernels on the same memory. So every batch is copied to one place, the learning rate lies on the
GPU, and a step reads nothing back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from ncp_control.base.progress import say
from ncp_control.data import Batch

WARM_UP = 3  # steps before a capture, in which kernels are compiled and libraries take the memory that they keep


class FitStep(Protocol):
    """A step of the fit, which waits for nothing and returns the loss without its history."""

    def __call__(self, batch: Batch, horizon: int, drawn: Tensor | None) -> Tensor: ...


class Recorder:
    """Runs and captures work on one stream of its own.

    Autograd remembers on which stream a gradient was first summed, and a capture fails if that was another one.

    :param device: the GPU
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def run(self, work: Callable[[], Tensor]) -> Tensor:
        """Does the work, and returns its result."""
        outside = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(outside)
        with torch.cuda.stream(self.stream):
            found = work()
        outside.wait_stream(self.stream)
        return found

    def capture(self, work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Notes the work without doing it. What is returned does it, and returns its result, always the same tensor."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            found = work()

        def replay() -> Tensor:
            graph.replay()
            return found

        return replay


class CapturedStep:
    """Does what `update` does, from a graph for each horizon.

    The first steps with a horizon are taken without a graph, and so are those of smaller batches, which are never
    captured. All of them count: the fit takes the same steps in the same order as without graphs.

    :param update: a step of the fit
    :param optimizer: what moves the weights in it: a fused AdamW, or Muon
    :param size: the number of windows in a whole batch
    :param device: the GPU
    :param needed: raise the error of a step that cannot be captured; otherwise it is told, and all steps are taken
        without a graph
    """

    def __init__(
        self, update: FitStep, optimizer: torch.optim.Optimizer, size: int, device: torch.device, needed: bool = True
    ) -> None:
        self.update, self.optimizer, self.size = update, optimizer, size
        self.rate = torch.zeros((), device=device)  # in float32, as the fused kernel reads it
        self.recorder, self.needed, self.usable = Recorder(device), needed, True
        self.horizon, self.warm = 0, 0
        self.replay: Callable[[], Tensor] | None = None
        self.inputs: tuple[Tensor | None, ...] = ()

    def __call__(self, batch: Batch, horizon: int, drawn: Tensor | None) -> Tensor:
        """Takes a step, and returns the loss, which the next step may overwrite."""
        self.rate.fill_(self.optimizer.param_groups[0]["lr"])
        if len(batch.observations) != self.size or not self.usable:
            return self.recorder.run(lambda: self.work(batch, horizon, drawn))
        if horizon != self.horizon:
            self.horizon, self.warm, self.replay = horizon, 0, None
            self.inputs = tuple(None if part is None else torch.empty_like(part) for part in (*batch, drawn))
        for kept, part in zip(self.inputs, (*batch, drawn), strict=True):
            if kept is not None and part is not None:
                kept.copy_(part)
        if self.replay is None:
            *parts, steps = self.inputs
            same = Batch(*parts)  # type: ignore[arg-type]
            if self.warm < WARM_UP:
                self.warm += 1
                return self.recorder.run(lambda: self.work(same, horizon, steps))
            try:
                self.replay = self.recorder.capture(lambda: self.work(same, horizon, steps, capturable=True))
            except RuntimeError as error:
                if self.needed:
                    raise
                self.usable = False
                why = str(error).partition("\n")[0]
                say(f"a CUDA graph cannot hold a step of this fit, so its kernels are launched one by one: {why}")
                return self.recorder.run(lambda: self.work(same, horizon, steps))
        return self.replay()

    def work(self, batch: Batch, horizon: int, drawn: Tensor | None, capturable: bool = False) -> Tensor:
        """Takes a step whose learning rate is read from memory.

        Afterwards the optimizer is as it was, so that a state is the same with and without graphs.
        """
        groups = self.optimizer.param_groups
        rate = groups[0]["lr"]
        for group in groups:
            group.update(lr=self.rate, capturable=capturable)
        try:
            return self.update(batch, horizon, drawn)
        finally:
            for group in groups:
                group.update(lr=rate, capturable=False)
