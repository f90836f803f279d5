"""Plans as text: reads `AutoNCP(40, 16, seed=1)` from a command line without running any code."""

from __future__ import annotations

import ast
from typing import Any

from ncp_control.wiring import NCP, AutoNCP, FullyConnected, GapJunctions, Plan, Random, WiringError

PLANS: dict[str, type[Plan]] = {plan.__name__: plan for plan in (AutoNCP, NCP, FullyConnected, Random, GapJunctions)}


def parse_plan(text: str) -> Plan:
    """Reads a plan that is written as in Python; its arguments can be numbers, strings, lists and other plans.

    >>> parse_plan("GapJunctions(AutoNCP(40, 16), 4)").units
    40

    :param text: the plan
    """
    try:
        return _plan(ast.parse(text.strip(), mode="eval").body)
    except WiringError:
        raise
    # Python's parser raises any of these, the last two for deeply nested text.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise WiringError(f"{text!r} is not a plan; one looks like 'AutoNCP(40, 16, seed=1)'") from None


def _plan(node: ast.expr) -> Plan:
    written = ast.unparse(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in PLANS:
        raise WiringError(f"{written!r} is not a plan; the plans are {', '.join(PLANS)}")
    positional = [_argument(argument) for argument in node.args]
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise WiringError(f"{written!r}: write every argument out, because ** is not read here")
        named[keyword.arg] = _argument(keyword.value)
    try:
        return PLANS[node.func.id](*positional, **named)
    except TypeError as error:
        raise WiringError(f"{written!r}: {error}") from error


def _argument(node: ast.expr) -> Any:
    if isinstance(node, ast.Call):
        return _plan(node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise WiringError(f"{ast.unparse(node)!r} is neither a number nor a string, a list or a plan") from None
