"""Public sets of series from the papers on liquid networks, read from files that the user brings.

    data = load_public("occupancy", "downloads/occupancy")
    train, valid, test = split_series(data)  # from ncp_control.series.splitting

`data.meta["parts"]` has "train", "valid" or "test" for each series. Nothing is downloaded. `PUBLIC` names the sets, and
the docstring of each set's module says which files it needs, what the paper did, and what was decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike

from ncp_control.series.data import SeriesData
from scripts.public_series.gesture import read_gesture
from scripts.public_series.har import read_har
from scripts.public_series.images import read_digits, read_smnist
from scripts.public_series.occupancy import read_occupancy
from scripts.public_series.ozone import read_ozone
from scripts.public_series.person import read_person_1, read_person_2
from scripts.public_series.power import read_power
from scripts.public_series.traffic import read_traffic
from scripts.public_series.windows import PARTS

__all__ = ["PUBLIC", "PublicSet", "load_public"]


@dataclass(frozen=True)
class PublicSet:
    """What is known of a set before its files are read.

    :param read: reads the set from a folder, a seed and a stride
    :param score: "accuracy", "F1" or "squared error"
    :param stride: how many rows after a window the next begins; None where the windows cannot be chosen
    """

    read: Callable[[str | PathLike[str], int, int], SeriesData]
    score: str
    stride: int | None = None


PUBLIC = {
    "gesture": PublicSet(read_gesture, "accuracy", 16),
    "occupancy": PublicSet(read_occupancy, "accuracy", 16),
    "har": PublicSet(read_har, "accuracy", 16),
    "smnist": PublicSet(read_smnist, "accuracy"),
    "digits": PublicSet(read_digits, "accuracy"),
    "traffic": PublicSet(read_traffic, "squared error", 16),
    "power": PublicSet(read_power, "squared error", 32),
    "ozone": PublicSet(read_ozone, "F1", 4),
    "person-1": PublicSet(read_person_1, "accuracy", 16),
    "person-2": PublicSet(read_person_2, "accuracy"),
}


def load_public(name: str, folder: str | PathLike[str], *, seed: int = 0, stride: int | None = None) -> SeriesData:
    """Reads a public set from its files.

    `meta` of what returns has the part of each series ("parts": "train", "valid" or "test"), the files, the score, the
    seed, the window and stride, and under "scale" the mean and standard deviation of what was normalised.

    :param name: one of `PUBLIC`
    :param folder: the folder with the files, under the names that the publishers gave them; each may end in `.gz`
    :param seed: for the random shares of training, validation and test
    :param stride: how many rows after a window the next begins; by default `PUBLIC[name].stride`. With overlapping
        windows that are shared out at random, as in the paper, test windows have rows in common with training windows;
        a stride of 32 leaves none
    """
    if name not in PUBLIC:
        raise ValueError(f"there is no public set {name!r}: choose one of {', '.join(PUBLIC)}")
    chosen = PUBLIC[name]
    if stride is not None and chosen.stride is None:
        raise ValueError(f"the series of {name} are fixed: leave the stride out")
    data = chosen.read(folder, seed, (chosen.stride or 0) if stride is None else stride)
    for own in PARTS:
        if own not in data.meta["parts"]:
            raise ValueError(f"the files of {name} have too few rows: there is no series for the part {own!r}")
    return replace(
        data, meta={"source": f"{name} in {folder}", "set": name, "score": chosen.score, "seed": seed, **data.meta}
    )
