"""MuJoCo's JavaScript as a plain script, which a page runs without a network and without making code from text.

MuJoCo publishes a module for web servers. It asks where it was loaded from, and it makes functions from texts, which a
page under a strict content policy may not do. Six places of it are replaced; what they compute stays the same.
"""

from __future__ import annotations

import base64
import gzip
from importlib import metadata

from ncp_control.activity.laboratory.simulator import PACKAGE, SimulatorBuild

NOTICE = """/*
 * MuJoCo, version {version}: the file mujoco.js of the npm package {package}.
 * Copyright DeepMind Technologies Limited. Licensed under the Apache License, Version 2.0.
 * This file was changed by ncp_control: it is a plain script in place of a module, it looks for no other file, and two
 * functions that were made from texts are closures. The WebAssembly beside it is as it was published.
 */
"""

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
    wasm = gzip.compress(simulator.wasm, compresslevel=9, mtime=0)
    return {
        "script": plain_script(simulator),
        "wasm": base64.b64encode(wasm).decode("ascii"),
        "licences": licences(),
    }


def plain_script(simulator: SimulatorBuild) -> str:
    """Returns MuJoCo's JavaScript as a plain script; see the module."""
    text = simulator.script
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
    """Returns the licences of MuJoCo and of what it is built from, as the installed Python package of it has them."""
    files = metadata.files("mujoco") or []
    found = sorted(file for file in files if file.name in ("LICENSE", "LICENSES_THIRD_PARTY.md"))
    return "\n\n".join(file.read_text(encoding="utf-8").strip() for file in found)
