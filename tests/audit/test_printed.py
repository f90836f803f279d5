"""Certificates as text and as Markdown: no bound is printed narrower than it is, and nothing is passed over."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.certificates import SENSORS, certificate_of, feed_forward
from ncp_control.audit import words
from ncp_control.audit.certificate import Attack, CertifiedAction, Forgetting, Range
from ncp_control.audit.printed import as_markdown, as_text, side_by_side, side_by_side_markdown
from ncp_control.audit.sections import sections_of
from ncp_control.wiring import AutoNCP

HOSTILE = "\x1b[31mred|\n<b>*x*</b>"


def value_of(text: str) -> float:
    return float(text.replace(",", ""))


def test_no_bound_is_printed_narrower_than_it_is() -> None:
    rng = np.random.default_rng(0)
    values = [0.1, 1.0, -1.0, 0.07, 999_999.5, 1e6, 1e-4, 99_999.9, 5e-324, 2.0**-126, 1 + 2.0**-52]
    values += (rng.choice([-1, 1], 500) * 10 ** rng.uniform(-9, 9, 500)).tolist()
    for value in values:
        low, high = value_of(words.at_least(value)), value_of(words.at_most(value))
        assert low <= value <= high
        assert high - low <= 1.01e-3 * abs(value)
        assert value_of(words.share(abs(value)).removesuffix(" %")) >= 100 * abs(value) * (1 - 1e-15)


def test_round_numbers_stay_as_they_are() -> None:
    found = [words.at_most(0.1), words.at_least(-2.0), words.at_most(12_500.0), words.at_most(0.0), words.share(0.07)]
    assert found == ["0.1", "-2", "12,500", "0", "7 %"]
    assert words.span(Range(-0.123456, 0.123456)) == "-0.1235 to 0.1235"
    assert words.span(Range(-math.inf, 2.0)) == "at most 2"
    assert words.span(Range(0.25, math.inf)) == "at least 0.25"


def test_a_certificate_of_48_neurons_fits_a_screen() -> None:
    certificate = certificate_of(AutoNCP(48, 6, seed=1).build(17), tuple(f"sensor {k}" for k in range(17)))
    lines = as_text(certificate).splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 110


def test_it_says_what_was_certified_and_under_which_assumptions() -> None:
    text = " ".join(as_text(certificate_of(elapsed=(0.5, 2.0))).split())
    assert "3 standard deviations around the mean of the training" in text
    assert "from 0.5 to 2, another one before every step" in text
    assert "Ranges include the rounding of float32" in text
    assert "errors of up to 0.01 of every sensor's standard deviation in training" in text
    assert "0.01 in every sensor's own unit" in " ".join(as_text(certificate_of(error_units=(1.0,) * 4)).split())
    free = (Range(-math.inf, math.inf), *certificate_of().observations[1:])
    assert "without limits for cart position" in as_text(certificate_of(observations=free))
    assert "without limits for all of them" in as_text(certificate_of(observations=(free[0],) * 4))


def test_every_action_stands_with_its_ranges_and_with_how_far_errors_move_it() -> None:
    lines = as_text(certificate_of()).splitlines()
    (push,) = [line for line in lines if line.startswith("push ")]
    assert push.split() == ["push", "-0.7077", "to", "0.5919", "-1.25", "to", "1.75", "0.0125", "0.0375",
                            "0.0118,", "0.0321"]  # fmt: skip
    recorded = tuple(replace(one, moved_on_path=0.01) for one in certificate_of().actions)
    text = as_text(replace(certificate_of(), actions=recorded))
    assert "on recording" in text
    assert "on recording" not in as_text(certificate_of())


def test_a_bound_as_wide_as_the_range_of_an_action_is_called_so() -> None:
    whole = certificate_of()
    free = tuple(replace(one, moved_in_step=2.0, value=Range(-1.0, 1.0)) for one in whole.actions)
    (push,) = [line for line in as_text(replace(whole, actions=free)).splitlines() if line.startswith("push ")]
    assert "whole range" in push
    assert push.count("whole range") == 1


def test_what_is_not_proved_is_said_and_never_passed_over() -> None:
    whole = certificate_of(attacked=False)
    blank = Range(-math.inf, math.inf)
    unknown = replace(
        whole,
        actions=tuple(replace(one, raw=blank, moved_in_step=None, moved_in_episode=None) for one in whole.actions),
        neurons=tuple(
            replace(one, state=blank, time_constant=blank, forgets_after=None, matters=None) for one in whole.neurons
        ),
        synapses=tuple(replace(one, matters=None, sign="?") for one in whole.synapses),
        forgetting=Forgetting(False, "not proved: the cycle could enlarge differences", None, None, ()),
        paths=(), notes=("a reason that names the gap",),
    )  # fmt: skip
    lines = as_text(unknown).splitlines()
    (push,) = [line for line in lines if line.startswith("push ")]
    (inter,) = [line for line in lines if line.startswith("inter ")]
    assert push.count("not proved") == 3
    assert inter.count("not proved") == 4
    text = "\n".join(lines)
    assert "Which sensor reaches which action is not proved." in text
    assert "Forgetting is not proved: the cycle could enlarge differences." in text
    assert f"for {len(whole.synapses)} this is not proved" in " ".join(text.split())
    assert "a reason that names the gap" in text


def test_without_gaps_it_says_that_too() -> None:
    assert 'Whatever says "not proved" above.' in as_text(certificate_of(notes=()))
    assert "an audit knows nothing of its environment" in as_text(certificate_of(notes=()))


def test_a_broken_claim_comes_first() -> None:
    violations = ("the state of inter0 was certified to lie from 0 to 1, and reached 2",)
    text = as_text(certificate_of(attack=Attack(500, violations, 1.5, 0.1)))
    assert text.startswith("BROKEN")
    assert "broke 1 claim about cartpole, so this certificate is wrong" in text.splitlines()[0]
    assert violations[0] in text.splitlines()[1]
    assert "It broke 1 claim" in text


def test_of_many_broken_claims_some_are_printed_and_the_others_counted() -> None:
    text = as_text(certificate_of(attack=Attack(500, tuple(f"claim {k}" for k in range(25)), 1.5, 0.1)))
    assert "claim 9" in text
    assert "claim 10" not in text
    assert "and 15 more, which --json lists." in text


def test_an_attack_that_failed_says_how_hard_it_tried_and_none_says_how_to_try() -> None:
    text = " ".join(as_text(certificate_of()).split())
    assert "It broke no claim, with 10,000 observations in 3.2 s, up to 4,000 steps in a row. It raised each" in text
    assert (
        "replaced what 13 synapses and neurons pass on, and drove the states to their ends. A certified state" in text
    )
    assert "A certified state is 1.5 times as wide as what it found (median)." in text
    assert "None: --attack N searches for observations" in as_text(certificate_of(attacked=False))


def test_each_claim_stands_with_what_was_tried_against_it() -> None:
    lines = as_text(certificate_of()).splitlines()
    (inter,) = [line for line in lines if line.startswith("inter ")]
    assert inter.endswith("  1 %")  # of the neurons that were tried, the one that moved an action furthest
    (motor,) = [line for line in lines if line.startswith("motor ")]
    assert motor.endswith("  not tried")
    assert "The attack tried 7 of them, and moved an action by 1.5 % at most through one." in " ".join(
        " ".join(lines).split()
    )
    whole = as_markdown(certificate_of())
    assert "| by attack |" in whole
    assert "attack moved" not in as_text(certificate_of(attacked=False))


def test_an_agent_without_a_memory_has_no_neurons_to_print() -> None:
    text = as_text(feed_forward())
    assert "no memory; 4 observations, 2 actions" in text
    assert "None: every action depends on the current observation alone." in text
    assert "neuron" not in text
    assert "solver steps" not in text


def test_choices_say_which_of_them_are_ever_made() -> None:
    raw = (Range(0.0, 1.0), Range(2.0, 3.0), Range(2.5, 4.0))
    margins = (Range(-4.0, -1.5), Range(-2.0, 0.5), Range(-0.5, 2.0))
    made = tuple(
        CertifiedAction(f"choice{k}", margins[k], raw[k], margins[k].high >= 0, 0.1, 0.2, None, None) for k in range(3)
    )
    lines = as_text(replace(certificate_of(attacked=False), actions=made, paths=(), chooses=True)).splitlines()
    rows = [line.split() for line in lines if line.startswith("choice")]
    assert rows[0][:4] == ["choice", "ever", "made", "exceeds"]
    assert [row[:2] for row in rows[1:]] == [["choice0", "never"], ["choice1", "yes"], ["choice2", "yes"]]


def test_sensors_of_equal_signs_share_a_row_and_one_that_reaches_nothing_is_named() -> None:
    whole = certificate_of()
    some = tuple(replace(one, sign="?") for one in whole.paths)
    lines = as_text(replace(whole, paths=some)).splitlines()
    (row,) = [line for line in lines if line.startswith("cart position, cart velocity, pole angle ")]
    assert row.split()[-5:] == ["?", "?", "1", "to", "3"]
    (alone,) = [line for line in lines if line.startswith("pole angular velocity")]
    assert alone.split()[-3:] == [".", ".", "."]


def test_dead_neurons_and_idle_synapses_are_counted() -> None:
    text = " ".join(as_text(certificate_of()).split())
    assert "1 neuron dead (moves no action): inter1. 1 neuron saturated" in text
    assert "14 of 32 are active, 6 always open, 6 always closed, 6 dead." in text
    assert "Through 7 of them the source can never move an action." in text
    assert "These matter least: cart position -> inter1 0.2 %" in text


def test_markdown_has_a_row_for_every_sensor_neuron_and_synapse() -> None:
    certificate = certificate_of()
    rows = [line for line in as_markdown(certificate).splitlines() if line.startswith("|")]
    for name in SENSORS:
        assert sum(row.startswith(f"| {name} | -1.5 to") for row in rows) == 1
    for neuron in certificate.neurons:
        assert sum(row.startswith(f"| {neuron.name} | {neuron.layer} | {neuron.condition} |") for row in rows) == 1
    for one in certificate.synapses:
        assert sum(row.startswith(f"| {one.source} | {one.target} | {one.kind} |") for row in rows) == 1


def test_the_guide_explains_every_heading() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "audit.md").read_text(encoding="utf-8")
    explained = {word for row in re.findall(r"^\| ([^|]+) \|", guide, re.MULTILINE) for word in row.split(", ")}
    whole = certificate_of()
    recorded = tuple(replace(one, moved_on_path=0.01) for one in whole.actions)
    seen = sections_of(replace(whole, actions=recorded))
    headings = {name for one in seen for name in one.header}
    plain = {"action", "layer", "neurons", "sensor", *(one.name for one in whole.actions)}
    assert headings - plain <= explained
    assert {"dead", "saturated", "whole range", "not proved", "exceeds the others by", "ever made"} <= explained


@pytest.mark.parametrize("show", [as_text, as_markdown])
def test_names_from_files_cannot_steer_a_terminal_or_break_a_table(show: object) -> None:
    assert callable(show)
    whole = certificate_of(sensors=(HOSTILE, *SENSORS[1:]), actions=(HOSTILE, "turn"))
    neurons = tuple(replace(one, name=HOSTILE) if k == 0 else one for k, one in enumerate(whole.neurons))
    plain = certificate_of()
    text = show(replace(whole, agent=HOSTILE, neurons=neurons, notes=(HOSTILE,), box=HOSTILE, cell=HOSTILE))
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text.replace("\\[", "[").replace("\\\\", "\\")
    if show is as_markdown:
        assert len(text.splitlines()) == len(show(plain).splitlines())
        assert "<b>" not in text.replace("\\<", "")


def row_of(text: str, start: str) -> list[str]:
    """Returns the two numbers of the row that begins with these words."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{start} ")]
    return line.removeprefix(start).split()


