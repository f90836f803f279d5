"""`ncp-control evaluate` for a model of series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ncp_control.base.text import shown


def evaluate(path: Path, data: str, figures: Path | None) -> dict[str, Any]:
    """Returns the scores of a model on the test part of a table, as JSON values.

    :param path: the model's file
    :param data: the table with what its columns are for
    :param figures: a folder for a picture, or None
    """
    from ncp_control.series import load_series_model, read_series, score
    from ncp_control.series.scores import words_of
    from ncp_control.series.splitting import test_part, with_classes

    model = load_series_model(path)
    test = test_part(with_classes(read_series(data), model.classes))
    scores = score(model, test)
    named = {"columns": list(model.targets), **({"classes": list(model.classes)} if model.classes else {})}
    result = {"checkpoint": str(path), "data": data, "series": len(test.series), **named, **scores.as_json()}
    if figures is not None:
        from ncp_control.base.pages import save_figure

        figures.mkdir(parents=True, exist_ok=True)
        save_figure(picture(model, test, scores), figures / "test.png", dpi=130)
        result["figures"] = [str(figures / "test.png")]
    return {**result, "words": words_of(scores)}


def picture(model: Any, test: Any, scores: Any, curve: Any = ()) -> Any:
    """Returns the picture that suits what a model tells."""
    from ncp_control.series.figures import draw_classes, draw_numbers

    if model.classes:
        return draw_classes(scores, model.classes, model.targets[0], curve)
    return draw_numbers(model, test, curve)


def show(result: dict[str, Any]) -> None:
    """Prints what `evaluate` found."""
    count = result["series"]
    print(f"{Path(result['checkpoint']).name} on {count} test series of {result['data']}\n{result['words']}")
    if "errors" in result and len(result["columns"]) > 1:
        each = zip(result["columns"], result["errors"], strict=True)
        print("squared error of " + ", ".join(f"{shown(name)} {error:.4g}" for name, error in each))
    if "figures" in result:
        print("pictures: " + ", ".join(result["figures"]))
