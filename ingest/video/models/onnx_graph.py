"""A graph model as ONNX: the kinds of node that small detectors are made of.

In: a `GraphModel`. Out: an ONNX model (bytes), whose outputs have the names they had. Never: a kind
of node that is not in `_KINDS`: a model with another one is refused by its name.

TensorFlow's pictures are height x width x channels, ONNX's channels first: nodes that know of it
stand between two transpositions, of which the runtime takes out those that undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ingest.video.models.graph_model import Array, GraphModel, GraphModelError, GraphNode

OPSET = 13
_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
_PADDINGS = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def onnx_of(model: GraphModel) -> bytes:
    """Raises GraphModelError for a node that is not known here."""
    graph = _Graph(model)
    for node in model.nodes:
        graph.add(node)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in model.outputs.items()
    ]
    made = helper.make_graph(graph.nodes, "graph", graph.inputs, outputs, graph.initializers)
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])
    whole.ir_version = 8  # the oldest that has this opset; any runtime of these years reads it
    onnx.checker.check_model(whole)
    return bytes(whole.SerializeToString())


@dataclass(slots=True)
class _Graph:
    """What has been made so far. Invariant: `values` are the nodes whose result is known now."""

    model: GraphModel
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)

    def add(self, node: GraphNode) -> None:
        """One node, behind those it takes."""
        make = _KINDS.get(node.kind)
        if make is None:
            raise GraphModelError(f"{node.name}: {node.kind} is not known here")
        make(self, node)

    def value(self, reference: str) -> Array:
        """Of an input that has to be known now, as a shape is."""
        try:
            return self.values[reference]
        except KeyError:
            raise GraphModelError(f"{reference} is computed from the picture") from None

    def data(self, reference: str) -> str:
        """The name of an input; a constant is stored when it is first used."""
        if reference in self.values and reference not in self.stored:
            self.store(reference, self.values[reference])
        return reference

    def store(self, name: str, values: Array) -> str:
        """A constant of the ONNX model."""
        self.stored.add(name)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def put(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **given: Any) -> None:
        """A node of the ONNX model."""
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=outputs[0], **given))

    def put_channels_first(
        self, kind: str, node: GraphNode, *others: str, **given: Any
    ) -> None:
        """A node between two transpositions."""
        turned, done = f"{node.name}/channels_first", f"{node.name}/done"
        self.put("Transpose", [self.data(node.inputs[0])], [turned], perm=_CHANNELS_FIRST)
        self.put(kind, [turned, *others], [done], **given)
        self.put("Transpose", [done], [node.name], perm=_CHANNELS_LAST)


def _constant(graph: _Graph, node: GraphNode) -> None:
    if node.name not in graph.model.constants:
        raise GraphModelError(f"{node.name} has no values")
    graph.values[node.name] = graph.model.constants[node.name]


def _input(graph: _Graph, node: GraphNode) -> None:
    info = helper.make_tensor_value_info(node.name, TensorProto.FLOAT, node.shape())
    graph.inputs.append(info)


def _dense(graph: _Graph, node: GraphNode) -> None:
    """Values at some places of an array, another one everywhere else."""
    places, shape, values, other = map(graph.value, node.inputs)
    found = np.full(shape.astype(int).tolist(), other, dtype=values.dtype)
    for place, value in zip(places, values, strict=True):
        found[tuple(place)] = value
    graph.values[node.name] = found


def _sum(graph: _Graph, node: GraphNode) -> None:
    one, other = node.inputs
    if one in graph.values and other in graph.values:
        graph.values[node.name] = graph.values[one] + graph.values[other]
        return
    graph.put("Add", [graph.data(one), graph.data(other)], [node.name])


def _transposed(graph: _Graph, node: GraphNode) -> None:
    order = graph.value(node.inputs[1]).tolist()
    graph.put("Transpose", [graph.data(node.inputs[0])], [node.name], perm=order)


def _padded(graph: _Graph, node: GraphNode) -> None:
    widths = graph.value(node.inputs[1]).T.reshape(-1).astype(np.int64)
    filled = graph.value(node.inputs[2]) if len(node.inputs) > 2 else np.float32(0)
    inputs = [
        graph.data(node.inputs[0]), graph.store(f"{node.name}/widths", widths),
        graph.store(f"{node.name}/filled", np.asarray(filled, np.float32)),
    ]  # fmt: skip
    graph.put("Pad", inputs, [node.name])


def _convolved(graph: _Graph, node: GraphNode) -> None:
    """A kernel of one channel goes over each channel by itself."""
    kernel = graph.value(node.inputs[1]).transpose(3, 2, 0, 1)
    name = graph.store(f"{node.name}/kernel", kernel)
    groups = kernel.shape[0] if kernel.shape[1] == 1 else 1
    graph.put_channels_first(
        "Conv", node, name, group=groups, kernel_shape=kernel.shape[2:],
        strides=node.integers("strides")[1:3], dilations=node.integers("dilations")[1:3],
        auto_pad=_padding(node),
    )  # fmt: skip


def _pooled(graph: _Graph, node: GraphNode) -> None:
    graph.put_channels_first(
        "MaxPool", node, kernel_shape=node.integers("ksize")[1:3],
        strides=node.integers("strides")[1:3], auto_pad=_padding(node),
    )  # fmt: skip


def _padding(node: GraphNode) -> str:
    if node.text("data_format") != "NHWC" or node.text("padding") not in _PADDINGS:
        raise GraphModelError(f"{node.name}: its channels or padding are not known here")
    return _PADDINGS[node.text("padding")]


def _resized(graph: _Graph, node: GraphNode) -> None:
    """The size is that of the picture; its number of pictures and channels stay: ONNX wants all."""
    if not node.flag("half_pixel_centers") or node.flag("align_corners"):
        raise GraphModelError(f"{node.name}: only half pixel centers are known here")
    turned, done = f"{node.name}/channels_first", f"{node.name}/done"
    kept, size = f"{node.name}/kept", f"{node.name}/size"
    wanted = graph.store(f"{node.name}/wanted", graph.value(node.inputs[1]).astype(np.int64))
    first = graph.store(f"{node.name}/first", np.array([0], np.int64))
    last = graph.store(f"{node.name}/last", np.array([2], np.int64))
    graph.put("Transpose", [graph.data(node.inputs[0])], [turned], perm=_CHANNELS_FIRST)
    graph.put("Shape", [turned], [f"{node.name}/shape"])
    graph.put("Slice", [f"{node.name}/shape", first, last], [kept])
    graph.put("Concat", [kept, wanted], [size], axis=0)
    graph.put(
        "Resize", [turned, "", "", size], [done], mode="linear",
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    graph.put("Transpose", [done], [node.name], perm=_CHANNELS_LAST)


def _joined(graph: _Graph, node: GraphNode) -> None:
    *parts, axis = node.inputs
    graph.put("Concat", [graph.data(p) for p in parts], [node.name], axis=int(graph.value(axis)))


def _split(graph: _Graph, node: GraphNode) -> None:
    data, sizes, axis = node.inputs
    widths = graph.value(sizes).astype(np.int64)
    names = [node.name, *(f"{node.name}:{number}" for number in range(1, len(widths)))]
    inputs = [graph.data(data), graph.store(f"{node.name}/sizes", widths)]
    graph.put("Split", inputs, names, axis=int(graph.value(axis)))


def _reshaped(graph: _Graph, node: GraphNode) -> None:
    shape = graph.store(f"{node.name}/shape", graph.value(node.inputs[1]).astype(np.int64))
    graph.put("Reshape", [graph.data(node.inputs[0]), shape], [node.name])


def _leaky(graph: _Graph, node: GraphNode) -> None:
    inputs = [graph.data(node.inputs[0])]
    graph.put("LeakyRelu", inputs, [node.name], alpha=node.number("alpha"))


def _same(kind: str) -> Callable[[_Graph, GraphNode], None]:
    """A kind that both have, of one input."""

    def put(graph: _Graph, node: GraphNode) -> None:
        graph.put(kind, [graph.data(node.inputs[0])], [node.name])

    return put


_KINDS: dict[str, Callable[[_Graph, GraphNode], None]] = {
    "Add": _sum, "AddV2": _sum, "ConcatV2": _joined, "Const": _constant, "Conv2D": _convolved,
    "Identity": _same("Identity"), "LeakyRelu": _leaky, "MaxPool": _pooled, "Pad": _padded,
    "PadV2": _padded, "Placeholder": _input, "Reshape": _reshaped, "ResizeBilinear": _resized,
    "Sigmoid": _same("Sigmoid"), "SparseToDense": _dense, "SplitV": _split,
    "Transpose": _transposed,
}  # fmt: skip
