"""README.txt of an exported agent: how to call it, the order and the units of its numbers, and how it was checked."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from ncp_control._version import __version__
from ncp_control.base.text import shown
from ncp_control.export.checking import Check
from ncp_control.rl.controller import Controller
from ncp_control.rl.monitor import CLAIMED, FLAGS

WIDTH = 100
COMPILE = "cc -std=c99 -O2 -o controller controller.c main.c -lm"


@dataclass(frozen=True)
class Origin:
    """Where an exported agent comes from.

    :param name: the name of its file
    :param sha256: the checksum of its file
    :param env: the id of its environment; empty if nobody knows it
    :param seconds: how many seconds a step of its environment takes; None if nobody knows it
    """

    name: str
    sha256: str
    env: str = ""
    seconds: float | None = None


def write_readme(kind: str, controller: Controller, origin: Origin, check: Check) -> str:
    """Returns the text of README.txt.

    :param kind: "c", "onnx", "leapp", "pt2", or "rsl_rl" for an ONNX file with the names of rsl_rl
    :param controller: the exported agent
    :param origin: where it comes from
    :param check: how the export was compared with the agent
    """
    uses = {"c": use_in_c, "onnx": use_in_onnx, "leapp": use_in_leapp, "pt2": use_in_torch, "rsl_rl": use_as_rsl_rl}
    parts = [
        [f"{shown(origin.name)}, exported by ncp-control {__version__}", f"policy file sha256 {origin.sha256}"],
        uses[kind](controller),
        sensors_text(controller, origin),
        actions_text(controller),
        elapsed_text(controller, origin) if has_elapsed(kind, controller) else step_text(origin),
        flags_text(kind, controller),
        *proof_text(controller),
        ["The check", *wrapped(told(check, controller))],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def proof_text(controller: Controller) -> list[list[str]]:
    """Returns what was proved of the agent and its body."""
    if controller.watch is None or not controller.watch.claim:
        return []
    lines = [line for text in controller.watch.claim for line in wrapped(shown(text))]
    return [[CLAIMED, *lines]]


def wrapped(text: str) -> list[str]:
    """Breaks a text into indented lines."""
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def told(check: Check, controller: Controller) -> str:
    """Returns a sentence on how the export was compared with its agent."""
    if check.refused:
        return f"Nothing was compared with the agent: {check.refused}."
    difference = (
        f"{check.difference:.0f} of them had another choice"
        if controller.chooses
        else f"the greatest difference of an action is {check.difference:.2g}"
    )
    plural = "step" if check.steps == 1 else "steps"
    sentence = f"Compared with the agent over {check.steps:,} {plural} of its environment by {check.how}: {difference}."
    return (
        sentence
        if check.flagged is None
        else f"{sentence} The monitor raises flags in {check.flagged:,} of these steps."
    )


def use_in_c(controller: Controller) -> list[str]:
    """Returns how to compile and call the C code."""
    action = "int action[1]" if controller.chooses else "controller_real action[CONTROLLER_ACTIONS]"
    return [
        "Use it",
        *wrapped(
            "controller.c is C99 and needs nothing but math.h: no memory is allocated, and every loop has a fixed "
            "length. Numbers are float; compile with -DCONTROLLER_DOUBLE for double."
        ),
        "",
        '    #include "controller.h"',
        "    controller_state state;",
        "    controller_real observation[CONTROLLER_SENSORS];",
        f"    {action};",
        "    controller_reset(&state);                                       /* before each episode */",
        "    int flags = controller_step(&state, observation, 1, action);    /* in each step */",
        "",
        *wrapped(
            "main.c is a program around it: it reads a line of numbers for each step and prints the action. With "
            "--check it compares your build with the recorded steps in vectors.csv."
        ),
        "",
        f"    {COMPILE}",
        "    ./controller --check vectors.csv",
    ]


def use_in_onnx(controller: Controller) -> list[str]:
    """Returns how to call the ONNX file."""
    return [
        "Use it",
        "    import numpy as np, onnxruntime",
        '    session = onnxruntime.InferenceSession("controller.onnx")',
        f"    state = np.zeros((1, {controller.state_size}), np.float32)    # before each episode",
        f"    observation = np.zeros((1, {len(controller.sensors)}), np.float32)    # a row for each robot",
        "    elapsed = np.ones(1, np.float32)",
        '    given = {"observation": observation, "state": state, "elapsed": elapsed}',
        f"    {results(controller)} = session.run(None, given)    # in each step",
    ]


def use_as_rsl_rl(controller: Controller) -> list[str]:
    """Returns how to call the ONNX file that has rsl_rl's names."""
    recurrent = [
        f"    h = np.zeros((1, 1, {controller.state_size}), np.float32)    # before each episode",
        '    actions, h = session.run(None, {"obs": obs, "h_in": h})    # in each step',
    ]
    return [
        "Use it as a policy that rsl_rl exported: its inputs and outputs have the same names and shapes",
        "    import numpy as np, onnxruntime",
        '    session = onnxruntime.InferenceSession("controller.onnx")',
        f"    obs = np.zeros((1, {len(controller.sensors)}), np.float32)    # one robot",
        *(recurrent if controller.state_size else ['    (actions,) = session.run(None, {"obs": obs})']),
    ]


