"""The detector that `./databus setup --with video` has put into the cache.

In: the cache's folder. Out: the model's path; a detector. Never: a fetch.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ingest.video.detection.nanodet import NanodetDetector

NAME = "nanodet-5d0e4f8c-1.onnx"
"""With the beginning of its weights' hash, and the version of their conversion."""


def model_path(cache: Path) -> Path:
    """Where it is, or will be."""
    return cache / "models" / NAME


def installed_detector(cache: Path) -> NanodetDetector | None:
    """Ready to look; None where it was not set up."""
    path = model_path(cache)
    if find_spec("onnxruntime") is None or not path.is_file():
        return None
    return NanodetDetector(path.read_bytes())
