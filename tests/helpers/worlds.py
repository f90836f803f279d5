"""Environments whose worlds are compared, and what Python says about an episode in them."""

from typing import Any

import mujoco
import numpy as np

from ncp_control.activity.recording.environment import BodyPoses
from ncp_control.rl.recipes.env_making import make_env

BODIES = ("HalfCheetah", "Walker2d", "Hopper", "Swimmer", "Ant", "InvertedPendulum", "InvertedDoublePendulum")
CHEETAH = "HalfCheetah-v5"
STEPS = 20
DISTURBED = {"random": 0.3, "noise": 0.1, "dropout": 0.2, "delay": 2}
DELAY = {"ActionDelay": {"steps": 2}}
# Wrappers of trainings, the innermost first.
TRAININGS: dict[str, list[Any]] = {
    "plain": [],
    "random": ["RandomActionOverwrite"],
    "twice": [{"RandomActionOverwrite": {"probability": 0.3}}, {"RandomActionOverwrite": {"probability": 0.2}}],
    "delayed": [{"RandomActionOverwrite": {"probability": 0.4}}, {"ActionDelay": {"steps": 3}}],
    "late": [{"ActionDelay": {"steps": [0, 3], "told": True}}, "PreviousAction"],
    "later": [{"ActionDelay": {"steps": 1}}, {"ActionDelay": {"steps": [1, 2], "told": True}}],
    "clean": [{"ObservationNoise": {"std": 0.1, "clean": True}}],
    "queued": [{"ActionDelay": {"steps": 1}}, {"RandomActionOverwrite": {"probability": 0.4}}],
    "noisy": [{"ObservationNoise": {"std": [0.1, 0.0] * 8 + [0.2]}}, {"ObservationNoise": {"std": 0.05}}],
    "holes": [{"ObservationDropout": {"probability": 0.3, "fill": "last"}}],
    "filled": [{"ObservationDropout": {"probability": 0.3, "fill": 2.5}}, "PreviousAction"],
    "remembered": [{"KeepObservations": {"indices": "positions"}}, {"PreviousAction": {"reward": True}}],
    "irregular": [{"IrregularTime": {"frames": 3, "observe_elapsed": True, "nominal": 2}}],
    "apart": [
        "RandomActionOverwrite",
        {"IrregularTime": {"frames": [2, 5], "observe_elapsed": "apart", "nominal": 3.5}},
    ],
    "unseen": [{"IrregularTime": {"frames": 4}}, {"ObservationNoise": {"std": 0.3}}],
}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "far sight": ("Ant-v5", {"exclude_current_positions_from_observation": False, "contact_cost_weight": 0.1}),
    "no touch": (
        "Ant-v5",
        {"include_cfrc_ext_in_observation": False, "main_body": "aux_1", "healthy_z_range": (0.5, 0.8)},
    ),
    "jumper": ("Hopper-v5", {"terminate_when_unhealthy": False, "frame_skip": 2, "healthy_reward": 3.0}),
    "sprint": (CHEETAH, {"forward_reward_weight": 2.0, "ctrl_cost_weight": 0.5, "reset_noise_scale": 0.3}),
    "no velocities": ("ncp/HalfCheetahNoVel-v0", {}),
    "short": (CHEETAH, {"max_episode_steps": 5}),
}


def changed_cheetah() -> Any:
    """A half-cheetah whose model is not that of its file any more."""
    env = make_env(CHEETAH)
    model: Any = env.unwrapped.model
    model.body_mass[2:] *= 1.7
    model.geom_friction[:, 0] = 0.9
    model.dof_damping[:] *= 0.5
    model.opt.gravity[:] = 0.5, 0.0, -5.0
    model.opt.iterations = 3
    return env


def environments() -> dict[str, Any]:
    found: dict[str, Any] = {f"{name}-v5": make_env(f"{name}-v5") for name in BODIES}
    found |= {name: make_env(CHEETAH, wrappers) for name, wrappers in TRAININGS.items()}
    found |= {name: make_env(id, (), options) for name, (id, options) in OPTIONS.items()}
    return found | {"changed": changed_cheetah()}


def actions_for(env: Any, steps: int = STEPS, seed: int = 0, size: float = 1.0) -> np.ndarray:
    """Random actions that are numbers of float32 and lie within the limits."""
    space = env.action_space
    found = size * np.random.default_rng(seed).uniform(space.low, space.high, (steps, *space.shape))
    return found.astype(np.float32).astype(float)


def steps_of(name: str) -> int:
    """How many steps are compared: about 20 of the simulator's body, after which small differences begin to grow."""
    return 6 if any("IrregularTime" in one for one in TRAININGS[name]) else STEPS


def in_python(env: Any, seed: int, actions: np.ndarray, before: Any = None) -> dict[str, np.ndarray]:
    """Plays the same in Python; `before(step)` may change the environment."""
    poses = BodyPoses(env)
    rows: dict[str, list[Any]] = {
        name: [] for name in ("observations", "rewards", "terminated", "truncated", "executed", "random", "elapsed")
    }

    def see(observation: Any) -> None:
        apart = isinstance(observation, dict)
        rows["observations"].append(np.array(observation["observations"] if apart else observation, float))
        rows["elapsed"].append(float(observation["elapsed"][0]) if apart else 1.0)
        poses.keep()

    see(env.reset(seed=seed)[0])
    for step, action in enumerate(actions):
        if before is not None:
            before(step)
        observation, reward, terminated, truncated, info = env.step(action)
        see(observation)
        for name, value in (("rewards", reward), ("terminated", terminated), ("truncated", truncated)):
            rows[name].append(value)
        rows["executed"].append(np.array(info.get("executed_action", action), float))
        rows["random"].append(bool(info.get("is_random", False)))
    body = poses.take(len(actions) + 1)
    found = {name: np.array(values) for name, values in rows.items()}
    return found | {"ends": body["body_ends"], "places": body["body_places"]}


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float = 1e-6) -> None:
    """Compares what a world of the page says with what Python says."""
    for name in ("terminated", "truncated", "random"):
        assert (found[name] == expected[name]).all(), name
    assert (found["executed"] == expected["executed"]).all()
    assert (found["elapsed"] == expected["elapsed"]).all()
    for name in ("observations", "rewards", "ends", "places"):
        away = np.abs(found[name].reshape(expected[name].shape) - expected[name]).max()
        assert away < tolerance, (name, away)


def change_model(model: Any, friction: float, gravity: float, mass: float) -> None:
    model.geom_friction[:, 0] *= friction
    model.pair_friction[:, :2] *= friction
    model.opt.gravity[:] *= gravity
    torso = int(model.jnt_bodyid[0])
    model.body_mass[torso] *= mass
    model.body_inertia[torso] *= mass
    mujoco.mj_setConst(model, mujoco.MjData(model))
