"""A list as the site's decider puts it on `state.lists`: chunks first, then the record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from bus.contracts.plate_lists import ListLine, ListRecord, Tolerance, base_key, change_key
from bus.domain.list_chunks import base_chunks, chunk_value


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
