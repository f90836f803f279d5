"""The names of the optimizers from which users choose."""

OPTIMIZERS = ("adam", "muon")


def check_optimizer_name(name: str) -> None:
    """Refuses a name that is none of an optimizer."""
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer is {' or '.join(OPTIMIZERS)}, not {name!r}")
