"""A graph model is read whole, or refused with a sentence."""

from __future__ import annotations

import contextlib
import json
import random
from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.video.models.graph_model import GraphModelError, read_graph_model


def text_of(**nodes: dict[str, Any]) -> dict[str, Any]:
    """A model of these nodes, of which the last one is the output; constants are 2 x 2."""
    constants = [name for name, node in nodes.items() if node["op"] == "Const"]
    return {
        "format": "graph-model",
        "signature": {"outputs": {f"{list(nodes)[-1]}:0": {"tensorShape": {"dim": [{"size": "2"}]}}}},
        "modelTopology": {"node": [{"name": name, **node} for name, node in nodes.items()]},
        "weightsManifest": [
            {"weights": [{"name": name, "shape": [2, 2], "dtype": "float32"} for name in constants]}
        ],
    }


CONSTANT = {"op": "Const"}
WEIGHTS = np.arange(4, dtype="<f4").tobytes()


def encoded(model: dict[str, Any]) -> bytes:
    return json.dumps(model).encode()


def test_nodes_stand_behind_what_they_take_whatever_their_order_in_the_file() -> None:
    model = text_of(sum={"op": "Add", "input": ["a:0", "b"]}, a=CONSTANT, b=CONSTANT, last={"op": "Identity", "input": ["sum"]})
    found = read_graph_model(encoded(model), WEIGHTS * 2)
    assert [node.name for node in found.nodes] == ["a", "b", "sum", "last"]
    assert found.nodes[2].inputs == ("a", "b")
    assert found.outputs == {"last": (2,)}
    assert found.constants["b"].tolist() == [[0, 1], [2, 3]]


def test_halves_are_read_as_floats_and_the_next_weights_begin_behind_them() -> None:
    model = text_of(a=CONSTANT, b=CONSTANT, last={"op": "Add", "input": ["a", "b"]})
    model["weightsManifest"][0]["weights"][0]["quantization"] = {"dtype": "float16"}
    halves = np.array([0.5, 1, 2, 65504], "<f2").tobytes()
    found = read_graph_model(encoded(model), halves + WEIGHTS)
    assert found.constants["a"].dtype == np.float32
    assert found.constants["a"].tolist() == [[0.5, 1], [2, 65504]]
    assert found.constants["b"].tolist() == [[0, 1], [2, 3]]


def test_attributes_are_read_by_their_kind() -> None:
    node = {"op": "Conv2D", "input": ["a", "b"], "attr": {
        "padding": {"s": b64encode(b"SAME").decode()}, "strides": {"list": {"i": ["1", "2", "2", "1"]}},
        "alpha": {"f": 0.1}, "half": {"b": True}}}  # fmt: skip
    [*_, found] = read_graph_model(encoded(text_of(a=CONSTANT, b=CONSTANT, last=node)), WEIGHTS * 2).nodes
    assert (found.text("padding"), found.integers("strides")) == ("SAME", [1, 2, 2, 1])
    assert (found.number("alpha"), found.flag("half"), found.flag("none")) == (0.1, True, False)
    with pytest.raises(GraphModelError, match=r"last \(Conv2D\) has no dilations"):
        found.integers("dilations")


@pytest.mark.parametrize(
    ("change", "weights", "said"),
    [
        (lambda m: m["modelTopology"]["node"].pop(0), WEIGHTS, "takes a, which is not there"),
        (lambda m: m["modelTopology"]["node"][0].update(op="Add", input=["last"]), WEIGHTS, "needs itself"),
        (lambda m: m.update(format="layers-model"), WEIGHTS, "a graph model"),
        (lambda m: m.pop("signature"), WEIGHTS, "no TensorFlow.js model"),
        (lambda m: None, WEIGHTS[:-1], "end before those of a"),
        (lambda m: None, WEIGHTS + b"x", "1 bytes of weights belong to nothing"),
        (lambda m: m["weightsManifest"][0]["weights"][0].update(dtype="string"), WEIGHTS, "not read here"),
        (lambda m: m["weightsManifest"][0]["weights"][0].update(shape=[-4]), WEIGHTS, "end before"),
        (lambda m: m["weightsManifest"][0]["weights"][0].update(shape=[1 << 40]), WEIGHTS, "end before"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(change: Any, weights: bytes, said: str) -> None:
    model = text_of(a=CONSTANT, last={"op": "Identity", "input": ["a"]})
    change(model)
    with pytest.raises(GraphModelError, match=said):
        read_graph_model(encoded(model), weights)


def test_a_graph_deeper_than_pythons_stack_is_read() -> None:
    chain = {f"n{n}": {"op": "Identity", "input": [f"n{n - 1}"]} for n in range(1, 5000)}
    model = text_of(n0=CONSTANT, **chain)
    assert len(read_graph_model(encoded(model), WEIGHTS).nodes) == 5000


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_junk_is_refused_and_nothing_else_happens(model: bytes, weights: bytes) -> None:
    with pytest.raises(GraphModelError):
        read_graph_model(model, weights)


def test_a_damaged_file_is_read_or_refused(dice: random.Random) -> None:
    whole = encoded(text_of(a=CONSTANT, b=CONSTANT, last={"op": "Add", "input": ["a", "b"]}))
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        with contextlib.suppress(GraphModelError):
            read_graph_model(bytes(damaged), WEIGHTS * 2)
