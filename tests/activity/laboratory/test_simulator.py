"""MuJoCo's WebAssembly build comes from a given place, from the cache or from npm, and only if it is the known one."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.simulator import simulator_or_skip
from ncp_control.activity.laboratory import simulator as simulators
from ncp_control.activity.laboratory.simulator import (
    ARCHIVE,
    NOTICE,
    PACKAGE,
    VERSION,
    SimulatorBuild,
    cache_folder,
    licences,
    plain_script,
    simulator,
    simulator_parts,
)

BY_HAND = "run `npm pack @mujoco/mujoco@3.14.0` on a machine with npm and a network, and give its file with --wasm"
ON_LINUX = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="this rule is Linux's")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of a user."""
    folder = tmp_path / "cache" / "ncp_control"
    monkeypatch.setattr(simulators, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An archive of two small files, which is the right one for this test."""
    members = {"mujoco.js": b"export default 1", "mujoco.wasm": b"\0asm"}
    content = packed_archive({f"package/{name}": data for name, data in members.items()})
    hashes = {ARCHIVE: simulators._hash(content), **{name: simulators._hash(data) for name, data in members.items()}}
    monkeypatch.setattr(simulators, "HASHES", hashes)
    return content


def packed_archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as found:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            found.addfile(member, io.BytesIO(data))
    return file.getvalue()


def npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a program that is called npm first on the path."""
    program = folder / "npm"
    program.write_text(f"#!{sys.executable}\nimport shutil, sys\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def npm_with(archive: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an npm first on the path that fetches an archive, and notes its arguments in the file `calls`."""
    kept = folder / "kept.tgz"
    kept.write_bytes(archive)
    note = f"open({str(folder / 'calls')!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    npm(folder, f"{note}; shutil.copy({str(kept)!r}, {ARCHIVE!r})", monkeypatch)


def test_npm_fetches_the_build_once_and_the_cache_keeps_it(
    cache: Path, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_with(archive, tmp_path, monkeypatch)
    for _ in range(2):
        assert simulator() == SimulatorBuild("export default 1", b"\0asm", VERSION)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert calls[0].startswith(f"pack {PACKAGE}@{VERSION} --ignore-scripts")
    assert [file.name for file in cache.iterdir()] == [ARCHIVE]


def test_a_damaged_file_in_the_cache_is_fetched_anew(
    cache: Path, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_with(archive, tmp_path, monkeypatch)
    cache.mkdir(parents=True)
    (cache / ARCHIVE).write_bytes(archive[:-5])
    assert simulator().wasm == b"\0asm"
    assert (cache / ARCHIVE).read_bytes() == archive


def test_a_cache_that_cannot_be_written_only_costs_time(
    cache: Path, archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_with(archive, tmp_path, monkeypatch)
    cache.parent.write_text("a file where the folder should be")
    assert simulator().version == VERSION


def test_what_npm_fetched_must_be_the_known_file(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, f"open({ARCHIVE!r}, 'wb').write(b'something else')", monkeypatch)
    with pytest.raises(ValueError, match=r"is not the mujoco-mujoco-3.14.0.tgz of @mujoco/mujoco 3.14.0") as error:
        simulator()
    assert BY_HAND in str(error.value)
    assert not cache.exists()


def test_an_error_of_npm_is_one_sentence(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, "print('npm error code ENOTFOUND\\nnpm error more', file=sys.stderr); sys.exit(1)", monkeypatch)
    with pytest.raises(ValueError, match="ENOTFOUND") as error:
        simulator()
    assert str(error.value) == f"npm could not fetch {PACKAGE} {VERSION} (ENOTFOUND): {BY_HAND}"
    assert not cache.exists()


def test_an_npm_that_hangs_is_not_waited_for_without_end(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm(tmp_path, "import threading; threading.Event().wait()", monkeypatch)
    monkeypatch.setattr(simulators, "SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"npm did not fetch .* within 0.5 seconds"):
        simulator()


def test_without_npm_and_without_a_path_both_ways_are_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="there is no npm to fetch it: install npm, or") as error:
        simulator()
    assert BY_HAND in str(error.value)


def test_a_path_is_an_archive_or_a_folder_and_its_files_are_checked(
    cache: Path, archive: bytes, tmp_path: Path
) -> None:
    file, folder = tmp_path / "any name.tgz", tmp_path / "folder"
    file.write_bytes(archive)
    assert simulator(file).script == "export default 1"
    folder.mkdir()
    (folder / "mujoco.js").write_bytes(b"export default 1")
    with pytest.raises(ValueError, match=r"folder has no mujoco\.wasm"):
        simulator(folder)
    (folder / "mujoco.wasm").write_bytes(b"\0asm")
    assert simulator(str(folder)).wasm == b"\0asm"
    (folder / "mujoco.js").write_bytes(b"export default 2")
    with pytest.raises(ValueError, match=r"mujoco\.js is not the mujoco\.js of @mujoco/mujoco 3\.14\.0"):
        simulator(folder)
    file.write_bytes(archive + b"more")
    with pytest.raises(ValueError, match="its SHA-256 is another one"):
        simulator(file)
    with pytest.raises(ValueError, match="there is no file or folder"):
        simulator(tmp_path / "nowhere")
    assert not cache.exists()


@ON_LINUX
def test_the_cache_is_where_the_user_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "ncp_control"
    for given in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert cache_folder() == Path.home() / ".cache" / "ncp_control"


def test_other_systems_have_caches_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="darwin"))
    assert cache_folder() == Path.home() / "Library" / "Caches" / "ncp_control"
    monkeypatch.setattr(simulators, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "ncp_control"


def test_the_script_makes_no_code_from_text_and_ends_no_script_of_a_page() -> None:
    build = simulator_or_skip()
    script = plain_script(build)
    for mark in ("new Function", "eval(", "export default", "</script", "<script", "<!--"):
        assert mark not in script, mark
    code = "\n".join(line.partition("//")[0] for line in script.splitlines())
    assert "import.meta" not in code
    assert script.startswith(NOTICE.format(version=VERSION, package=PACKAGE))
    assert "This file was changed by ncp_control" in script
    assert "Apache License, Version 2.0" in script


@pytest.mark.system
def test_the_parts_of_a_page_are_the_same_each_time_and_hold_the_licence() -> None:
    build = simulator_or_skip()
    parts = simulator_parts(build)
    assert parts == simulator_parts(build)
    assert "Apache License" in licences()
    assert parts["licences"] == licences()


def test_a_script_that_is_not_the_known_one_is_refused() -> None:
    with pytest.raises(ValueError, match="is not the one that this version of ncp_control knows"):
        plain_script(SimulatorBuild("export default loadMujoco;", b"", VERSION))


@pytest.mark.system
def test_two_processes_may_fill_the_cache_at_once(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_with(archive, tmp_path, monkeypatch)
    code = (
        "from pathlib import Path; from ncp_control.activity.laboratory import simulator as s; "
        f"s.HASHES = {simulators.HASHES!r}; s.cache_folder = lambda: Path({str(tmp_path / 'one')!r}); "
        "assert s.simulator().version"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert [file.name for file in (tmp_path / "one").iterdir()] == [ARCHIVE]
