"""Which package does what for this one, and how to get it when it is missing."""

from __future__ import annotations

from typing import NamedTuple


class Package(NamedTuple):
    """A package that this one builds on.

    distribution: its name for pip
    module: its name for `import`
    extra: the extra of ncp-control that brings it; None for what every part needs
    use: what it is for
    """

    distribution: str
    module: str
    extra: str | None
    use: str

    @property
    def fix(self) -> str:
        """The command that installs it."""
        return "pip install ncp-control" if self.extra is None else f'pip install "ncp-control[{self.extra}]"'


# The same as in pyproject.toml, but for mujoco and h5py, which come as extras of gymnasium and minari.
PACKAGES = (
    Package("numpy", "numpy", None, "arrays"),
    Package("torch", "torch", None, "tensors and gradients"),
    Package("safetensors", "safetensors", None, "checkpoints"),
    Package("torchdiffeq", "torchdiffeq", None, "adaptive solvers"),
    Package("tyro", "tyro", None, "command line"),
    Package("rich", "rich", None, "tables in the terminal"),
    Package("gymnasium", "gymnasium", "envs", "environments"),
    Package("mujoco", "mujoco", "envs", "physics of the half-cheetah"),
    Package("stable-baselines3", "stable_baselines3", "rl", "reinforcement learning"),
    Package("sb3-contrib", "sb3_contrib", "rl", "recurrent PPO"),
    Package("tensorboard", "tensorboard", "rl", "training curves"),
    Package("pyyaml", "yaml", "rl", "recipes"),
    Package("minari", "minari", "data", "stored rollouts"),
    Package("h5py", "h5py", "data", "the files of stored rollouts"),
    Package("matplotlib", "matplotlib", "plot", "figures"),
    Package("imageio-ffmpeg", "imageio_ffmpeg", "plot", "video"),
    Package("scipy", "scipy", "theory", "adaptive solvers of the papers' experiments"),
)


def package_of(module: str) -> Package | None:
    """The package that holds `module`, or None if it is none of ours."""
    root = module.partition(".")[0]
    return next((package for package in PACKAGES if package.module == root), None)
