"""What the page has to know of the installed NumPy to draw the same normal numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64
_MODULUS = 1 << 128


def normal_widths() -> NDArray[np.float64]:
    """Returns the widths of the 256 layers of NumPy's ziggurat, each divided by 2^52.

    NumPy does not show them. It draws a number as a random place in a layer, times the layer's width; so the number at
    place 1 is the width. The generator is put into the states whose next 64 bits say this place and each layer.
    """
    bits = np.random.PCG64(0)
    generator, back = np.random.Generator(bits), pow(_MULTIPLIER, -1, _MODULUS)
    found = []
    for layer in range(256):
        wanted = 1 << 9 | layer
        before = (wanted - 1) * back % _MODULUS
        bits.state = {"bit_generator": "PCG64", "state": {"state": before, "inc": 1}, "has_uint32": 0, "uinteger": 0}
        found.append(generator.standard_normal())
    return np.array(found)
