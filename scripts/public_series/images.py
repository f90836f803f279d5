"""Written digits as series: row after row of an image, and at the end the digit.

`smnist` is sequential MNIST: 60,000 images for training and 10,000 for test, 28 rows of 28 pixels each (LeCun, Cortes
and Burges). Files: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
`t10k-labels-idx1-ubyte` in the publishers' IDX format; a dot in place of the last hyphen but one
(`train-images.idx3-ubyte`) is accepted, too. The paper (Hasani et al., 2021): pixels scaled to [0, 1], 10 % of the
training images for validation, one class for a whole series, scored by accuracy. Decided here: the images for
validation are drawn at random.

`digits` is a small relative that is in no table of the paper: 1,797 images of 8 rows of 8 pixels from 0 to 16, the test
half of the UCI Machine Learning Repository's "Optical Recognition of Handwritten Digits". File: `digits.csv.gz` as
scikit-learn installs it in its folder `sklearn/datasets/data`, with 64 pixels and the digit in each row; the
publishers' `optdigits.tes` has the same rows. Decided here: pixels scaled to [0, 1], and 75 %, 10 % and 15 % for
training, validation and test at random, although the same people wrote in all parts.
"""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ncp_control.series.data import Series, SeriesData
from scripts.public_series.files import class_of, find_files, read_bytes, read_matrix
from scripts.public_series.windows import TEST, random_parts

MNIST_FILES = tuple(
    f"{part}-{kind}-{format_}|{part}-{kind}.{format_}"
    for part in ("train", "t10k")
    for kind, format_ in (("images", "idx3-ubyte"), ("labels", "idx1-ubyte"))
)
MNIST_PUBLISHER = "the MNIST database of LeCun, Cortes and Burges"
DIGIT_PUBLISHER = (
    "scikit-learn's folder sklearn/datasets/data, or of the UCI Machine Learning Repository's optical digits"
)
DIGITS = {str(k): k for k in range(10)}
UNSIGNED_BYTES = 8  # the kind of number that an IDX file says it has


def read_smnist(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads MNIST; see the module for files and decisions. The stride is not used."""
    paths = find_files(folder, MNIST_FILES, MNIST_PUBLISHER)
    train, test = _mnist(*paths[:2]), _mnist(*paths[2:])
    parts = random_parts(len(train), seed, "smnist", test=0) + [TEST] * len(test)
    return _data(train + test, 28, {"files": [str(path) for path in paths], "parts": parts})


def read_digits(folder: str | PathLike[str], seed: int, stride: int) -> SeriesData:
    """Reads the small digits; see the module for files and decisions. The stride is not used."""
    paths = find_files(folder, ("digits.csv|optdigits.tes",), DIGIT_PUBLISHER)
    rows = read_matrix(paths[0], 65)
    digits = [class_of(paths[0], row, f"{digit:g}", DIGITS) for row, digit in enumerate(rows[:, -1], start=1)]
    series = _series(rows[:, :-1].reshape(-1, 8, 8) / 16, digits, paths[0].name)
    parts = random_parts(len(series), seed, "digits")
    return _data(series, 8, {"files": [str(paths[0])], "parts": parts})


def _mnist(images: Path, labels: Path) -> tuple[Series, ...]:
    pixels, digits = read_idx(images, 3), read_idx(labels, 1)
    if pixels.shape[1:] != (28, 28):
        raise ValueError(f"{images} has images of {pixels.shape[1]} by {pixels.shape[2]} pixels, not of 28 by 28")
    if len(pixels) != len(digits):
        raise ValueError(f"{labels} has {len(digits)} labels, and {images} has {len(pixels)} images")
    if digits.max(initial=0) > 9:
        raise ValueError(f"{labels}, label {int(np.argmax(digits > 9)) + 1} is {digits.max()}, and no digit")
    return _series(pixels / 255.0, digits.tolist(), images.name.partition("-")[0])


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Reads a file of bytes in the IDX format: two zeros, the kind of number, the number of dimensions, their sizes as
    32-bit numbers whose highest byte is first, and the numbers.
    """
    content = read_bytes(path)
    start = 4 + 4 * dimensions
    if len(content) < start or tuple(content[:4]) != (0, 0, UNSIGNED_BYTES, dimensions):
        raise ValueError(f"{path} is not an IDX file of bytes with {dimensions} dimensions")
    shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} has {len(content) - start} bytes after its sizes {shape}, and should have {math.prod(shape)}"
        )
    found: NDArray[np.uint8] = np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    return found


def _series(images: NDArray[np.float64], digits: list[int], name: str) -> tuple[Series, ...]:
    targets = np.array(digits, np.int64)[:, None]
    return tuple(
        Series(image, target, name=f"{name}, image {number}")
        for number, (image, target) in enumerate(zip(images, targets, strict=True), start=1)
    )


def _data(series: tuple[Series, ...], pixels: int, meta: dict[str, object]) -> SeriesData:
    names = tuple(f"pixel {k + 1}" for k in range(pixels))
    return SeriesData(series, names, ("digit",), tuple(DIGITS), whole=True, meta=meta)
