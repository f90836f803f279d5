"""`ncp-control doctor`: what is installed here, what can run, and how to fix what cannot."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ncp_control._version import __version__
from ncp_control.cli.packages import PACKAGES, Package


@dataclass
class Arguments:
    """Check what is installed on this machine and what can run, and say how to fix what cannot.

    The exit code is 0 if the core works, and 1 if something that it needs is missing or broken.

    Example: ncp-control doctor --json
    """

    json: bool = False
    """Print one JSON object instead of tables."""


def run(arguments: Arguments) -> int:
    """Prints the report."""
    report = examine()
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0 if report["ok"] else 1


def examine() -> dict[str, Any]:
    """Returns the whole report as JSON values; `ok` says whether the core works."""
    packages = [examine_package(package) for package in PACKAGES]
    backends = examine_backends()
    works = all(not package["problem"] for package in packages if package["required"])
    return {
        "ok": works and any(backend["ok"] for backend in backends.values()),
        "ncp_control": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages,
        "threads": examine_threads(),
        "cuda": examine_cuda(),
        "rendering": examine_rendering(),
        "backends": backends,
    }


def examine_package(package: Package) -> dict[str, Any]:
    """Finds the version of a package and what is wrong with it; only the packages of the core are imported."""
    problem = ""
    if find_spec(package.module) is None:
        problem = "not installed"
    elif package.extra is None:
        try:
            import_module(package.module)
        except Exception as error:  # a broken library can raise anything while it loads
            problem = f"does not import: {error}"
    return {
        "name": package.distribution,
        "version": None if problem == "not installed" else version_of(package.distribution),
        "required": package.extra is None,
        "use": package.use,
        "problem": problem,
        "fix": package.fix if problem else "",
    }


def version_of(distribution: str) -> str | None:
    """Returns the installed version, or None for a package that was installed without its metadata."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def examine_threads() -> dict[str, Any]:
    """Counts the processors that this process may use, and the threads that torch uses."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    threads: dict[str, Any] = {"processors": len(affinity(0)) if affinity else os.cpu_count(), "torch": None}
    try:
        import torch
    except Exception:  # the table of packages says so already
        return threads
    threads["torch"] = torch.get_num_threads()
    return threads


def examine_cuda() -> dict[str, Any]:
    """Lists the GPUs that torch can use, or says why there are none."""
    try:
        import torch
    except Exception:  # the table of packages says so already
        return {"devices": [], "reason": "torch does not import"}
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return {"devices": names, "reason": ""}
    if torch.version.cuda is None:
        return {"devices": [], "reason": "this torch is built without CUDA"}
    return {"devices": [], "reason": f"torch is built for CUDA {torch.version.cuda}, and finds no GPU or no driver"}


def examine_rendering() -> dict[str, Any]:
    """Says how MuJoCo will draw, and what to set where there is no screen."""
    chosen = os.environ.get("MUJOCO_GL") or None
    advice = ""
    if chosen is None and sys.platform == "linux" and not os.environ.get("DISPLAY"):
        advice = (
            "there is no screen: set MUJOCO_GL=egl before a program that draws (MUJOCO_GL=osmesa where EGL is missing)"
        )
    return {"MUJOCO_GL": chosen, "advice": advice}


def examine_backends() -> dict[str, dict[str, Any]]:
    """Says which backends of the scan run on this machine, and why or why not."""
    try:
        from ncp_control.ops import available_backends

        backends = available_backends()
    except Exception as error:  # torch is missing or broken, as the table of packages says
        return {"reference": {"ok": False, "reason": f"does not import: {error}"}}
    return {name: {"ok": ok, "reason": reason} for name, (ok, reason) in backends.items()}


def show(report: dict[str, Any]) -> None:
    """Prints the report as tables."""
    console = Console(highlight=False)
    console.print(f"ncp-control {report['ncp_control']}, Python {report['python']}, {report['platform']}", markup=False)

    packages = Table("package", "version", "for", "what to do")
    for package in report["packages"]:
        problem = package["problem"] if package["required"] or package["problem"] != "not installed" else ""
        packages.add_row(
            package["name"],
            package["version"] or "-",
            package["use"],
            escape(": ".join(filter(None, [problem, package["fix"]]))),
            style="red" if package["required"] and package["problem"] else "dim" if package["problem"] else "",
        )
    console.print(packages)

    backends = Table("scan backend", "runs here", "because")
    for name, backend in report["backends"].items():
        backends.add_row(name, "yes" if backend["ok"] else "no", escape(backend["reason"]))
    console.print(backends)

    threads, cuda, rendering = report["threads"], report["cuda"], report["rendering"]
    machine = Table.grid(padding=(0, 2))
    machine.add_row("processors", f"{threads['processors']}, of which torch uses {threads['torch'] or '-'}")
    machine.add_row("GPU", escape(", ".join(cuda["devices"])) or f"none: {cuda['reason']}")
    drawing = filter(None, [rendering["MUJOCO_GL"] or "not set", rendering["advice"]])
    machine.add_row("MUJOCO_GL", escape("; ".join(drawing)))
    console.print(machine)
    if not report["ok"]:
        console.print("[red]The core does not work: install or repair what is red above.[/red]")