def test_each_agent_has_a_column_and_every_comparison_a_row() -> None:
    one, other = certificate_of(), certificate_of(agent="other")
    forgetting = replace(one.forgetting, steps=None) if one.forgetting else None
    neurons = tuple(replace(neuron, condition="dead") for neuron in one.neurons)
    text = side_by_side(one, replace(other, neurons=neurons, forgetting=forgetting))
    assert text.splitlines()[0].split() == ["1:", "cartpole", "2:", "other"]
    assert row_of(text, "dead neurons") == ["1", "12"]
    assert row_of(text, "forgets after") == ["34", "steps", "not", "proved"]
    assert row_of(text, "an error in one step moves an action by") == ["0.0125", "0.0125"]
    assert row_of(text, "synapses through which nothing moves an action") == ["7", "7"]
    assert row_of(text, "certified width over what it reached (median)") == ["1.5", "1.5"]


def test_the_actions_of_both_stand_in_one_table_if_they_are_the_same_ones() -> None:
    one, other = certificate_of(), certificate_of(agent="other")
    narrow = tuple(replace(action, moved_in_step=0.001) for action in other.actions)
    text = side_by_side(one, replace(other, actions=narrow))
    (push,) = [line for line in text.splitlines() if line.startswith("push ")]
    assert push.split()[-4:] == ["0.0125", "0.001", "0.0375", "0.0375"]
    assert "push" not in side_by_side(one, certificate_of(actions=("left", "right")))


