"""`ncp-control evaluate` for a model of the dynamics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ncp_control.base.text import shown

HORIZONS = (1, 5, 10, 20, 50, 100, 200)
WARM_UP, SHOWN = 32, 100  # steps that a model reads before it predicts alone, and steps in a figure of traces
MEASURES = ("energy", "frequency", "peak")


def evaluate(path: Path, data: str, figures: Path | None, progress: bool = False) -> dict[str, Any]:
    """Returns one-step errors, open-loop errors and the statistics of long runs, as JSON values.

    :param path: the model's file
    :param data: the rollouts, whose test part is used
    :param figures: a folder for pictures, or None
    :param progress: show a progress bar on stderr
    """
    import numpy as np

    from ncp_control.cli.models import check_columns
    from ncp_control.data import Rollouts, Scaler, Windows
    from ncp_control.dynamics import load_model
    from ncp_control.dynamics.confidence import confidences
    from ncp_control.dynamics.earlier_files import split_of_model
    from ncp_control.dynamics.errors import squared_errors
    from ncp_control.dynamics.open_loop import long_runs
    from ncp_control.dynamics.questions import ask

    model = load_model(path)
    rollouts = Rollouts.load(data)
    rollouts = rollouts.one_hot() if model.action_size > 1 else rollouts
    # two cannot be split into three parts, so both are for testing
    test = rollouts if len(rollouts) == 2 else split_of_model(rollouts, model.note).test
    if test.features != model.features:
        raise ValueError(f"{path} predicts {model.features} observations, and {data} has {test.features} a step")
    check_columns(model, path, rollouts, data)
    shortest = min(rollout.steps for rollout in test)
    raw = squared_errors(model, Windows(test, min(WARM_UP, shortest), 10)).double().mean((0, 1)).numpy()
    over = raw / Scaler.fit(test).std ** 2
    warm_up = min(WARM_UP, shortest // 2)
    horizon = min(HORIZONS[-1], shortest + 1 - warm_up)
    answers = ask(model, test, horizon, warm_up, progress=progress)
    known = confidences(model, answers)
    runs = long_runs(model, test)
    result = {
        "checkpoint": str(path),
        "data": data,
        "rollouts": len(test),
        "one_step": {"raw": float(raw.mean()), "normalised": float(over.mean())},
        "observations": [
            {"name": name, "raw": float(error), "normalised": float(share)}
            for name, error, share in zip(model.observation_names, raw, over, strict=True)
        ],
        "open_loop": answers.rows(k for k in HORIZONS if k <= horizon),
        "not_known": answers.unknown,
        "level": answers.recorded.level,
        "confidence": {
            key: confidence.as_values(k for k in HORIZONS if k <= horizon) for key, confidence in known.items()
        },
        "long_run": {
            kind: {key: float(np.median([getattr(run, key) for run in several])) for key in MEASURES}
            for kind, several in runs.items()
        },
    }  # fmt: skip
    if figures is not None:
        result["figures"] = draw(model, test, answers, known, over, warm_up, horizon, figures)
    return result


def draw(
    model: Any, test: Any, answers: Any, known: Any, over: Any, warm_up: int, horizon: int, figures: Path
) -> list[str]:
    """Draws all pictures that this model and these rollouts allow, and returns their paths.

    Their names do not collide with those of `ncp-control view --figures` in the same folder.
    """
    import numpy as np

    from ncp_control.base.pages import save_figure
    from ncp_control.dynamics import figures as pictures
    from ncp_control.dynamics.model import DynamicsModel
    from ncp_control.dynamics.open_loop import free_runs, time_constants
    from ncp_envs.names import may_be_half_cheetah

    figures.mkdir(parents=True, exist_ok=True)
    # so far apart that the rollout has one start, its first step
    run = free_runs(model, test.select([0]), horizon, warm_up, every=10**9)[0]
    names = model.observation_names
    drawn = {
        "traces": pictures.draw_traces(
            replace(run, real=run.real[:SHOWN], free=run.free[:SHOWN]), test[0].observations[:warm_up], names
        ),
        "horizon": pictures.draw_horizon(answers.recorded),
        "errors": pictures.draw_errors(over, names),
    }
    if model.features == 17 and may_be_half_cheetah(names):
        drawn["cheetahs"] = pictures.draw_cheetahs(run)
    if known:
        drawn["confidence"] = pictures.draw_confidence(known)
    if isinstance(model, DynamicsModel):
        constants = time_constants(model, test)
        if not np.isnan(constants["median"]).all():  # a cell may not know them
            drawn["time-constants"] = pictures.draw_time_constants(constants)
    paths = {figures / f"model-{name}.png": figure for name, figure in drawn.items()}
    for path, figure in paths.items():
        save_figure(figure, path, dpi=130)
    return sorted(map(str, paths))


def show(result: dict[str, Any]) -> None:
    """Prints what `evaluate` found."""
    one_step = result["one_step"]
    print(
        f"{Path(result['checkpoint']).name} on {result['rollouts']} test rollouts of {result['data']}\n"
        f"squared error of the next observation: {one_step['raw']:.4g} (over variances {one_step['normalised']:.4g})\n"
    )
    names = [shown(row["name"]) for row in result["observations"]]
    width = max(map(len, names))
    print(f"{'observation'.ljust(width)}  {'error':>10}  {'over variance':>13}")
    for name, row in zip(names, result["observations"], strict=True):
        print(f"{name.ljust(width)}  {row['raw']:>10.4g}  {row['normalised']:>13.4g}")
    show_open_loop(result)
    if result["confidence"]:
        show_confidence(result["confidence"])
    real, free = result["long_run"]["real"], result["long_run"]["free"]
    print(
        "long open-loop runs: "
        f"energy {free['energy']:.2f} (real {real['energy']:.2f}), gait {free['frequency']:.3f} cycles a step "
        f"(real {real['frequency']:.3f}), {free['peak']:.0%} of its spectrum there (real {real['peak']:.0%})"
    )
    if "figures" in result:
        print("pictures: " + ", ".join(result["figures"]))


def show_open_loop(result: dict[str, Any]) -> None:
    """Prints how errors grow with the number of steps that a model predicts open loop."""
    columns = [
        ("recorded", ""),
        ("simulator", "floor_"),
        ("off-policy", "off_policy_"),
        ("simulator", "off_policy_floor_"),
    ]
    known = [(name, key) for name, key in columns if result["open_loop"][0][key + "mean"] is not None]
    heads = [f"{name:>20}" for name, _ in known]
    print(f"\nsteps ahead, open loop: mean error over variance (median)\n{'':>5}{''.join(heads)}  {'no change':>10}")
    for row in result["open_loop"]:
        cells = [f"{row[key + 'mean']:.3g} ({row[key + 'median']:.2g})" for _, key in known]
        print(f"{row['horizon']:>5}{''.join(f'{cell:>20}' for cell in cells)}  {row['persistence']:>10.3g}")
    print(f"predicting the mean: {result['level']:.3g}")
    print("recorded: after the actions that were recorded", end="")
    if len(known) > 1:
        print("; off-policy: after those of other episodes, from the same states", end="")
    if len(known) > 2:
        print("\nsimulator: MuJoCo itself, started with errors as large as the model's own one step ahead", end="")
    print(f"\nnot known: {result['not_known']}\n" if result["not_known"] else "\n")


def show_confidence(confidences: dict[str, Any]) -> None:
    """Prints how well an ensemble knows its own errors."""
    print("how far the members differ, their error (medians, in standard deviations), and steps in the 90 % interval")
    print(f"{'':>5}{''.join(f'{name:>30}' for name in confidences)}")
    head = f"{'differ':>12}{'error':>8}{'within':>10}"
    print(f"{'':>5}{head * len(confidences)}")
    for rows in zip(*(confidence["horizons"] for confidence in confidences.values()), strict=True):
        print(f"{rows[0]['horizon']:>5}", end="")
        for row in rows:
            within = "unknown" if row["within"] is None else f"{row['within']:.0%}"
            print(f"{row['disagreement']:>12.2g}{row['error']:>8.2g}{within:>10}", end="")
        print()
    for name, confidence in confidences.items():
        print(
            f"{name}: the error has a rank correlation of {confidence['correlation']:.2f} with how far the members "
            "differ;"
        )
        if confidence["within"] is None:
            print("  the file has no calibration for these actions, so that there are no intervals")
            continue
        print(
            f"  {confidence['within']:.0%} of all steps are within their interval; the ensemble believes itself for "
            f"{confidence['believed']} steps ahead, and its true errors allow {confidence['believable']}"
        )
    print("believed: until the squared error of the median start reaches a tenth of the variance\n")
