"""A list as the site's decider puts it on `state.lists`: chunks first, then the record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import (
    FaceLine,
    ListLine,
    ListRecord,
    Tolerance,
    base_key,
    change_key,
)
from bus.domain.list_chunks import base_chunks, chunk_value, face_chunk_value, face_chunks


def records_of_list(
    list_id: str,
    plates: Sequence[str],
    added: Sequence[str] = (),
    version: int = 1,
    tolerance: Tolerance = "exact",
    renewal_days: int = 0,
    renewed_at_ms: int = 0,
) -> Iterator[tuple[str, bytes]]:
    """Key and value of each; `added`: by a change. Lines of the base are numbered from 2."""
    lines = [ListLine(at, plate, f"note {at}") for at, plate in enumerate(plates, 2)]
    base = hashlib.sha256("".join(plates).encode()).hexdigest()[:32]
    chunks, changes = [], []
    for chunk in base_chunks(lines):
        chunks.append(chunk.named)
        yield base_key(list_id, base, chunk.named.number), chunk.value
    if added:
        change = chunk_value(version, [ListLine(0, plate) for plate in added])
        changes.append(change.named)
        yield change_key(list_id, base, version), change.value
    record = ListRecord(
        list_id=list_id, op="put", version=version, name=list_id, base=base, date="2026-03-01",
        tolerance=tolerance, chunks=tuple(chunks), changes=tuple(changes),
        renewal_days=renewal_days, renewed_at_ms=renewed_at_ms,
    )  # fmt: skip
    yield list_id, msgspec.json.encode(record)


def records_of_gallery(
    list_id: str,
    model: FeatureModel,
    faces: Mapping[str, bytes],
    added: Mapping[str, bytes] | None = None,
    removed: Sequence[str] = (),
    version: int = 1,
) -> Iterator[tuple[str, bytes]]:
    """The same of a gallery; `added`, `removed`: by a change."""
    lines = [FaceLine(at, entry, f"note {at}", "", own) for at, (entry, own) in enumerate(faces.items(), 2)]
    base = hashlib.sha256(b"".join(faces.values())).hexdigest()[:32]
    chunks, changes = [], []
    for chunk in face_chunks(lines):
        chunks.append(chunk.named)
        yield base_key(list_id, base, chunk.named.number), chunk.value
    if added or removed:
        put = [FaceLine(0, entry, "", "", own) for entry, own in (added or {}).items()]
        change = face_chunk_value(version, put, removed)
        changes.append(change.named)
        yield change_key(list_id, base, version), change.value
    record = ListRecord(
        list_id=list_id, op="put", version=version, name=list_id, base=base, date="2026-03-01",
        kind="face", model=model, chunks=tuple(chunks), changes=tuple(changes),
    )  # fmt: skip
    yield list_id, msgspec.json.encode(record)
