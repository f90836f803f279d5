"""The packages that this one builds on: what each is for, and the command that installs it."""

from __future__ import annotations

from typing import NamedTuple


class Package(NamedTuple):
    """A package that ncp-control builds on.

    distribution: its name for pip
    module: its name for `import`
    extra: the extra of ncp-control that installs it; None for a package that every part needs
    use: what ncp-control uses it for
    """

    distribution: str
    module: str
    extra: str | None
    use: str

    @property
    def fix(self) -> str:
        """The command that installs it."""
        return "pip install ncp-control" if self.extra is None else f'pip install "ncp-control[{self.extra}]"'


# The dependencies in pyproject.toml, and mujoco and h5py, which the extras of gymnasium and minari install.
PACKAGES = (
    Package("numpy", "numpy", None, "arrays"),
    Package("torch", "torch", None, "tensors and gradients"),
    Package("safetensors", "safetensors", None, "checkpoints"),
    Package("threadpoolctl", "threadpoolctl", None, "the threads of NumPy"),
    Package("torchdiffeq", "torchdiffeq", None, "adaptive solvers"),
    Package("tyro", "tyro", None, "command line"),
    Package("rich", "rich", None, "tables in the terminal"),
    Package("pyyaml", "yaml", None, "recipes, and values after --set"),
    Package("gymnasium", "gymnasium", "envs", "environments"),
    Package("mujoco", "mujoco", "envs", "physics of the half-cheetah"),
    Package("stable-baselines3", "stable_baselines3", "rl", "reinforcement learning"),
    Package("sb3-contrib", "sb3_contrib", "rl", "recurrent PPO"),
    Package("tensorboard", "tensorboard", "rl", "training curves"),
    Package("minari", "minari", "data", "stored rollouts"),
    Package("h5py", "h5py", "data", "the files of stored rollouts"),
    Package("scipy", "scipy", "data", "statistics, and the studies of the paper"),
    Package("pyarrow", "pyarrow", "parquet", "tables in .parquet files"),
    Package("matplotlib", "matplotlib", "plot", "figures"),
    Package("imageio-ffmpeg", "imageio_ffmpeg", "plot", "video"),
    Package("ray", "ray", "scale", "jobs on a cluster"),
    Package("optuna", "optuna", "scale", "searching for settings"),
    Package("onnx", "onnx", "export", "files of ONNX"),
    Package("onnxscript", "onnxscript", "export", "agents as ONNX"),
    Package("onnxruntime", "onnxruntime", "export", "running ONNX, to compare it with the agent"),
)


def package_of(module: str) -> Package | None:
    """Returns the package that a module belongs to, or None for a module of any other package."""
    root = module.partition(".")[0]
    return next((package for package in PACKAGES if package.module == root), None)
