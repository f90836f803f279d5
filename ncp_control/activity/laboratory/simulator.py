"""MuJoCo's own WebAssembly build: fetched with npm, compared with its hash, kept in a cache, and put into a page.

A laboratory holds the simulator, so that its page needs no network. The build is MuJoCo's own package; this project has
no copy of it, only its hashes.

MuJoCo publishes a module for web servers. It asks where it was loaded from, and it makes functions from texts, which a
page under a strict content policy may not do. Six places of it are replaced, so that it is a plain script, which a page
runs without a network and without making code from text. What they compute stays the same.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ncp_control.base.files import write_atomically

PACKAGE, VERSION = "@mujoco/mujoco", "3.14.0"
ARCHIVE = f"mujoco-mujoco-{VERSION}.tgz"  # what `npm pack` calls it
SCRIPT, WASM = "mujoco.js", "mujoco.wasm"
# SHA-256 of the archive and of its two members that a page holds.
HASHES = {
    ARCHIVE: "f845a07ab81303cc6579fec07136818bed21d44a31c1911340f61e06f4d11eee",
    SCRIPT: "bc6980e4bc5ee5f809a6cabde0743798637e113d333f9e85124714d42be1ccae",
    WASM: "2d380f1070a556c3003b4a7c7c10c98a5f61db4e91815de1075ec478e9487e76",
}
SECONDS = 180  # npm may take so long
COMMAND = f"npm pack {PACKAGE}@{VERSION}"
BY_HAND = f"run `{COMMAND}` on a machine with npm and a network, and give its file with --wasm"
NOTICE = """/*
 * MuJoCo, version {version}: the file mujoco.js of the npm package {package}.
 * Copyright DeepMind Technologies Limited. Licensed under the Apache License, Version 2.0.
 * This file was changed by ncp_control: it is a plain script in place of a module, it looks for no other file, and two
 * functions that were made from texts are closures. The WebAssembly beside it is as it was published.
 */
"""


class SimulatorBuild(NamedTuple):
    """MuJoCo's WebAssembly build.

    :param script: the JavaScript that opens it, as MuJoCo publishes it
    :param wasm: the WebAssembly
    :param version: its version
    """

    script: str
    wasm: bytes
    version: str


def simulator(path: str | Path | None = None) -> SimulatorBuild:
    """Returns MuJoCo's WebAssembly build.

    :param path: the `.tgz` of `npm pack`, or a folder with `mujoco.js` and `mujoco.wasm`. Without one the build comes
        from the user's cache or, the first time, from npm
    """
    if path is not None:
        return _given(Path(path))
    cached = cache_folder() / ARCHIVE
    if cached.is_file():
        content = cached.read_bytes()
        if _hash(content) == HASHES[ARCHIVE]:
            return _members(content)
    content = _packed_by_npm()
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cached, content)
    except OSError:
        pass  # a cache that cannot be written only costs time
    return _members(content)


def cache_folder() -> Path:
    """Returns the folder in which the user's system keeps what can be fetched again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not Path(base).is_absolute():  # as the rule for this variable says
            base = str(Path.home() / ".cache")
    return Path(base) / "ncp_control"


def _given(path: Path) -> SimulatorBuild:
    """Reads the build from a place that the user named."""
    if path.is_dir():
        missing = [name for name in (SCRIPT, WASM) if not (path / name).is_file()]
        if missing:
            raise ValueError(
                f"{path} has no {missing[0]}: give the .tgz of `{COMMAND}`, or a folder with {SCRIPT} and {WASM} of it"
            )
        members = {}
        for name in (SCRIPT, WASM):
            members[name] = (path / name).read_bytes()
            _check(members[name], name, path / name)
        return SimulatorBuild(members[SCRIPT].decode("utf-8"), members[WASM], VERSION)
    if not path.is_file():
        raise ValueError(f"there is no file or folder {path}: {BY_HAND}")
    content = path.read_bytes()
    _check(content, ARCHIVE, path)
    return _members(content)


def _packed_by_npm() -> bytes:
    """Fetches the archive with npm. Nothing is installed, and no script of the package runs."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(
            f"the page needs MuJoCo's WebAssembly build, {PACKAGE} {VERSION}, and there is no npm to fetch it: install "
            f"npm, or {BY_HAND}"
        )
    with tempfile.TemporaryDirectory() as folder:
        # Scripts of a package could run anything, and a hash is compared only afterwards.
        command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--no-update-notifier"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ValueError(f"npm did not fetch {PACKAGE} {VERSION} within {SECONDS} seconds: {BY_HAND}") from None
        except OSError as error:
            raise ValueError(f"npm does not run ({error.strerror or error}): {BY_HAND}") from None
        packed = Path(folder) / ARCHIVE
        if done.returncode or not packed.is_file():
            raise ValueError(f"npm could not fetch {PACKAGE} {VERSION} ({_reason(done.stderr)}): {BY_HAND}")
        content = packed.read_bytes()
    _check(content, ARCHIVE, Path("what npm fetched"))
    return content


def _reason(errors: bytes) -> str:
    """Returns npm's code of an error, such as ENOTFOUND."""
    for line in errors.decode("utf-8", "replace").splitlines():
        words = line.split()
        if "code" in words[:-1]:
            return words[words.index("code") + 1]
    return "it gave no reason"


