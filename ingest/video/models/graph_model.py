"""A TensorFlow.js graph model (`model.json` and its weights) as nodes and constants. Pure.

In: the bytes of both files. Out: the nodes in an order in which each stands behind what it takes,
and NumPy arrays. Never: what a kind of node computes. Source: the converter's format,
https://github.com/tensorflow/tfjs (`io/types.ts`, `operations/operation_mapper.ts`).
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MOST_NODES = 20_000
_TYPES = {"float32": "<f4", "int32": "<i4", "bool": "u1"}
_HALF = "float16"


class GraphModelError(ValueError):
    """The files are no graph model, or hold something that is not read here; says what."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A computation: `inputs` are names of nodes, with `:n` behind it the n-th output of one."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def number(self, attribute: str) -> float:
        """Of an attribute that is a number."""
        return float(self._value(attribute, "f"))

    def flag(self, attribute: str) -> bool:
        """Of an attribute that is a truth; false where it is not given."""
        return bool(self.attributes.get(attribute, {}).get("b", False))

    def integers(self, attribute: str) -> list[int]:
        """Of an attribute that is a list of integers."""
        return [_integer(one) for one in self._value(attribute, "list").get("i", ())]

    def text(self, attribute: str) -> str:
        """Of an attribute that is a text."""
        return b64decode(self._value(attribute, "s")).decode("ascii")

    def shape(self) -> list[int]:
        """Of a placeholder: what is put there."""
        dimensions = self._value("shape", "shape").get("dim", ())
        return [_integer(one.get("size")) for one in dimensions]

    def _value(self, attribute: str, kind: str) -> Any:
        try:
            return self.attributes[attribute][kind]
        except (KeyError, TypeError) as error:
            raise GraphModelError(f"{self.name} ({self.kind}) has no {attribute}") from error


@dataclass(frozen=True, slots=True)
class GraphModel:
    """Invariant: every input of a node is a node before it. `outputs` have their shapes."""

    nodes: tuple[GraphNode, ...]
    constants: Mapping[str, Array]
    outputs: Mapping[str, tuple[int, ...]]


class _Weight(msgspec.Struct):
    name: str
    shape: list[int]
    dtype: str
    quantization: dict[str, Any] = msgspec.field(default_factory=dict)


class _WeightGroup(msgspec.Struct):
    weights: list[_Weight]


class _NodeEntry(msgspec.Struct):
    name: str
    op: str
    input: list[str] = msgspec.field(default_factory=list)
    attr: dict[str, Any] = msgspec.field(default_factory=dict)


class _Topology(msgspec.Struct):
    node: list[_NodeEntry]


class _Dimension(msgspec.Struct):
    size: str


class _Shape(msgspec.Struct):
    dim: list[_Dimension] = msgspec.field(default_factory=list)


class _Output(msgspec.Struct, rename="camel"):
    tensor_shape: _Shape


class _Signature(msgspec.Struct):
    outputs: dict[str, _Output]


class _Model(msgspec.Struct, rename="camel"):
    model_topology: _Topology
    weights_manifest: list[_WeightGroup]
    signature: _Signature
    format: str = ""


def read_graph_model(model_json: bytes, weights: bytes) -> GraphModel:
    """Raises GraphModelError."""
    try:
        model = msgspec.json.decode(model_json, type=_Model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GraphModelError(f"this is no TensorFlow.js model: {error}") from error
    nodes = model.model_topology.node
    if model.format not in {"", "graph-model"} or len(nodes) > MOST_NODES:
        raise GraphModelError(f"a graph model of at most {MOST_NODES} nodes is expected")
    specified = [one for group in model.weights_manifest for one in group.weights]
    constants = dict(_constants(specified, weights))
    found = {
        one.name: GraphNode(one.name, one.op, tuple(map(_reference, one.input)), one.attr)
        for one in nodes
    }
    outputs = {
        _reference(name): tuple(_integer(one.size) for one in output.tensor_shape.dim)
        for name, output in model.signature.outputs.items()
    }
    return GraphModel(tuple(_Order(found).before(tuple(outputs))), constants, outputs)


def node_of(reference: str) -> str:
    """The name of the node that an input names."""
    return reference.partition(":")[0]


def _integer(written: Any) -> int:
    """Whole numbers of 64 bits are texts in JSON."""
    try:
        return int(written)
    except (ValueError, TypeError) as error:
        raise GraphModelError(f"{written!r} is no whole number") from error


def _reference(text: str) -> str:
    """The first output of a node goes by its name alone."""
    return text.lstrip("^").removesuffix(":0")


def _constants(specified: list[_Weight], weights: bytes) -> Iterator[tuple[str, Array]]:
    at = 0
    for one in specified:
        is_half = one.quantization.get("dtype") == _HALF
        if one.dtype not in _TYPES or (one.quantization and not is_half):
            raise GraphModelError(f"{one.name} is stored in a way that is not read here")
        stored = np.dtype("<f2" if is_half else _TYPES[one.dtype])
        count = math.prod(one.shape)
        if min(one.shape, default=0) < 0 or at + count * stored.itemsize > len(weights):
            raise GraphModelError(f"the weights end before those of {one.name}")
        values = np.frombuffer(weights, stored, count, at).reshape(one.shape)
        at += count * stored.itemsize
        yield one.name, values.astype(_TYPES[one.dtype])
    if at != len(weights):
        raise GraphModelError(f"{len(weights) - at} bytes of weights belong to nothing")


@dataclass(slots=True)
class _Order:
    """Puts nodes in order, without recursion: a graph may be deeper than Python's stack."""

    nodes: Mapping[str, GraphNode]
    found: dict[str, None] = field(default_factory=dict)

    def before(self, outputs: tuple[str, ...]) -> Iterator[GraphNode]:
        """All nodes that the outputs need."""
        opened: set[str] = set()
        pending = [node_of(name) for name in reversed(outputs)]
        while pending:
            name = pending[-1]
            if name in self.found:
                pending.pop()
                continue
            node = self.nodes.get(name)
            if node is None:
                raise GraphModelError(f"a node takes {name}, which is not there")
            needed = [n for n in map(node_of, node.inputs) if n not in self.found]
            if not needed:
                self.found[name] = None
                yield node
            elif name in opened:
                raise GraphModelError(f"{name} needs itself")
            else:
                opened.add(name)
                pending += reversed(needed)
