"""Writing a laboratory: one web page in which circuits run their body live.

The page is one file that holds the simulator, the body and the circuits, and it uses no network.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from ncp_control.activity.laboratory.controllers import CIRCUIT_SCRIPTS
from ncp_control.activity.laboratory.exhibits import Exhibit, exhibit_data
from ncp_control.activity.laboratory.simulator import SimulatorBuild, simulator, simulator_parts
from ncp_control.base.files import write_atomically
from ncp_control.base.pages import filled, page_end, page_head, script_json
from ncp_control.base.text import shown

# The order matters: each script uses only names from those before it, and the last one runs when the page loads.
SHARED_SCRIPTS = ("numbers.js", "circuit.js", "drawing.js", "wiring.js", "raster.js", "traces.js", "constants.js",
                  "body.js", "chosen.js", "stage.js")  # fmt: skip
WORLD_SCRIPTS = ("numpy_random.js", "streams.js", "simulator.js", "runge_kutta.js", "physics.js", "shape.js",
                 "tasks.js", "wrappers.js", "world.js")  # fmt: skip
EXPERIMENT_SCRIPTS = ("experiment_text.js", "experiment_names.js", "experiment_condition.js", "record_command.js",
                      "experiment.js", "npz.js", "recording.js")  # fmt: skip
PAGE_SCRIPTS = ("live.js", "run.js", "bench.js", "world_panel.js", "circuit_tools.js", "log_panel.js", "tour_steps.js",
                "tour.js", "lab.js", "handle.js")  # fmt: skip
SCRIPTS = (*SHARED_SCRIPTS, *CIRCUIT_SCRIPTS, *WORLD_SCRIPTS, *EXPERIMENT_SCRIPTS, *PAGE_SCRIPTS)


def write_laboratory(
    exhibits: Sequence[Exhibit], path: str | Path, title: str | None = None, build: SimulatorBuild | None = None
) -> None:
    """Writes a laboratory.

    :param exhibits: the agents in it, one or two, which move the same body
    :param path: the `.html` file; it is replaced as a whole if it exists
    :param title: the heading; by default the names of the agents
    :param build: MuJoCo's WebAssembly build; by default the one in the user's cache, or fetched with npm
    """
    if not exhibits:
        raise ValueError("a laboratory needs at least one agent")
    data = [exhibit_data(exhibit) for exhibit in exhibits]
    for exhibit, own_data in zip(exhibits, data, strict=True):
        if any(own_data["world"][part] != data[0]["world"][part] for part in ("task", "model", "dt")):
            raise ValueError(
                f"{exhibits[0].name} and {exhibit.name} move different bodies, or at another pace: write a laboratory "
                "for each of them"
            )
    build = simulator() if build is None else build
    title = shown(" and ".join(exhibit.name for exhibit in exhibits) if title is None else title)
    simulated = simulator_parts(build)
    parts = {
        "head": page_head(html.escape(title), static_text("page.css", "lab.css"), "'wasm-unsafe-eval'"),
        "title": html.escape(title),
        "version": html.escape(build.version),
        "data": script_json({"title": title, "exhibits": data}),
        "wasm": simulated["wasm"],
        "simulator": simulated["script"],
        "licences": html.escape(simulated["licences"]),
        "end": page_end(static_text(*SCRIPTS)),
    }
    page = filled(static_text("lab.html"), parts)
    write_atomically(path, page.encode("utf-8"))


def static_text(*names: str) -> str:
    """Returns files of a laboratory, of the page of a recording or of neurons, one after another."""
    own, shared = (resources.files(f"ncp_control.activity.{part}") / "static" for part in ("laboratory", "page"))
    folders = (own, shared, resources.files("ncp_control.neurons"))
    files = (next(folder / name for folder in folders if (folder / name).is_file()) for name in names)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