def _members(content: bytes) -> SimulatorBuild:
    """Reads the two members of an archive whose hash is known; nothing is unpacked to a disk."""
    members = {}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        for name in (SCRIPT, WASM):
            member = archive.extractfile(f"package/{name}")
            assert member is not None
            members[name] = member.read()
            _check(members[name], name, Path(name))
    return SimulatorBuild(members[SCRIPT].decode("utf-8"), members[WASM], VERSION)


def _check(content: bytes, name: str, where: Path) -> None:
    if _hash(content) != HASHES[name]:
        raise ValueError(
            f"{where} is not the {name} of {PACKAGE} {VERSION}, because its SHA-256 is another one: {BY_HAND}"
        )


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


_INVOKER = """      var invokerFn = function (...given) {
        checkArgCount(given.length, minArgs, expectedArgCount, humanName, throwBindingError);
        const destructors = needsDestructorStack ? [] : null;
        const wired = [];
        if (isClassMethodFunc) wired.push(argTypes[1].toWireType(destructors, this));
        for (let k = 0; k < expectedArgCount; k++) wired.push(argTypes[k + 2].toWireType(destructors, given[k]));
        const found = cppInvokerFunc(cppTargetFunc, ...wired);
        if (needsDestructorStack) runDestructors(destructors);
        else wired.forEach((value, k) => {
          const destroy = argTypes[isClassMethodFunc ? k + 1 : k + 2].destructorFunction;
          if (destroy !== null) destroy(value);
        });
        return returns ? argTypes[0].fromWireType(found) : undefined;
      };
"""
_CALLER = """      var invokerFunction = (obj, func, destructorsRef, place) => {
        const given = kind === 0 ? [obj] : [];
        let offset = 0;
        for (const type of types) {
          given.push(type.readValueFromPointer(place + offset));
          offset += type.argPackAdvance;
        }
        const found = kind === 1 ? new func(...given) : func.call(...given);
        return retType.isVoid ? undefined : emval_returnValue(retType, destructorsRef, found);
      };
"""
CHANGES = (
    ("  var require = createRequire(import.meta.url);\n", ""),
    ("var _scriptName = import.meta.url;\n", 'var _scriptName = "";\n'),
    ("  return new URL('mujoco.wasm', import.meta.url).href;\n", '  return "mujoco.wasm";\n'),
    (
        "      let [args, invokerFnBody] = createJsInvoker(argTypes, isClassMethodFunc, returns, isAsync);\n"
        "      var invokerFn = new Function(...args, invokerFnBody)(...closureArgs);\n",
        _INVOKER,
    ),
    ("      var invokerFunction = new Function(...params, functionBody)(...args);\n", _CALLER),
    ("export default loadMujoco;", ""),
)


def simulator_parts(simulator: SimulatorBuild) -> dict[str, str]:
    """Returns what a page holds of the simulator, for `openSimulator` of `simulator.js`.

    :return: "script", a plain script that defines `loadMujoco`; "wasm", the WebAssembly in gzip and base64, always the
        same text for the same bytes; and "licences", the texts of MuJoCo's licences
    """
    wasm = gzip.compress(simulator.wasm, compresslevel=9, mtime=0)  # gzip would add the time of day
    return {
        "script": plain_script(simulator),
        "wasm": base64.b64encode(wasm).decode("ascii"),
        "licences": licences(),
    }


def plain_script(simulator: SimulatorBuild) -> str:
    """Returns MuJoCo's JavaScript as a plain script; see the top of this module."""
    text = simulator.script
    # A text that is there twice, or not at all, shows that this is another script than the one that was read.
    for before, after in CHANGES:
        if text.count(before) != 1:
            raise ValueError(
                f"the script of {PACKAGE} {simulator.version} is not the one that this version of ncp_control knows: "
                f"{before.strip()!r} should be found in it once"
            )
        text = text.replace(before, after)
    if any(mark in text.lower() for mark in ("</script", "<script", "<!--")):
        raise ValueError(f"the script of {PACKAGE} {simulator.version} would end the script of the page around it")
    return NOTICE.format(version=simulator.version, package=PACKAGE) + text


def licences() -> str:
    """Returns the licences of MuJoCo and of its parts, as its installed Python package has them."""
    files = metadata.files("mujoco") or []
    texts = sorted(file for file in files if file.name in ("LICENSE", "LICENSES_THIRD_PARTY.md"))
    return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in texts)
