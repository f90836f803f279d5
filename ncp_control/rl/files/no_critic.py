"""What stands in the place of the critics in a policy that was read from a file of the actor alone."""

from __future__ import annotations

from typing import Any

from torch import nn

SENTENCE = (
    "the critics of this policy are not in its file, which holds the actor only: load a file that was saved with them, "
    "such as those in the folder of a training"
)


class MissingCritic(AttributeError, ValueError):
    """Somebody asked for a critic that was not saved."""

    def __init__(self) -> None:
        super().__init__(SENTENCE)


class NoCritic(nn.Module):
    """Refuses to be called and has nothing of a critic, so that no untrained weights are ever used for one."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises the error."""
        raise MissingCritic

    def set_training_mode(self, mode: bool) -> None:
        """Does nothing; a policy calls this for all its networks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for such names when it copies, and does without them
            raise AttributeError(name)
        raise MissingCritic


def without_critics(policy: Any) -> Any:
    """Returns a policy with `NoCritic` in the place of its critics."""
    for name in ("critic", "critic_target"):
        if hasattr(policy, name):
            setattr(policy, name, NoCritic())
    return policy
