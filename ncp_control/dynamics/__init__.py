"""Models of the dynamics: fit them to rollouts, compare them, predict with them, use them as an environment.

Names are imported when they are first used, so that the command line can read the settings of a fit without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncp_control.base.imports import names_of

if TYPE_CHECKING:
    from ncp_control.dynamics.confidence import calibrate
    from ncp_control.dynamics.ensemble import Calibration, Ensemble
    from ncp_control.dynamics.environment import DynamicsEnv, DynamicsVectorEnv, imagined_rewards
    from ncp_control.dynamics.errors import one_step_error
    from ncp_control.dynamics.fit_loop import Fitted
    from ncp_control.dynamics.fitting import fit
    from ncp_control.dynamics.futures import ImaginedFutures, SimulatorFutures
    from ncp_control.dynamics.imitated import Branches
    from ncp_control.dynamics.model import DynamicsModel
    from ncp_control.dynamics.model_file import load_model, save_model
    from ncp_control.dynamics.planning import PlannedEpisode, Planner, PlanSettings
    from ncp_control.dynamics.settings import FitSettings
    from ncp_control.dynamics.simulator import Simulator

_HOME = {
    "ncp_control.dynamics.confidence": ("calibrate",),
    "ncp_control.dynamics.ensemble": ("Calibration", "Ensemble"),
    "ncp_control.dynamics.environment": ("DynamicsEnv", "DynamicsVectorEnv", "imagined_rewards"),
    "ncp_control.dynamics.errors": ("one_step_error",),
    "ncp_control.dynamics.fit_loop": ("Fitted",),
    "ncp_control.dynamics.fitting": ("fit",),
    "ncp_control.dynamics.futures": ("ImaginedFutures", "SimulatorFutures"),
    "ncp_control.dynamics.imitated": ("Branches",),
    "ncp_control.dynamics.model": ("DynamicsModel",),
    "ncp_control.dynamics.model_file": ("load_model", "save_model"),
    "ncp_control.dynamics.planning": ("PlanSettings", "PlannedEpisode", "Planner"),
    "ncp_control.dynamics.settings": ("FitSettings",),
    "ncp_control.dynamics.simulator": ("Simulator",),
}

__all__ = [
    "Branches",
    "Calibration",
    "DynamicsEnv",
    "DynamicsModel",
    "DynamicsVectorEnv",
    "Ensemble",
    "FitSettings",
    "Fitted",
    "ImaginedFutures",
    "PlanSettings",
    "PlannedEpisode",
    "Planner",
    "Simulator",
    "SimulatorFutures",
    "calibrate",
    "fit",
    "imagined_rewards",
    "load_model",
    "one_step_error",
    "save_model",
]

__getattr__, __dir__ = names_of(__name__, _HOME)
