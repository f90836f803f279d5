"""The text of `controller.h`. Names in it come from files, and none of them can become code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ncp_control._version import __version__
from ncp_control.neurons import cell_config
from ncp_control.neurons.code import filled
from ncp_control.rl.controller import Controller
from ncp_control.rl.monitor import CLAIMED, ELAPSED, FLAGS, NOT_FINITE, OBSERVATION, STATE

HEADER = """\
#ifndef CONTROLLER_H
#define CONTROLLER_H

#ifdef __cplusplus
extern "C" {
#endif

/* float, or double where -DCONTROLLER_DOUBLE is given for every file that includes this one. */
#ifdef CONTROLLER_DOUBLE
typedef double controller_real;
#else
typedef float controller_real;
#endif

#define CONTROLLER_SENSORS @SENSORS@ /* numbers of an observation */
#define CONTROLLER_ACTIONS @ACTIONS@ /* numbers of an action */
#define CONTROLLER_STATE @STATE@ /* numbers that are kept from step to step */
#define CONTROLLER_TIMED @TIMED@ /* whether the elapsed time varied in the training */
@CHOICES@
/* What controller_step returns: the sum of those that hold@CERTIFIED@. */
@FLAGS@
/* The numbers of an observation. */
@SENSOR_NAMES@
@ABOUT_ACTIONS@
@ACTION_NAMES@
typedef struct {
@VALUES@
} controller_state;

/* Puts the state where it is before an episode. */
void controller_reset(controller_state *state);

/* Goes one step on.
   state: from controller_reset, or from the last step
   observation: CONTROLLER_SENSORS numbers in the environment's units
   elapsed: the time since the last observation, in steps of the training; 1 where it does not vary
   action: where the step writes @WRITES@
   Returns flags; 0 is a step without any. With CONTROLLER_NOT_FINITE, state and action stay as they were. */
int controller_step(controller_state *state, const controller_real *observation, controller_real elapsed,
                    @KIND@ *action);

#ifdef __cplusplus
}
#endif

#endif
"""
FLAG_NAMES = {
    NOT_FINITE: "NOT_FINITE",
    OBSERVATION: "OBSERVATION_OUTSIDE",
    STATE: "STATE_OUTSIDE",
    ELAPSED: "ELAPSED_OUTSIDE",
}
NO_STATE = "    controller_real values[1]; /* of no use: C has no empty arrays, and this agent has no memory */"
# A comment could end at `*/`, a line could go on after a backslash, and `??/` is a backslash to some compilers.
UNSAFE = re.compile(r"[^A-Za-z0-9 _.,:;=+()<>\[\]{}'-]")
LONGEST = 500  # characters of a name in a comment
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_IDENTIFIER = 40  # C99 tells names apart by their first 63 characters, and a prefix is put before


def about(controller: Controller, name: str, sha256: str) -> str:
    """Returns the comment that says which agent this is."""
    lines = [f"Agent: {name}", f"SHA-256 of its file: {sha256}"] if name else []
    if controller.rnn is None:
        lines.append("Layers without a memory")
    else:
        cell = controller.rnn.cell
        settings = cell_config(cell)
        kind = settings.pop("cell")
        wiring = cell.wiring
        layers = ", ".join(f"{size} {layer}" for layer, size in wiring.layer_sizes)
        lines += [
            f"Cell: {kind}({', '.join(f'{key}={value}' for key, value in settings.items())})",
            f"Wiring: {wiring.inputs} inputs; neurons: {layers}",
            f"Synapses: {len(wiring.sensory)} sensory, {len(wiring.synapses)} between neurons, "
            f"{len(wiring.gap_junctions)} gap junctions",
        ]
    return comment([*lines, f"Written by ncp_control {__version__}"])


def header_text(controller: Controller, name: str, sha256: str) -> str:
    """Returns the text of `controller.h`."""
    states = controller.state_size
    first = controller.first
    count = len(controller.actions)
    prefix = "CONTROLLER_CHOICE" if controller.chooses else "CONTROLLER_ACTION"
    flags = "".join(f"#define CONTROLLER_{FLAG_NAMES[bit]} {bit} /* {text} */\n" for bit, text in FLAGS.items())
    text = filled(
        HEADER,
        sensors=len(controller.sensors),
        actions=1 if controller.chooses else count,
        state=states,
        timed=int(controller.timed),
        choices=f"#define CONTROLLER_CHOICES {count} /* choices of an action */\n" if controller.chooses else "",
        certified="" if controller.watch is not None else "; this agent has no certified ranges, so 0 or 1",
        flags=flags,
        sensor_names=numbered_names("CONTROLLER_SENSOR", controller.sensors),
        about_actions="/* The choices. */" if controller.chooses else "/* The numbers of an action. */",
        action_names=numbered_names(prefix, controller.actions, first),
        values="    controller_real values[CONTROLLER_STATE];" if states else NO_STATE,
        writes="the number of its choice" if controller.chooses else "CONTROLLER_ACTIONS numbers",
        kind="int" if controller.chooses else "controller_real",
    )
    return about(controller, name, sha256) + claim_text(controller) + text


def claim_text(controller: Controller) -> str:
    """Returns the comment with what was proved; nothing for a controller of which nothing was."""
    lines = () if controller.watch is None else controller.watch.claim
    return comment([f"{CLAIMED}:", *lines]) if lines else ""


def harmless(text: str) -> str:
    """Returns a text that can stand in a comment: one line of plain characters, with `_` for every other one."""
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return UNSAFE.sub("_", short)


def comment(lines: Sequence[str]) -> str:
    """Returns a comment of these lines."""
    return "/* " + "\n   ".join(harmless(line).rstrip() for line in lines) + " */\n"


def numbered_names(prefix: str, names: Sequence[str], first: int = 0) -> str:
    """Returns an enumeration of the names that C allows, `PREFIX_NAME = number`; other names stand in comments.

    Spaces, dots and hyphens become underscores.

    :param prefix: is put before every name
    :param names: the names, of which the k-th has the number `first + k`
    :param first: the first number
    """
    plain = [re.sub(r"[ .-]+", "_", name).upper() for name in names]

    def line_of(number: int, name: str, plain_name: str) -> str:
        usable = IDENTIFIER.fullmatch(plain_name) and len(name) <= LONGEST_IDENTIFIER and plain.count(plain_name) == 1
        return f"    {prefix}_{plain_name} = {number}," if usable else f"    /* {number}: {harmless(name)} */"

    lines = [line_of(number, *both) for number, both in enumerate(zip(names, plain, strict=True), first)]
    body = "\n".join(lines) + "\n"
    return f"enum {{\n{body}}};\n" if any(line.endswith(",") for line in lines) else body
