"""Damages files by chance (flipped, cut, spliced), and forges them so that every checksum still fits."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from ncp_control.base.tensors import checksum

SIZES = (0, 1, 2, 7, 127, 255, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 10**6, 10**9, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, float("nan"),
    float("inf"), "", "x", "../x", "\x00", "\ud800", "é" * 300, "ltc", "MixedMemory", [], [1], [[]], {}, {"a": 1},
    {"cell": "LTC"}, [10**9, 10**9], [-1, 3], ["x", None], "__class__", "nan", "1e999",
)  # fmt: skip


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return open, (str(self.mark), "w")


def damaged(content: bytes, random: Random, other: bytes) -> bytes:
    """Damages a content one to three times; parts of `other`, a file of the same kind, may be mixed in."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(ACCIDENTS)(content, random, other)
    return content


def flip(content: bytes, random: Random, other: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8)) if found else 0):
        found[random.randrange(len(found))] ^= 1 << random.randrange(8)
    return bytes(found)


def flip_early(content: bytes, random: Random, other: bytes) -> bytes:
    """Flips bits in the first 512 bytes, where headers are."""
    return flip(content[:512], random, other) + content[512:]


def cut(content: bytes, random: Random, other: bytes) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def insert(content: bytes, random: Random, other: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.randbytes(random.choice((1, 2, 8, 64))) + content[place:]


def delete(content: bytes, random: Random, other: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + content[place + random.choice((1, 2, 8, 64, 1000)) :]


def blank(content: bytes, random: Random, other: bytes) -> bytes:
    place, length = random.randrange(len(content) + 1), random.choice((1, 4, 16, 512))
    return (
        content[:place]
        + random.choice((b"\x00", b"\xff")) * len(content[place : place + length])
        + content[place + length :]
    )


def repeat(content: bytes, random: Random, other: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + content[max(0, place - random.choice((1, 16, 300))) :]


def splice(content: bytes, random: Random, other: bytes) -> bytes:
    return content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other) + 1) :]


def resize(content: bytes, random: Random, other: bytes) -> bytes:
    """Writes another number where a length may be."""
    place = 0 if random.random() < 0.5 else random.randrange(max(1, len(content) - 8))
    form = random.choice(("<Q", "<I", "<H"))
    number = struct.pack("<Q", random.choice(SIZES))[: struct.calcsize(form)]
    return content[:place] + number + content[place + len(number) :]


ACCIDENTS: tuple[Callable[[bytes, Random, bytes], bytes], ...] = (
    flip, flip, flip_early, cut, insert, delete, blank, repeat, splice, resize,
)  # fmt: skip


def altered(value: Any, random: Random) -> Any:
    """Replaces, removes, renames, moves or nests one to three of some JSON values."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(places_in(value))
        if not places:
            return random.choice(STRANGE)
        holder, key = random.choice(places)
        change = random.randrange(8)
        if change < 4:
            holder[key] = copy.deepcopy(random.choice(STRANGE))
        elif change == 4:
            del holder[key]
        elif change == 5 and isinstance(holder, dict):
            holder[random.choice(("x", "", "cell", "../" + key))] = holder.pop(key)
        elif change == 6:
            other, where = random.choice(places)
            holder[key] = copy.deepcopy(other[where])
        else:
            for _ in range(random.choice((1, 3, 90))):
                holder[key] = [holder[key]]
    return value


def places_in(value: Any) -> Any:
    """Yields the holder and the key of every value within a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, own in list(items):
        yield value, key
        yield from places_in(own)


def json_text(value: Any, random: Random) -> str:
    """Writes JSON, sometimes with a repeated key, too deep for any parser, with a very long number, or cut short."""
    text = json.dumps(value)
    trick = random.randrange(40)
    if trick == 0:
        return text.replace("{", '{"format": "other", "cell": 3, ', 1)
    if trick == 1:
        return text.replace(": ", ": " + "[" * 100_000, 1)
    if trick == 2:
        return text.replace("1", "1" * 5000, 1)
    if trick == 3:
        return text[: random.randrange(len(text) + 1)]
    return text


def forged(content: bytes, described: tuple[str, ...], random: Random) -> bytes:
    """Forges a checkpoint with another description or other tensors, and a checksum that fits them."""
    length = struct.unpack("<Q", content[:8])[0]
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    tensors = load(content)
    if random.random() < 0.75:
        key = random.choice((*described, *described, "format", "version", "package"))
        if key in described:
            written = json.loads(metadata[key])
            metadata[key] = json_text(altered(written, random), random)
        else:
            metadata[key] = str(random.choice(STRANGE)).encode("utf-8", "replace").decode()
    else:
        tensors = other_tensors(tensors, random)
    metadata = {key: value.encode("utf-8", "replace").decode() for key, value in metadata.items()}
    metadata["sha256"] = checksum(metadata, described, tensors)
    return save(tensors, metadata)


