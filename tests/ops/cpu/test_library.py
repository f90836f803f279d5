"""Which compiled library is loaded, and that one which does not fit is refused with a sentence."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncp_control.ops.cpu import library
from ncp_control.ops.cpu.backend import available
from ncp_control.ops.cpu.structs import struct_sizes

COMPILER = shlex.split(os.environ.get("CXX", "c++"))


@pytest.fixture
def loaded_anew() -> Iterator[None]:
    """Forgets which library was loaded, before and after a test."""
    library.load.cache_clear()
    yield
    library.load.cache_clear()


@pytest.mark.skipif(not available()[0], reason=available()[1])
def test_a_level_can_be_chosen(loaded_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.CHOICE, "portable")
    loaded, _ = library.load()
    assert loaded is not None
    assert loaded.level == "portable"


@pytest.mark.skipif(not available()[0], reason=available()[1])
def test_a_level_that_does_not_exist_is_refused(loaded_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.CHOICE, "sse9")
    loaded, reason = library.load()
    assert loaded is None
    assert reason == "NCP_CONTROL_CPU_LEVEL is 'sse9': choose one of avx512, avx2, portable, or unset it"


@pytest.mark.skipif(not available()[0], reason=available()[1])
def test_a_level_that_was_not_built_is_refused(
    loaded_anew: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copy(library.path_of("portable"), tmp_path)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setenv(library.CHOICE, "avx2")
    loaded, reason = library.load()
    assert loaded is None
    assert reason == (
        "NCP_CONTROL_CPU_LEVEL is avx2, but that level was not built: choose one of portable, or unset it"
    )


@pytest.mark.parametrize("wrong", [None, *struct_sizes()])
def test_a_library_with_other_structs_is_refused(
    wrong: str | None, loaded_anew: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One struct is smaller than Python fills it; or, as in an older library, none says its size."""
    if shutil.which(COMPILER[0]) is None:
        pytest.skip("there is no C++ compiler")
    sizes = {name: size - 8 * (name == wrong) for name, size in struct_sizes().items()} if wrong else {}
    functions = [f'extern "C" int ncp_{name}_struct_bytes() {{ return {size}; }}' for name, size in sizes.items()]
    source = tmp_path / "library.cpp"
    source.write_text("\n".join(['extern "C" int ncp_best_level() { return 0; }', *functions]))
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.delenv(library.CHOICE, raising=False)
    target = library.path_of("portable")
    subprocess.run([*COMPILER, "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    loaded, reason = library.load()
    assert loaded is None
    different = wrong or ", ".join(struct_sizes())
    assert reason.startswith(f"the compiled kernels are of another version (struct of {different}): install a C++ ")
    assert "`make venv`" in reason
    assert "`pip install .`" in reason


def test_a_file_that_is_no_library_is_refused(
    loaded_anew: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.delenv(library.CHOICE, raising=False)
    library.path_of("portable").write_bytes(b"not a library")
    loaded, reason = library.load()
    assert loaded is None
    assert reason.startswith("the compiled kernels do not load (")
