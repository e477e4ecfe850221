"""Which segments go. Pure.

In: what is kept, how much room there is, how old it may become. Out: those to delete, the oldest
first, each with its reason. Never: more of them at once than `MAX_DELETED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bus.contracts.topics import DAY_MS
from bus.contracts.video_segments import DeletionReason

MAX_DELETED = 1_000


class KeptSegment(NamedTuple):
    """One that is in the store."""

    segment_id: str
    camera_ip: str
    end_ms: int
    size_bytes: int


class DiskSpace(NamedTuple):
    """What films take, and what is free where they lie; None where nobody can say."""

    used_bytes: int
    free_bytes: int | None


def bytes_to_free(space: DiskSpace, max_bytes: int, min_free_bytes: int) -> int:
    """How much has to go; 0 or less: nothing."""
    above = space.used_bytes - max_bytes if max_bytes else 0
    missing = 0 if space.free_bytes is None else min_free_bytes - space.free_bytes
    return max(above, missing)


def due_segments(
    oldest_first: Iterable[KeptSegment],
    days_of: Callable[[str], int],
    now_ms: int,
    free_bytes: int,
) -> list[tuple[KeptSegment, DeletionReason]]:
    """Those past their time, and the oldest of the others until `free_bytes` are free."""
    due: list[tuple[KeptSegment, DeletionReason]] = []
    for one in oldest_first:
        if len(due) >= MAX_DELETED:
            break
        days = days_of(one.camera_ip)
        if days and one.end_ms < now_ms - days * DAY_MS:
            due.append((one, "age"))
        elif free_bytes > 0:
            due.append((one, "space"))
        else:
            continue
        free_bytes -= one.size_bytes
    return due