def other_tensors(tensors: dict[str, torch.Tensor], random: Random) -> dict[str, torch.Tensor]:
    """Changes the type, the shape or the values of one tensor, removes it, or adds another."""
    name = random.choice(sorted(tensors))
    value = tensors[name]
    kinds = (torch.int64, torch.bool, torch.float16, torch.complex64, torch.float8_e4m3fn, torch.uint8, torch.float64)
    changes: tuple[Callable[[], dict[str, torch.Tensor]], ...] = (
        lambda: {name: value.to(random.choice(kinds))},
        lambda: {name: value.reshape(-1)[:-1].clone()},
        lambda: {name: value[None].clone()},
        lambda: {name: torch.zeros(random.choice(((0,), (0, 5), (1,), (3, 3, 3), ())))},
        lambda: {"x": value.clone()},
        lambda: {name: torch.full_like(value, float("nan")) if value.is_floating_point() else value},
    )
    if random.random() < 0.2:
        return {key: own for key, own in tensors.items() if key != name}
    return {**tensors, **random.choice(changes)()}


def reheaded(content: bytes, random: Random) -> bytes:
    """Changes the header of a safetensors file: offsets, shapes, types."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json_text(altered(json.loads(content[8 : 8 + length]), random), random).encode("utf-8", "replace")
    declared = len(header) if random.random() < 0.8 else random.choice(SIZES)
    return struct.pack("<Q", declared) + header + content[8 + length :]


def rezipped(content: bytes, random: Random, trap: Path) -> bytes:
    """Renames, removes, doubles, swaps or pickles members of an `.npz`, or changes their headers; its checksums fit."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    k = random.randrange(len(members))
    name, inside = members[k]
    change = random.randrange(8)
    if change == 0:
        outside = random.choice(
            ("../x", "/tmp/x", "..\\x", "", "x" * 300, "a/../../x.npy", name + "/", "observations.npy")
        )
        members[k] = outside, inside
    elif change == 1:
        del members[k]
    elif change == 2:
        members.append((name, members[random.randrange(len(members))][1]))
    elif change == 3:
        members[k] = name, members[random.randrange(len(members))][1]
    elif change == 4:
        members[k] = name, objects(trap) if random.random() < 0.5 else pickle.dumps(Trap(trap))
    elif change == 5:
        members[k] = name, damaged(inside, random, members[0][1])
    else:
        members[k] = name, reshaped(inside, random)
    buffer = io.BytesIO()
    packing = random.choice((zipfile.ZIP_STORED,) * 6 + (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", packing) as archive:
        warnings.filterwarnings("ignore", "Duplicate name")
        for name, inside in members:
            archive.writestr(zipfile.ZipInfo(name or "x"), inside, packing)
    return buffer.getvalue() if random.random() < 0.8 else misdeclared(buffer.getvalue(), random)


def misdeclared(content: bytes, random: Random) -> bytes:
    """Changes sizes, compressions or places in the directory of an archive."""
    found = bytearray(content)
    place = found.find(b"PK\x01\x02", random.randrange(len(found)))
    place = found.find(b"PK\x01\x02") if place < 0 else place
    field, form = random.choice(((8, "<H"), (10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (28, "<H"), (42, "<I")))
    struct.pack_into(form, found, place + field, random.choice(SIZES) % 2 ** (8 * struct.calcsize(form)))
    return bytes(found)


def objects(trap: Path) -> bytes:
    """Makes an `.npy` of Python objects."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap(trap)], dtype=object), allow_pickle=True)
    trap.unlink(missing_ok=True)  # NumPy has not unpickled it, but to be sure
    return buffer.getvalue()


def reshaped(content: bytes, random: Random) -> bytes:
    """Makes an `.npy` with another header."""
    shape = random.choice(
        ("()", "(1,)", "(3,)", "(-1,)", "(-5, 2)", "(0, 10**30)", f"(0, {10**30})", f"({2**62}, 4)", "(1099511627776,)",
         "(True, 2)", "(1.5,)", "('a',)", "[3]", "(" * 200, "-" * 5000 + "1", "(" + "1," * 3000 + ")", "(2, 3)")
    )  # fmt: skip
    kind = random.choice(
        ("'<f8'", "'>f8'", "'<f4'", "'|O'", "'<U1000000000'", "'<U4'", "'|V99999'", "'<c16'", "'<M8[s]'", "'|b1'",
         "'<i8'", "[('a', '<f8', (1000000000,))]", "[('a', '|O')]", "'junk'", "5", "('<f8', (2,))", "'(1,2)f4'",
         "__import__('os')")
    )  # fmt: skip
    text = f"{{'descr': {kind}, 'fortran_order': {random.choice(('True', 'False', '7'))}, 'shape': {shape}, }}".encode()
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack(
        "<H" if version == b"\x01\x00" else "<I", len(text) % 65536 if version == b"\x01\x00" else len(text)
    )
    return b"\x93NUMPY" + version + length + text + content[128:]
