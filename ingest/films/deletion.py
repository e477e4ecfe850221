"""Deletes the films that are past their time or for which there is no room.

In: catalogue, store, settings. Out: files gone, rows that say so. A kill in between is continued by
the next call.
"""

from __future__ import annotations

from msgspec.structs import replace

from bus.contracts.video_segments import VideoSegment
from bus.runtime import wall_clock
from ingest.films.catalogue import DELETED, DELETING, KEEP_TOLD_MS, FilmCatalogue
from ingest.films.retention import DiskSpace, bytes_to_free, due_segments
from ingest.films.settings import FilmSettings
from ingest.films.store import FilmStore


def delete_due(store: FilmStore, catalogue: FilmCatalogue, settings: FilmSettings) -> int:
    """One slice; how many segments went. Raises OSError, or what the store raises."""
    for segment in catalogue.at_step(DELETING):
        _delete(store, catalogue, segment)
    now_ms = wall_clock.now_ms()
    space = DiskSpace(catalogue.used_bytes(), store.free_bytes())
    missing = bytes_to_free(space, settings.max_bytes, settings.min_free_bytes)
    due = due_segments(catalogue.oldest(), settings.days_of, now_ms, missing)
    for kept, reason in due:
        found = catalogue.segment(kept.segment_id)
        if found is None:
            continue
        gone = replace(found, state="deleted", reason=reason, changed_at_ms=now_ms)
        catalogue.advance(gone, DELETING)
        _delete(store, catalogue, gone)
    catalogue.forget(now_ms - KEEP_TOLD_MS)
    return len(due)


def _delete(store: FilmStore, catalogue: FilmCatalogue, segment: VideoSegment) -> None:
    store.remove(segment.name)
    catalogue.advance(segment, DELETED)
