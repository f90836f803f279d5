"""Every import goes down the house or stays on its floor, and never in a circle; and one public name is one thing.

Counted are all imports: those that run when a module loads, those inside of functions, those for types only, and those
of modules that a string names, such as "ncp_control.cli.as_job:run".
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"ncp_control": ROOT / "ncp_control", "ncp_envs": ROOT / "envs" / "ncp_envs"}

# A floor holds for a module and for everything below it in the folders.
FLOORS = {
    "ncp_control._version": 0,
    "ncp_control.base": 0,
    "ncp_control.wiring": 0,
    "ncp_control.solvers": 0,
    "ncp_control.runs": 1,
    "ncp_control.ops": 1,
    "ncp_control.neurons": 2,
    "ncp_control.rnn": 3,
    "ncp_control.checkpoint": 3,
    "ncp_control.ncps_reader": 3,
    "ncp_control.data": 4,
    "ncp_control.dynamics": 5,
    "ncp_control.rl": 5,
    "ncp_control.series": 6,
    "ncp_control.distil": 6,
    "ncp_control.activity": 6,
    "ncp_control.export": 6,
    "ncp_control.audit": 7,
    "ncp_control.loop": 7,
    "ncp_control.integrations": 7,
    "ncp_control.integrations.hub": 8,  # loads every kind of file
    "ncp_control.loading": 8,
    "ncp_control.scale": 8,
    "ncp_control.cli": 8,
    "ncp_envs": 0,
}
# Who knows nothing of whom on its own floor, or of a room below.
STRANGERS = {
    ("runs", "ops"),
    ("ops", "runs"),
    ("dynamics", "rl"),
    ("rl", "dynamics"),
    ("series", "rl"),
    ("series", "distil"),
    ("series", "activity"),
    ("series", "export"),
    ("distil", "dynamics"),
    ("distil", "activity"),
    ("activity", "distil"),
    ("export", "dynamics"),
    ("distil", "export"),
    ("export", "distil"),
    ("activity", "export"),
    ("export", "activity"),
    ("audit", "dynamics"),
    ("audit", "loop"),
    ("loop", "audit"),
    ("loop", "dynamics"),
    ("loop", "distil"),
    ("loop", "export"),
    ("loop", "integrations"),
    ("integrations", "loop"),
    ("audit", "distil"),
    ("audit", "export"),
    ("audit", "integrations"),
    ("integrations", "audit"),
}
# Stands on top of all floors and may import any of them; nobody imports it.
ROOF = "ncp_control"
# Every command has its own dataclass `Arguments`, by agreement.
COMMANDS = "ncp_control.cli."
# A string that names a module, perhaps with a name in it. Two parts without a name in it are a file's format, and the
# folder that a module is itself in is where its data lie.
NAMED = re.compile(r"(\w+\.\w+(?=:)|\w+(?:\.\w+){2,})(?::\w+)?")


class Import(NamedTuple):
    """One name that a module imports: the module that it comes from, and the line."""

    target: str
    line: int


def test_every_line_of_the_table_is_of_a_module() -> None:
    sources, _ = read_project()
    assert [name for name in FLOORS if not any(f"{module}.".startswith(f"{name}.") for module in sources)] == []


def test_imports_go_down_and_not_in_circles() -> None:
    sources, packages = read_project()
    assert "ncp_control.wiring" in packages
    assert find_faults(sources, packages) == []


def read_project() -> tuple[dict[str, str], set[str]]:
    """The source of every module by its dotted name, and which of them are packages."""
    sources: dict[str, str] = {}
    packages: set[str] = set()
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
                packages.add(".".join(parts))
            sources[".".join(parts)] = path.read_text(encoding="utf-8")
    return sources, packages


def find_faults(sources: dict[str, str], packages: set[str]) -> list[str]:
    """What breaks the rules, a sentence each; empty when nothing does."""
    faults = []
    imports = {module: list(find_imports(module, sources, packages)) for module in sources}
    for module, found in imports.items():
        if module == ROOF:
            continue
        floor = floor_of(module)
        if floor is None:
            faults.append(f"{module} has no floor")
            continue
        for target, line in found:
            where = f"{module}, line {line}"
            if module.startswith("ncp_envs") and target.split(".")[0] == ROOF:
                faults.append(f"{where}: ncp_envs must not import {target}")
            elif target == ROOF:
                faults.append(f"{where}: imports the package root; import from the module that defines the name")
            elif (above := floor_of(target)) is not None and above > floor:
                faults.append(f"{where}: floor {floor} imports {target} from floor {above}")
            elif (part_of(module), part_of(target)) in STRANGERS:
                faults.append(f"{where}: {part_of(module)} knows nothing of {part_of(target)}")
    graph = {module: {item.target for item in found} for module, found in imports.items()}
    faults += [f"a circle: {' -> '.join(circle)}" for circle in find_circles(graph)]
    return faults


def part_of(module: str) -> str:
    """The part of the package that a module is in."""
    return module.split(".")[1] if "." in module else ""


def floor_of(module: str) -> int | None:
    """The floor of the nearest name in the table that is the module or a folder above it."""
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((FLOORS[name] for name in names if name in FLOORS), None)


def find_imports(module: str, sources: dict[str, str], packages: set[str]) -> Iterator[Import]:
    """What `module` imports from our packages, anywhere in its source; a name that is a module counts as the module."""
    for node in ast.walk(ast.parse(sources[module])):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                here = parts if module in packages else parts[:-1]
                base = ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])])
            inside = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in sources and base != ROOF else base for name in inside]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = NAMED.fullmatch(node.value)
            known = named is not None and named[1] in sources and not f"{module}.".startswith(f"{named[1]}.")
            targets = [named[1]] if named and known else []
        else:
            continue
        for target in targets:
            if target.split(".")[0] in PACKAGES:
                yield Import(target, node.lineno)


def find_circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Each circle that a depth-first search runs into, from its first module back to it; a self-import is one too."""
    circles: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            circles.append([*path[path.index(module) :], module])
        elif module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return circles


