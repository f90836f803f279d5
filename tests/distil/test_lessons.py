"""Lessons: how a teacher hands its actions over, and which demonstrations recorded episodes give."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.distilling import Rail, away, back, student_of
from ncp_control.distil.collecting import Actor, Collector, TeachingEnv
from ncp_control.distil.lessons import Asking
from ncp_control.distil.settings import DistilSettings
from ncp_control.runs.run import Run

SETTINGS = DistilSettings(steps=600, iterations=6, demonstrations=0.4, handover=4, patience=5, envs=2)


def asking(pupil: Any, settings: DistilSettings = SETTINGS) -> Asking:
    """Lessons on the rail, in which the point that the student drives off it earns nothing more."""
    student = student_of(lambda: Rail(20, returns=False))
    lessons = Asking(back, lambda: TeachingEnv(Rail(20, returns=False)), student, settings, Run(None, progress=False))
    lessons.student = Actor(pupil, student.model.action_space, "the student")
    return lessons


@pytest.mark.parametrize(
    ("pupil", "parts"),
    [(back, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]), (away, [1.0, 0.75, 0.75, 0.5, 0.5, 0.25])],
    ids=["well", "badly"],
)
def test_a_teacher_hands_over_less_quickly_where_the_student_does_badly(pupil: Any, parts: list[float]) -> None:
    lessons = asking(pupil)
    seen = []
    for iteration in range(len(parts)):
        lessons.collect(iteration)
        seen.append(lessons.teachers_part)
    assert seen == parts


def test_the_floor_of_the_first_iteration_holds_in_all_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    floors, collect = [], Collector.collect

    def noting(collector: Collector, *arguments: Any, **settings: Any) -> Any:
        floors.append(collector.floor)
        return collect(collector, *arguments, **settings)

    monkeypatch.setattr(Collector, "collect", noting)
    lessons = asking(away)
    for iteration in range(3):
        lessons.collect(iteration)
    assert floors[1:] == [1.0] * 3  # the teacher earns 1 in every step; the first episodes set the floor


def test_what_is_remembered_continues_the_lessons() -> None:
    lessons, again = asking(away), asking(away)
    for iteration in range(3):
        lessons.collect(iteration)
    again.recall(lessons.state(), lessons.demonstrations)
    lost = [one.collect(3) for one in (lessons, again)]
    assert lost[0] == lost[1]
    assert again.state() == lessons.state()
    assert len(again.demonstrations) == len(lessons.demonstrations)
