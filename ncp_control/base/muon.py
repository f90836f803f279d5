"""Muon, an optimizer for weights that form matrices, also for matrices of which only some entries exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# The coefficients of Muon's authors (Jordan and others, 2024). Five steps bring all singular values near 1.
NEWTON_SCHULZ, STEPS = (3.4445, -4.7750, 2.0315), 5
UPDATE = 0.2  # the root mean square of an update over the learning rate, about that of Adam


class LinearWeights(NamedTuple):
    """A parameter whose entries are the weights of one or more linear maps.

    :param parameter: the weights
    :param shape: number of maps, and the rows and columns of each
    :param places: the places of a map's weights in its flattened matrix, (E,); None if all entries exist
    """

    parameter: Tensor
    shape: tuple[int, int, int]
    places: Tensor | None = None

    def matrices(self, values: Tensor) -> Tensor:
        """Returns values like the parameter's as matrices (maps, rows, columns), zero where no weight is."""
        maps, rows, columns = self.shape
        if self.places is None:
            return values.reshape(self.shape)
        flat = values.new_zeros(maps, rows * columns)
        return flat.index_copy_(1, self.places, values.reshape(maps, -1)).reshape(self.shape)

    def values(self, matrices: Tensor) -> Tensor:
        """Returns the entries that exist, in the parameter's shape."""
        flat = matrices.flatten(1)
        found = flat if self.places is None else flat.index_select(1, self.places)
        return found.reshape(self.parameter.shape)


def linear_weights(model: nn.Module) -> list[LinearWeights]:
    """Returns the weights of all linear maps in a model: those of `nn.Linear`, and what modules with a method
    `linear_weights` name, as cells do."""
    weights: dict[int, LinearWeights] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            own: Iterable[LinearWeights] = [LinearWeights(module.weight, (1, *module.weight.shape))]
        else:
            own = getattr(module, "linear_weights", list)()
        weights.update({id(one.parameter): one for one in own})
    return list(weights.values())


class Muon(torch.optim.Optimizer):
    """Adam for all parameters but the weights of linear maps, whose momentum it makes orthogonal.

    With the gradient G of a matrix W (m, n) and its running mean B::

        B <- 0.95 B + 0.05 G
        W <- W - rate (0.2 sqrt(max(m, n)) U + decay W),   U: the orthogonal factor of 0.95 B + 0.05 G

    So all directions of a matrix move alike, while Adam moves mostly along the few in which gradients are large. A
    wiring's matrix has zeros where there is no synapse; these entries of U are left out.

    :param model: the model whose parameters are optimized
    :param lr: the learning rate of both
    :param weight_decay: decoupled weight decay, as in AdamW
    """

    def __init__(self, model: nn.Module, lr: float, weight_decay: float = 0.0) -> None:
        self.linear = {id(one.parameter): one for one in linear_weights(model)}
        self.betas, self.momentum, self.eps = (0.9, 0.99), 0.95, 1e-8
        # the last one is what torch adds to the defaults of an optimizer whose state is loaded
        super().__init__(list(model.parameters()), {"lr": lr, "weight_decay": weight_decay, "differentiable": False})

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state, and moves all of it to the device of the parameters.

        Torch leaves counts of steps where they were, and another processor rounds their powers otherwise.
        """
        super().load_state_dict(state_dict)
        for parameter, state in self.state.items():
            if "step" in state:
                state["step"] = state["step"].to(parameter.device)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Moves all parameters that have a gradient by one step."""
        if closure is not None:
            raise ValueError("Muon takes no closure: compute the gradients first")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if group["weight_decay"]:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                own = self.linear.get(id(parameter))
                # Biases, time constants and the like are no matrices.
                move = self._adam(parameter) if own is None else self._orthogonal(own)
                parameter.sub_(group["lr"] * move)

    def _orthogonal(self, own: LinearWeights) -> Tensor:
        """Returns the direction of a step of linear maps, and updates their momentum."""
        gradient, state = own.parameter.grad, self.state[own.parameter]
        assert gradient is not None
        if not state:
            state["mean"] = torch.zeros_like(own.parameter)
        mean = state["mean"].lerp_(gradient, 1 - self.momentum)
        # As Nesterov does it: the momentum, with the present gradient once more.
        found = orthogonal(own.matrices(gradient.lerp(mean, self.momentum)))
        scale: float = UPDATE * max(own.shape[1:]) ** 0.5
        return own.values(found) * scale

    def _adam(self, parameter: nn.Parameter) -> Tensor:
        """Returns the direction of a step of Adam, and updates its means."""
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        first_beta, second_beta = self.betas
        state["step"] += 1
        state["mean"].lerp_(gradient, 1 - first_beta)
        state["square"].lerp_(gradient.square(), 1 - second_beta)
        steps: Tensor = state["step"]
        mean: Tensor = state["mean"] / (1 - first_beta**steps)
        square: Tensor = state["square"] / (1 - second_beta**steps)
        return mean / (square.sqrt() + self.eps)


def orthogonal(matrices: Tensor) -> Tensor:
    """Returns the orthogonal factors of matrices (..., m, n), roughly: their singular values come near 1."""
    a, b, c = NEWTON_SCHULZ
    wide = matrices.shape[-2] <= matrices.shape[-1]  # the smaller Gram matrix is cheaper, and the factor is the same
    moved = matrices if wide else matrices.mT
    size: Tensor = moved.flatten(-2).norm(dim=-1)
    moved = moved / (size[..., None, None] + 1e-12)  # the iteration converges for singular values up to 1
    for _ in range(STEPS):
        gram = moved @ moved.mT
        moved = a * moved + (b * gram + c * gram @ gram) @ moved
    return moved if wide else moved.mT