# The checker itself, on small made-up houses.


def check(**modules: str) -> list[str]:
    """The faults of a made-up ncp_control; `ops__cpu` is `ncp_control.ops.cpu`, and a package has `__init__` behind."""
    sources, packages = {ROOF: ""}, {ROOF, "ncp_envs"}
    for key, source in modules.items():
        name = f"{ROOF}.{key.removesuffix('__init__').replace('__', '.').rstrip('.')}".rstrip(".")
        name = name.replace(f"{ROOF}.ncp_envs", "ncp_envs")
        if key.endswith("__init__"):
            packages.add(name)
        sources[name] = source
    return find_faults(sources, packages)


def test_a_sound_house_has_no_faults() -> None:
    assert (
        check(
            __init__="from ncp_control.rnn import RNN",
            wiring="import numpy",
            ops__init__="from ncp_control.ops.cpu import scan",
            ops__cpu="from ncp_control.wiring import Wiring",
            neurons="from ncp_control.ops import scan\nfrom ncp_control.wiring import Wiring",
            rnn="from ncp_control.neurons import LTC",
            checkpoint="from ncp_control.rnn import RNN",
            ncp_envs="import gymnasium",
        )
        == []
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import ncp_control.rnn", 1),
        ("from ncp_control.rnn import RNN", 1),
        ("from .rnn import RNN", 1),
        ("def later():\n    from ncp_control.rnn import RNN", 2),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ncp_control.rnn import RNN", 3),
        ("try:\n    import ncp_control.rnn as rnn\nexcept ImportError:\n    pass", 2),
    ],
)
def test_an_import_upwards_is_found(source: str, line: int) -> None:
    assert check(neurons=source, rnn="") == [
        f"ncp_control.neurons, line {line}: floor 2 imports ncp_control.rnn from floor 3"
    ]


@pytest.mark.parametrize("name", ["ncp_control.cli.as_job:run", "ncp_control.cli.as_job", "ncp_control.cli:main"])
def test_a_string_that_names_a_module_upwards_is_found(name: str) -> None:
    faults = check(neurons=f"import importlib\nCOMMAND = {name!r}", cli__init__="", cli__as_job="")
    assert faults == [f"ncp_control.neurons, line 2: floor 2 imports {name.split(':')[0]} from floor 8"]


@pytest.mark.parametrize("text", ["ncp_control.rnn", "see ncp_control.cli.as_job", "ncp_control.cli.save_model"])
def test_formats_and_other_texts_name_no_module(text: str) -> None:
    assert check(neurons=f"FORMAT = {text!r}", rnn="", cli__init__="", cli__as_job="") == []


