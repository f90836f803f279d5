"""What a script needs beside this package: where that is not installed, the script ends with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ncp_control.cli import explain


@contextmanager
def needed() -> Iterator[None]:
    """Ends the script with a sentence that names what to install, if an import inside finds no such package."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise SystemExit(explain(error) or f"this needs {package}, which is missing: pip install {package}") from None
