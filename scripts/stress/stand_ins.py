"""A pytest plugin that puts this package's recurrent algorithms in the place of those that an outside suite imports.

`outside.py` loads it into the suites of Stable-Baselines3 and sb3-contrib. A suite's policy names lead to circuits, and
arguments that only an LSTM has are left out. Tests that are about something else are skipped, each with its reason.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any, ClassVar

import pytest
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.torch_layers import NatureCNN

from ncp_control.rl import off_policy, on_policy
from ncp_control.rl.policies.checks import LSTMS
from ncp_control.rl.policies.recurrent import NCPPolicy
from ncp_control.rl.policies.sequence import SACSequencePolicy, TD3SequencePolicy
from ncp_control.wiring import AutoNCP

SINGLE_STEPS = "is about a replay buffer of single steps"
# The tests that are about something else: the file and the test's name, and why.
SKIPPED = {
    "test_gae.py::test_gae_computation*": "trains a policy class of its own, which has no memory",
    "test_gae.py::test_infinite_horizon*Recurrent*": "reads the value of an observation without a state",
    "test_custom_policy.py::test_flexible_mlp*": "is about the layers of Stable-Baselines3's own policies",
    "test_run.py::test_advantage_normalization*": "reads minibatches of single steps",
    "test_run.py::test_offpolicy_multi_env*Recurrent*": "counts updates before the replay buffer holds a window",
    "test_run.py::test_ppo_warnings*": "expects warnings where a recurrent PPO refuses a minibatch of one step",
    "test_callbacks.py::test_callbacks_can_cancel_runs*RecurrentSAC*": "has a replay buffer of one step",
    "test_tensorboard.py::test_tensorboard[[]a2c]": "expects a folder with the name of the stock algorithm",
    "test_tensorboard.py::test_tensorboard[[]ppo]": "expects a folder with the name of the stock algorithm",
    "test_vec_normalize.py::test_her_normalization*": "is about a replay buffer of goals",
    "test_her.py::*": "is about a replay buffer of goals",
    "test_n_step_replay.py::*": SINGLE_STEPS,
    "test_buffers.py::test_replay_buffer_normalization*": SINGLE_STEPS,
}


def circuit_policy(kind: Any, images: bool = False) -> Any:
    """Returns a policy with a small circuit, which takes an outside suite's arguments.

    :param kind: a policy of this package
    :param images: extract features from images
    """

    class Policy(kind):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            given = {key: value for key, value in kwargs.items() if key not in LSTMS}
            if kwargs.get("shared_lstm"):
                if kwargs.get("enable_critic_lstm"):
                    raise AssertionError("a critic is shared or has a memory of its own")
                given["critic"] = "shared"
            elif kwargs.get("enable_critic_lstm") is False:
                given["critic"] = "mlp"
            if images:
                given.setdefault("features_extractor_class", NatureCNN)
            super().__init__(*args, **{"wiring": AutoNCP(12, 4), **given})

    Policy.__name__ = Policy.__qualname__ = f"Small{kind.__name__}"
    return Policy


def stand_in(kind: Any, policy: Any, **defaults: Any) -> Any:
    """Returns an algorithm of this package that knows an outside suite's names of policies.

    :param kind: the algorithm
    :param policy: the class of its policies
    :param defaults: arguments that a suite of short runs needs
    """
    plain, images = circuit_policy(policy), circuit_policy(policy, images=True)

    class Algorithm(kind):
        policy_aliases: ClassVar[dict[str, Any]] = {
            **dict.fromkeys(("MlpPolicy", "MultiInputPolicy", "MlpLstmPolicy", "MultiInputLstmPolicy"), plain),
            **dict.fromkeys(("CnnPolicy", "CnnLstmPolicy"), images),
        }

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**defaults, **kwargs})

    Algorithm.__name__ = Algorithm.__qualname__ = kind.__name__
    return Algorithm


SHORT = {"sequence": 4, "burn_in": 2}
stable_baselines3.PPO = stand_in(on_policy.RecurrentPPO, NCPPolicy)
stable_baselines3.A2C = stand_in(on_policy.RecurrentA2C, NCPPolicy)
stable_baselines3.SAC = stand_in(off_policy.RecurrentSAC, SACSequencePolicy, **SHORT)
stable_baselines3.TD3 = stand_in(off_policy.RecurrentTD3, TD3SequencePolicy, **SHORT)
sb3_contrib.RecurrentPPO = stable_baselines3.PPO


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skips the tests that are about something else."""
    for item in items:
        name = f"{item.path.name}::{item.name}"
        for pattern, reason in SKIPPED.items():
            if fnmatch(name, pattern):
                item.add_marker(pytest.mark.skip(reason=reason))
