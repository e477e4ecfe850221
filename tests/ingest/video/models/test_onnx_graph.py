"""Each kind of node computes in ONNX what it computes in TensorFlow, by NumPy's and OpenCV's word."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from ingest.video.models.graph_model import GraphModel, GraphModelError, GraphNode
from ingest.video.models.onnx_graph import onnx_of

Array = NDArray[Any]


def computed(
    data: Array, kind: str, *constants: Array, out: str = "out", shape: tuple[int, ...] = (), **attributes: Any
) -> Array:
    """One node over a picture and constants."""
    names = [f"c{n}" for n in range(len(constants))]
    place = {"shape": {"shape": {"dim": [{"size": str(one)} for one in data.shape]}}}
    nodes = (
        GraphNode("in", "Placeholder", (), place),
        *(GraphNode(name, "Const", (), {}) for name in names),
        GraphNode("out", kind, ("in", *names), attributes),
        GraphNode("last", "Identity", (out,), {}),
    )
    model = GraphModel(nodes, dict(zip(names, constants, strict=True)), {"last": shape})
    return ran(model, data)


def ran(model: GraphModel, data: Array) -> Array:
    session = onnxruntime.InferenceSession(onnx_of(model), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"in": data})
    return np.asarray(found)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def text(of: str) -> dict[str, str]:
    return {"s": b64encode(of.encode()).decode()}


def integers(*those: int) -> dict[str, Any]:
    return {"list": {"i": [str(one) for one in those]}}


@pytest.fixture
def picture() -> Array:
    return np.random.default_rng(5).normal(size=(1, 9, 7, 4)).astype(np.float32)


def convolved(picture: Array, kernel: Array, stride: int, padding: str) -> Array:
    """As TensorFlow says: height x width x channels, the rest of SAME's padding behind."""
    height, width, own, many = kernel.shape
    sizes = [-(-one // stride) if padding == "SAME" else (one - k) // stride + 1
             for one, k in zip(picture.shape[1:3], (height, width), strict=True)]  # fmt: skip
    if padding == "SAME":
        needed = [max(0, (n - 1) * stride + k - one) for n, k, one in zip(sizes, (height, width), picture.shape[1:3], strict=True)]
        picture = np.pad(picture, [(0, 0), *((one // 2, one - one // 2) for one in needed), (0, 0)])
    groups = picture.shape[3] // own
    found = np.zeros((1, *sizes, many), np.float32)
    for y, x, out in np.ndindex(*sizes, many):
        first = out // (many // groups) * own
        part = picture[0, y * stride : y * stride + height, x * stride : x * stride + width, first : first + own]
        found[0, y, x, out] = np.sum(part * kernel[:, :, :, out])
    return found


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("own", "many"), [(4, 6), (1, 4)], ids=["all channels", "each by itself"])
def test_a_convolution(picture: Array, padding: str, stride: int, own: int, many: int) -> None:
    kernel = np.random.default_rng(6).normal(size=(3, 3, own, many)).astype(np.float32)
    expected = convolved(picture, kernel, stride, padding)
    found = computed(
        picture, "Conv2D", kernel, shape=expected.shape, padding=text(padding), data_format=text("NHWC"),
        strides=integers(1, stride, stride, 1), dilations=integers(1, 1, 1, 1),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_largest_of_a_window(picture: Array) -> None:
    found = computed(
        picture, "MaxPool", shape=(1, 4, 3, 4), padding=text("VALID"), data_format=text("NHWC"),
        ksize=integers(1, 2, 2, 1), strides=integers(1, 2, 2, 1),
    )  # fmt: skip
    expected = picture[:, :8, :6].reshape(1, 4, 2, 3, 2, 4).max(axis=(2, 4))
    np.testing.assert_array_equal(found, expected)


def test_a_picture_made_larger_is_that_of_opencv(picture: Array) -> None:
    found = computed(picture, "ResizeBilinear", whole(18, 14), shape=(1, 18, 14, 4), half_pixel_centers={"b": True})
    expected = cv2.resize(picture[0], (14, 18), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "constants", "more", "expected"),
    [
        ("Transpose", (whole(0, 3, 1, 2),), {}, lambda p: p.transpose(0, 3, 1, 2)),
        ("Pad", (np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32),), {},
         lambda p: np.pad(p, [(0, 0), (1, 2), (0, 3), (0, 0)])),
        ("PadV2", (np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), np.array(-7, np.float32)), {},
         lambda p: np.pad(p, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-7)),
        ("Add", (np.array([1, 2, 3, 4], np.float32),), {}, lambda p: p + np.array([1, 2, 3, 4])),
        ("AddV2", (np.array([[2]], np.float32),), {}, lambda p: p + 2),
        ("LeakyRelu", (), {"alpha": {"f": 0.1}}, lambda p: np.where(p < 0, 0.1 * p, p)),
        ("Sigmoid", (), {}, lambda p: 1 / (1 + np.exp(-p))),
        ("Reshape", (whole(1, 63, 4),), {}, lambda p: p.reshape(1, 63, 4)),
        ("ConcatV2", (np.ones((1, 9, 7, 2), np.float32), whole(3)[0]), {},
         lambda p: np.concatenate([p, np.ones((1, 9, 7, 2))], axis=3)),
        ("Identity", (), {}, lambda p: p),
    ],
)  # fmt: skip
def test_the_other_kinds(
    picture: Array, kind: str, constants: tuple[Array, ...], more: dict[str, Any], expected: Any
) -> None:
    wanted = np.asarray(expected(picture))
    found = computed(picture, kind, *constants, shape=wanted.shape, **more)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("out", "part"), [("out", slice(0, 3)), ("out:1", slice(3, 4))])
def test_a_part_of_what_was_split(picture: Array, out: str, part: slice) -> None:
    expected = picture[..., part]
    found = computed(picture, "SplitV", whole(3, 1), whole(3)[0], out=out, shape=expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_a_shape_that_is_computed_from_constants_is_known(picture: Array) -> None:
    """As a converter leaves it: numbers at some places, and added to others."""
    nodes = (
        GraphNode("in", "Placeholder", (), {"shape": {"shape": {"dim": [{"size": str(n)} for n in picture.shape]}}}),
        *(GraphNode(name, "Const", (), {}) for name in ("at", "size", "put", "else", "more")),
        GraphNode("dense", "SparseToDense", ("at", "size", "put", "else"), {}),
        GraphNode("sum", "AddV2", ("dense", "more"), {}),
        GraphNode("last", "Reshape", ("in", "sum"), {}),
    )
    constants = {
        "at": np.array([[1]], np.int32), "size": whole(3), "put": whole(60), "else": whole(1)[0],
        "more": whole(0, 3, 3),
    }  # fmt: skip
    found = ran(GraphModel(nodes, constants, {"last": (1, 63, 4)}), picture)
    np.testing.assert_array_equal(found, picture.reshape(1, 63, 4))


def test_what_is_not_known_is_refused_by_its_name(picture: Array) -> None:
    with pytest.raises(GraphModelError, match="out: Softmax is not known here"):
        computed(picture, "Softmax")
    with pytest.raises(GraphModelError, match="half pixel"):
        computed(picture, "ResizeBilinear", whole(18, 14), align_corners={"b": True})