def test_different_assumptions_are_named() -> None:
    one = certificate_of()
    assert "compare their numbers with care" not in side_by_side(one, one)
    assert "Both are certified for these observations: 3 standard deviations" in side_by_side(one, one)
    text = side_by_side(one, certificate_of(error=0.02, elapsed=(0.5, 2.0), box="the observation space"))
    assert "The two are certified for different elapsed times, errors: compare" in text
    assert row_of(text, "elapsed time") == ["1", "0.5", "to", "2"]
    assert "the observation space" in text


def test_an_agent_without_a_memory_has_no_numbers_about_neurons() -> None:
    text = side_by_side(certificate_of(), feed_forward())
    assert row_of(text, "neurons") == ["12", "-"]
    assert row_of(text, "forgets after") == ["34", "steps", "-"]
    assert row_of(text, "attack") == ["held,", "10,000", "observations", "none"]


def test_what_is_not_proved_for_one_action_is_not_proved_for_the_most_moved_one() -> None:
    one = certificate_of()
    first, second = one.actions
    unknown = replace(one, actions=(first, replace(second, moved_in_step=None)))
    assert row_of(side_by_side(one, unknown), "an error in one step moves an action by") == ["0.0125", "not", "proved"]
    whole = replace(one, actions=(first, replace(second, moved_in_step=100.0)))
    assert row_of(side_by_side(one, whole), "an error in one step moves an action by") == ["0.0125", "whole", "range"]


def test_a_broken_claim_of_either_comes_first() -> None:
    broken = certificate_of(agent="other", attack=Attack(5, ("the state of x left its range",), None, 0.1))
    lines = side_by_side(certificate_of(), broken).splitlines()
    assert lines[0].startswith("BROKEN")
    assert "about other" in lines[0]
    assert "the state of x left its range" in lines[1]


def test_markdown_has_the_same_rows() -> None:
    one, other = certificate_of(), certificate_of(agent="a|b*")
    text = side_by_side_markdown(one, other)
    assert text.startswith("# cartpole beside a\\|b\\*\n")
    assert "| forgets after | 34 steps | 34 steps |" in text
    assert "| push |" in text
