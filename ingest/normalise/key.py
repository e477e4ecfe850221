"""The partition key of a data record (row I-2 of docs/from_the_seeds.md).

In: kind, plate, device. Out: key bytes or None, which every client spreads. Never: hashing (clients
do, murmur2).
"""

from __future__ import annotations

from bus.contracts.plates import plate_key
from ingest.store.port import RecordRow


def key_of(kind: str, *, plate_number: str = "", camera_ip: str = "") -> bytes | None:
    """For producers that have fields: vehicles by plate, everything else by device."""
    if kind == "vehicle":
        return plate_key(plate_number).encode() or None
    return camera_ip.encode("utf-8", "replace") or None


def partition_key(row: RecordRow) -> bytes | None:
    """For a normalised record; None where the plate is unread, missing or masked."""
    if row.kind == "vehicle":
        return row.plate_key.encode("utf-8", "replace") or None
    return row.camera_ip.encode("utf-8", "replace") or None
