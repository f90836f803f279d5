"""Two certificates beside each other."""

from dataclasses import replace

from helpers.certificates import certificate_of, feed_forward
from ncp_control.audit.certificate import Attack
from ncp_control.audit.side_by_side import side_by_side, side_by_side_markdown


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
    assert row_of(text, "forgets after") == ["34", "steps", "not", "shown"]
    assert row_of(text, "an error moves an action now by") == ["0.0125", "0.0125"]
    assert row_of(text, "synapses through which nothing moves an action") == ["7", "7"]
    assert row_of(text, "certified width over what it reached (median)") == ["1.5", "1.5"]


def test_the_actions_of_both_stand_in_one_table_if_they_are_the_same_ones() -> None:
    one, other = certificate_of(), certificate_of(agent="other")
    narrow = tuple(replace(action, moved_now=0.001) for action in other.actions)
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


def test_what_is_not_shown_for_one_action_is_not_shown_for_the_most_moved_one() -> None:
    one = certificate_of()
    first, second = one.actions
    unknown = replace(one, actions=(first, replace(second, moved_now=None)))
    assert row_of(side_by_side(one, unknown), "an error moves an action now by") == ["0.0125", "not", "shown"]
    whole = replace(one, actions=(first, replace(second, moved_now=100.0)))
    assert row_of(side_by_side(one, whole), "an error moves an action now by") == ["0.0125", "whole", "range"]


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
