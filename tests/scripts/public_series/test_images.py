"""Images as series: MNIST's files of bytes, and the small digits."""

import gzip
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scripts.public_series.sets import load_public


def idx(shape: tuple[int, ...], content: bytes, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape) + content


def write_mnist(folder: Path, train: int = 20, test: int = 5, name: str = "{}-{}-{}") -> None:
    """Image n has n + its row in every pixel, and shows the digit n modulo 10."""
    for part, count in (("train", train), ("t10k", test)):
        pixels = bytes(n + row for n in range(count) for row in range(28) for _ in range(28))
        (folder / name.format(part, "images", "idx3-ubyte")).write_bytes(idx((count, 28, 28), pixels))
        labels = gzip.compress(idx((count,), bytes(n % 10 for n in range(count))))
        (folder / f"{name.format(part, 'labels', 'idx1-ubyte')}.gz").write_bytes(labels)


@pytest.mark.parametrize("name", ["{}-{}-{}", "{}-{}.{}"])
def test_an_image_is_a_series_of_its_rows(name: str, tmp_path: Path) -> None:
    write_mnist(tmp_path, name=name)
    data = load_public("smnist", tmp_path)
    assert data.whole
    assert Counter(data.meta["parts"]) == {"train": 18, "valid": 2, "test": 5}
    assert data.meta["parts"][20:] == ["test"] * 5
    one = data.series[13]
    assert one.inputs.shape == (28, 28)
    assert one.inputs[:, 4] == pytest.approx((13 + np.arange(28)) / 255)
    assert one.targets.tolist() == [3]
    assert (one.name, data.series[20].name) == ("train, image 14", "t10k, image 1")
    assert data.classes == tuple("0123456789")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t10k-images-idx3-ubyte", b"PK", "is not an IDX file of bytes with 3 dimensions"),
        ("t10k-images-idx3-ubyte", idx((1, 1, 1), b"0", kind=13), "is not an IDX file of bytes with 3 dimensions"),
        ("t10k-images-idx3-ubyte", idx((1,), b"0"), "is not an IDX file of bytes with 3 dimensions"),
        (
            "t10k-images-idx3-ubyte",
            idx((1, 2, 3), b"12345"),
            "has 5 bytes after its sizes [1, 2, 3], and should have 6",
        ),
        ("t10k-images-idx3-ubyte", idx((1, 2, 3), b"123456"), "has images of 2 by 3 pixels, not of 28 by 28"),
        ("t10k-labels-idx1-ubyte", idx((4,), bytes(4)), "has 4 labels, and "),
        ("t10k-labels-idx1-ubyte", idx((5,), bytes([0, 1, 12, 3, 4])), "label 3 is 12, and no digit"),
    ],
)
def test_a_wrong_file_of_bytes_is_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(name) + ".*" + re.escape(message)):
        load_public("smnist", tmp_path)


def test_the_small_digits_are_rows_of_eight_pixels(tmp_path: Path) -> None:
    lines = [",".join(map(str, [*(p % 17 for p in range(n, n + 64)), n % 10])) for n in range(20)]
    (tmp_path / "digits.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    data = load_public("digits", tmp_path)
    assert Counter(data.meta["parts"]) == {"train": 15, "valid": 2, "test": 3}
    assert data.series[12].inputs[1].tolist() == [(p % 17) / 16 for p in range(20, 28)]
    assert data.series[12].targets.tolist() == [2]
    assert data.whole
    (tmp_path / "digits.csv.gz").unlink()
    (tmp_path / "optdigits.tes").write_text(lines[0] + "\n" + lines[1].rpartition(",")[0] + ",10\n")
    with pytest.raises(ValueError, match=re.escape("optdigits.tes, row 2: '10' is none of 0, 1")):
        load_public("digits", tmp_path)
