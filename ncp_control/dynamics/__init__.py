"""Models of the dynamics: fitted to rollouts, compared, rolled out without looking, used as an environment."""

from ncp_control.dynamics.ensemble import Ensemble
from ncp_control.dynamics.errors import one_step_error
from ncp_control.dynamics.fitting import Fitted, fit
from ncp_control.dynamics.model import DynamicsModel
from ncp_control.dynamics.model_file import load_model, save_model
from ncp_control.dynamics.settings import FitSettings
from ncp_control.dynamics.simulator import Simulator

__all__ = [
    "DynamicsModel",
    "Ensemble",
    "FitSettings",
    "Fitted",
    "Simulator",
    "fit",
    "load_model",
    "one_step_error",
    "save_model",
]