def has_elapsed(kind: str, controller: Controller) -> bool:
    """Whether the elapsed time is an input of an export."""
    return controller.timed if kind == "leapp" else kind != "rsl_rl"


def step_text(origin: Origin) -> list[str]:
    """Returns what time passes between two calls where it is no input."""
    lasts = "" if origin.seconds is None else f": {origin.seconds:.6g} s"
    return ["The elapsed time", *wrapped(f"One step of the training between two calls{lasts}.")]


def use_in_leapp(controller: Controller) -> list[str]:
    """Returns how to run the bundle."""
    given = '{"policy/observation": observation}'
    if controller.timed:
        given = '{"policy/observation": observation, "policy/elapsed": torch.ones(1)}'
    return [
        "Use it where LEAPP is installed. The bundle keeps the state between two calls",
        "    import leapp, torch",
        '    policy = leapp.InferenceManager("controller.yaml")',
        "    policy.reset()    # before each episode",
        f"    observation = torch.zeros(1, {len(controller.sensors)})",
        f'    action = policy.run_policy({given})["policy/action"]    # in each step',
    ]


def use_in_torch(controller: Controller) -> list[str]:
    """Returns how to call the program of torch."""
    return [
        "Use it, where torch is installed; nothing else is needed",
        "    import torch",
        '    step = torch.export.load("controller.pt2").module()',
        f"    state = torch.zeros(1, {controller.state_size})    # before each episode",
        f"    observation = torch.zeros(1, {len(controller.sensors)})    # a row for each robot",
        "    elapsed = torch.ones(1)",
        f"    {results(controller)} = step(observation, state, elapsed)    # in each step",
    ]


def results(controller: Controller) -> str:
    """Returns the names of what a step returns."""
    return "action, state" if controller.watch is None else "action, state, flags"


def sensors_text(controller: Controller, origin: Origin) -> list[str]:
    """Returns the list of the sensors."""
    whose = f"by {shown(origin.env)}" if origin.env else "by its environment"
    head = f"The observation: {counted(len(controller.sensors))}, as returned {whose}, in its units"
    ranges = [""] * len(controller.sensors)
    if controller.watch is not None:
        head += ", and the certified range of each"
        low, high = controller.watch.observation_low.tolist(), controller.watch.observation_high.tolist()
        ranges = [f"    {least:.6g} to {most:.6g}" for least, most in zip(low, high, strict=True)]
    return [head, *numbered(controller.sensors, ranges)]


def actions_text(controller: Controller) -> list[str]:
    """Returns the list of the actions."""
    if controller.chooses:
        names = [f"{controller.first + place:>4}  {shown(name)}" for place, name in enumerate(controller.actions)]
        return ["The action: one of these choices", *names]
    low, high = controller.low.tolist(), controller.high.tolist()
    ranges = [f"    {least:.6g} to {most:.6g}" for least, most in zip(low, high, strict=True)]
    return [f"The action: {counted(len(controller.actions))}", *numbered(controller.actions, ranges)]


def counted(size: int) -> str:
    """Writes how many numbers there are."""
    return f"{size} number{'s' * (size != 1)}"


def numbered(names: tuple[str, ...], ranges: list[str]) -> list[str]:
    """Returns a line for each name."""
    safe = [shown(name) for name in names]
    width = max(map(len, safe)) if any(ranges) else 0
    return [
        f"{place:>4}  {name.ljust(width)}{more}" for place, (name, more) in enumerate(zip(safe, ranges, strict=True))
    ]


def elapsed_text(controller: Controller, origin: Origin) -> list[str]:
    """Returns what the elapsed time is measured in."""
    lasts = "" if origin.seconds is None else f", which takes {origin.seconds:.6g} s"
    trained = (
        "The agent was trained with times that vary."
        if controller.timed
        else "The agent was trained with 1 in every step."
    )
    cell = None if controller.rnn is None else controller.rnn.cell
    if cell is None or not (cell.uses_elapsed or controller.reads_elapsed):
        trained += " It ignores the time."
    return [
        "The elapsed time",
        *wrapped(f"The time since the last observation: 1 is one step of the training{lasts}. {trained}"),
    ]


def flags_text(kind: str, controller: Controller) -> list[str]:
    """Returns what each flag means."""
    if controller.watch is None and kind != "c":
        with_flags = "" if kind == "rsl_rl" else " With --monitor MONITOR.json it returns flags."
        return ["Flags", *wrapped(f"None: keep NaN and infinity away.{with_flags}")]
    # Without certified ranges only the flag for numbers that are not finite can be raised.
    known = FLAGS if controller.watch is not None else {bit: text for bit, text in FLAGS.items() if bit == 1}
    after = "the state stays as it was"
    after = f"Flag 1 stands alone: {after + ', and so does the action' if kind == 'c' else after}."
    return ["Flags, which add up", *[f"{bit:>4}  {text}" for bit, text in known.items()], *wrapped(after)]
