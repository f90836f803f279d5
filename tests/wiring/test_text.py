"""A wiring as text: JSON and the summary."""

import json

import pytest

from helpers.wirings import refused, touch_circuit
from ncp_control.wiring import Wiring


def test_json_says_what_it_is():
    document = json.loads(touch_circuit().to_json())
    assert (document["format"], document["version"], document["inputs"]) == ("ncp_control.wiring", 1, 4)
    assert document["layers"] == [["inter", 3], ["command", 2], ["motor", 2]]
    assert document["gap_junctions"] == [[0, 3], [1, 2], [2, 4]]
    assert [0, 0, -1] in document["sensory"]


def drop(key):
    return lambda document: document.pop(key)


def put(value, *path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (put("ncps", "format"), ["not a wiring", "ncp_control.wiring"]),
        (drop("format"), ["not a wiring"]),
        (put(2, "version"), ["version 2", "version 1"]),
        (put(True, "version"), ["version True"]),
        (drop("version"), ["version None"]),
        (drop("synapses"), ["lacks synapses"]),
        (put(1, "colour"), ["colour"]),
        (put(4.0, "inputs"), ["inputs", "4.0"]),
        (put(5, "inputs"), ["5 inputs", "4 input names"]),
        (put(10**30, "inputs"), ["4 input names"]),
        (put({}, "sensory"), ['"sensory"', "list"]),
        (put([0, 0], "sensory", 0), ["[source, target, polarity]", "[0, 0]"]),
        (put(True, "sensory", 0, 2), ["whole numbers", "True"]),
        (put(1.0, "sensory", 0, 0), ["whole numbers", "1.0"]),
        (put("PLM", "sensory", 0, 0), ["whole numbers", "PLM"]),
        (put(4, "sensory", 0, 0), ["input 4", "4 inputs"]),
        (put(-1, "synapses", 0, 1), ["neuron -1"]),
        (put(10**30, "synapses", 0, 1), ["whole numbers"]),
        (put(3, "synapses", 0, 2), ["+1 or -1", "3"]),
        (put([0, 3, 1], "synapses", 0), ["from 0 to 3", "more than once"]),
        (put([3, 3], "gap_junctions", 0), ["'AVA'", "itself"]),
        (put([3], "gap_junctions", 0), ["[a, b]"]),
        (put(["motor"], "layers", 0), ["[name, size]"]),
        (put("muscle", "layers", 2, 0), ["muscle"]),
        (put("2", "layers", 2, 1), ["size of layer motor", "'2'"]),
        (put(3, "layers", 2, 1), ["8 neurons", "7 neuron names"]),
        (put([], "neuron_names"), ["neuron_names", "empty"]),
        (put(7, "neuron_names", 0), ["text", "7"]),
        (put("PVC", "neuron_names", 0), ["'PVC'", "more than once"]),
        (put([], "sensory"), ["'REV'", "cannot be reached"]),
    ],
)
def test_json_that_was_tampered_with_is_refused_in_one_sentence(change, fragments):
    document = json.loads(touch_circuit().to_json())
    change(document)
    refused(lambda: Wiring.from_json(json.dumps(document)), *fragments)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": ' + "9" * 5000 + "}"])
def test_text_that_is_no_wiring_is_refused(text: str):
    refused(lambda: Wiring.from_json(text), "JSON")


def test_from_json_wants_the_text_itself():
    refused(lambda: Wiring.from_json(json.loads(touch_circuit().to_json())), "text", "dict")


def test_the_summary_shows_the_circuit():
    wiring = touch_circuit()
    lines = str(wiring).splitlines()
    assert lines == wiring.summary().splitlines()
    assert lines[0] == "4 inputs, 7 neurons, 2 outputs"
    words = [line.split() for line in lines]
    assert ["synapses", "11", "sensory,", "10", "recurrent"] in words
    assert ["gap", "junctions", "3"] in words
    # from inputs to inter and command, within inter, from inter to command, within command, from command to motor
    allowed = 4 * 3 + 4 * 2 + 3 * 3 + 3 * 2 + 2 * 2 + 2 * 2
    assert wiring.allowed_synapses == allowed
    assert lines[3] == f"density        21 of the {allowed} synapses that its layers allow (49%)"
    assert ["polarity", "12", "excitatory", "(57%),", "9", "inhibitory", "(43%)"] in words
    assert ["inter", "3", "1", "3", "5"] in words
    assert ["inputs", "8", "3", "."] in words
    assert ["inter", "1", "5", "."] in words
    assert ["command", ".", "2", "2"] in words
    assert ["motor", ".", ".", "."] in words
    tables = [block.splitlines() for block in str(wiring).split("\n\n")[1:]]
    assert all(len({len(line) for line in table}) == 1 for table in tables)


def test_repr_is_one_short_line():
    assert repr(touch_circuit()) == (
        "<Wiring inputs=4, inter=3, command=2, motor=2, sensory=11, synapses=10, gap_junctions=3>"
    )
