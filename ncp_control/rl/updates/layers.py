"""Fully connected layers with ReLU between them, forward and backward into buffers that are used again and again."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_masked = torch.ops.aten.threshold_backward.grad_input


class Layers:
    """Several `Linear` layers, h_k = relu(W_k h_(k-1) + b_k), and their gradients.

    Autograd gives each result new memory, and so many of them leave the processor's cache before they are read again.
    Here every result has one place. Each call overwrites the results of the call before.

    :param layers: the layers; may be empty
    :param batch: rows of a batch, B
    :param relu_at_end: whether a ReLU follows the last layer as well
    """

    def __init__(self, layers: list[nn.Linear], batch: int, relu_at_end: bool = False) -> None:
        self.layers = layers
        self._relus = [k < len(layers) - 1 or relu_at_end for k in range(len(layers))]
        self._results = [layer.weight.new_empty(batch, layer.out_features) for layer in layers]
        self._gradients = [layer.weight.new_empty(batch, layer.in_features) for layer in layers]

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the last layer's results, (B, n), for inputs (B, m)."""
        self._inputs = inputs
        found = inputs
        for layer, relu, result in zip(self.layers, self._relus, self._results, strict=True):
            found = torch.addmm(layer.bias, found, layer.weight.t(), out=result)
            if relu:
                found.relu_()
        return found

    def backward(self, gradient: Tensor, to_inputs: bool = True, to_weights: bool = True) -> Tensor:
        """Returns the gradient with respect to the inputs of the last `forward`.

        :param gradient: the gradient with respect to the last layer's results, (B, n); overwritten if a ReLU follows
            that layer
        :param to_inputs: without it, the gradient is not followed through the first layer, and what is returned is the
            gradient with respect to that layer's results
        :param to_weights: also set `grad` of each weight and bias
        """
        for k in reversed(range(len(self.layers))):
            layer = self.layers[k]
            if self._relus[k]:
                _masked(gradient, self._results[k], 0, grad_input=gradient)
            if to_weights:
                before = self._inputs if k == 0 else self._results[k - 1]
                torch.mm(gradient.t(), before, out=gradient_of(layer.weight))
                torch.sum(gradient, 0, out=gradient_of(layer.bias))
            if k or to_inputs:
                gradient = torch.mm(gradient, layer.weight, out=self._gradients[k])
        return gradient


def gradient_of(parameter: Tensor) -> Tensor:
    """Returns a parameter's `grad`, which is made if there is none."""
    if parameter.grad is None:
        parameter.grad = torch.empty_like(parameter)
    return parameter.grad


def layers_in(network: nn.Module) -> list[nn.Linear] | None:
    """Returns the layers of a network in which `Linear` and `ReLU` take turns; None for any other network."""
    parts = list(network) if isinstance(network, nn.Sequential) else [network]
    kinds = [type(part) for part in parts]
    if any(kind is not (nn.ReLU if k % 2 else nn.Linear) for k, kind in enumerate(kinds)):
        return None
    layers = [part for part in parts if isinstance(part, nn.Linear)]
    plain = all(layer.bias is not None and layer.weight.dtype == torch.float32 for layer in layers)
    return layers if plain else None