def test_a_circle_through_a_string_is_found() -> None:
    (fault,) = check(scale__plan="COMMAND = 'ncp_control.cli.sweep:run'", cli__sweep="import ncp_control.scale.plan")
    assert fault == "a circle: ncp_control.cli.sweep -> ncp_control.scale.plan -> ncp_control.cli.sweep"


def test_a_relative_import_of_a_module_upwards_is_found() -> None:
    (fault,) = check(ops__init__="", ops__cpu="from ..neurons import ltc", neurons__init__="", neurons__ltc="")
    assert "ncp_control.ops.cpu, line 1: floor 1 imports ncp_control.neurons.ltc from floor 2" in fault


@pytest.mark.parametrize(
    "source",
    ["import ncp_control", "import ncp_control as nc", "from ncp_control import RNN", "from ncp_control import rnn"],
)
def test_the_root_is_not_imported_from_inside(source: str) -> None:
    (fault,) = check(cli__init__=source, rnn="")
    assert "package root" in fault


def test_from_dot_import_is_the_root_too() -> None:
    (fault,) = check(data="from . import rnn", rnn="")
    assert "package root" in fault


@pytest.mark.parametrize("source", ["import ncp_control", "from ncp_control.wiring import Wiring"])
def test_environments_do_not_import_the_library(source: str) -> None:
    (fault,) = check(ncp_envs=source, wiring="")
    assert "ncp_envs must not import" in fault


def test_a_module_without_a_floor_is_found() -> None:
    assert check(attic="") == ["ncp_control.attic has no floor"]


def test_a_stranger_is_found() -> None:
    sources = {"ncp_control.rl.agent": "def f():\n    from ncp_control.dynamics import fit", "ncp_control.dynamics": ""}
    fault = "ncp_control.rl.agent, line 2: rl knows nothing of dynamics"
    assert find_faults(sources, {"ncp_control.dynamics"}) == [fault]


def test_a_circle_is_found() -> None:
    (fault,) = check(
        rnn="from ncp_control.checkpoint import load",
        checkpoint="import ncp_control.ncps_reader",
        ncps_reader="from ncp_control.rnn import RNN",
    )
    assert fault == (
        "a circle: ncp_control.checkpoint -> ncp_control.ncps_reader -> ncp_control.rnn -> ncp_control.checkpoint"
    )


def test_a_circle_through_a_package_is_found() -> None:
    (fault,) = check(ops__init__="from ncp_control.ops.cpu import run", ops__cpu="from ncp_control.ops import BACKENDS")
    assert fault == "a circle: ncp_control.ops -> ncp_control.ops.cpu -> ncp_control.ops"


@pytest.mark.parametrize(
    "source",
    [
        "def load():\n    from ncp_control.checkpoint import load",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ncp_control.checkpoint",
    ],
)
def test_an_import_in_a_function_or_for_types_closes_a_circle_too(source: str) -> None:
    assert check(rnn=source, checkpoint="from ncp_control.rnn import RNN") == [
        "a circle: ncp_control.checkpoint -> ncp_control.rnn -> ncp_control.checkpoint"
    ]


# One name, one thing.


def test_no_two_classes_have_one_public_name() -> None:
    sources, _ = read_project()
    assert find_doubles(sources) == []


def find_doubles(sources: dict[str, str]) -> list[str]:
    """Each public name of more than one class, with the modules that define them."""
    homes: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    return [
        f"{name}: {', '.join(modules)}"
        for name, modules in homes.items()
        if len(modules) > 1 and not all(module.startswith(COMMANDS) for module in modules)
    ]


def test_two_classes_of_one_name_are_found() -> None:
    sources = {
        "ncp_control.wiring.plans": "class Plan:\n    class Inner: ...",
        "ncp_control.data.plan": "class Plan: ...\nclass _Own: ...\nclass Inner: ...",
        "ncp_control.ops.gpu": "class _Own: ...",
        "ncp_control.cli.fit": "class Arguments: ...",
        "ncp_control.cli.train": "class Arguments: ...",
    }
    assert find_doubles(sources) == ["Plan: ncp_control.wiring.plans, ncp_control.data.plan"]
