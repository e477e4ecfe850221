"""A gallery in force as a reader of the bus makes it, with a real table."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alarm.lists.face_table import FaceTable, build_face_table
from alarm.rules.face_gallery import FaceGallery
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import FaceLine, ListRecord
from tests.alarm.lists.made_lists import VERSION

EIGHT = FeatureModel(name="eight/1", dimensions=8, measure="cosine", threshold=0.8)


def feature(vector: Iterable[float]) -> bytes:
    return np.asarray(list(vector), dtype="<f4").tobytes()


def text_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def unit(dimensions: int, seed: int) -> NDArray[np.float32]:
    vector = np.random.default_rng(seed).standard_normal(dimensions)
    return (vector / np.linalg.norm(vector)).astype("<f4")


def gallery_record(
    list_id: str, model: FeatureModel, *, version: int = VERSION, alarms: bool = True
) -> ListRecord:
    return ListRecord(
        list_id=list_id, op="put", version=version, name=f"Gallery {list_id}", kind="face",
        model=model, severity="critical", alarms=alarms, date="2026-03-01", renewed_at_ms=VERSION,
    )  # fmt: skip


def made_gallery(
    directory: Path,
    list_id: str,
    faces: Mapping[str, bytes],
    *,
    model: FeatureModel = EIGHT,
    added: Mapping[str, bytes] | None = None,
    removed: Iterable[str] = (),
    version: int = VERSION,
    alarms: bool = True,
) -> FaceGallery:
    """Lines are numbered from 2, as in a file with a heading."""
    path = directory / f"{list_id}-{version}.faces"
    lines = [
        FaceLine(at, entry, f"note {at}", "2026-02-01", own)
        for at, (entry, own) in enumerate(faces.items(), 2)
    ]
    build_face_table(lines, path, model)
    changed = {
        entry: FaceLine(0, entry, "changed", "", own) for entry, own in (added or {}).items()
    }
    record = gallery_record(list_id, model, version=version, alarms=alarms)
    return FaceGallery(record, model, FaceTable.open(path), changed, frozenset(removed))
