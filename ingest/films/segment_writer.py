"""Segments of one film onto the disk, into the catalogue, under their names.

In: what a `Segmenter` says. Out: durable before the catalogue says `stored`, which is what is
announced. Blocks: runs in a thread. Raises `DiskFailed`; the open segment is lost and no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from bus.contracts.video_segments import GapReason, TimeSource, VideoSegment
from bus.runtime import wall_clock
from ingest.films.catalogue import CLOSING, GAP, STORED, FilmCatalogue
from ingest.films.names import segment_name
from ingest.films.segmenter import SegmentBegun, SegmentData, SegmentEffect
from ingest.films.store import FilmStore, VideoSegmentFile

LEAST_GAP_MS = 1_000
"""What is missing between two segments of one film is no gap."""


class DiskFailed(Exception):
    """The disk, or the file system of the store, does not take a segment."""


class SegmentFiles:
    """The segments of one film, one after the other. `growing`: where each lies until it has ended.
    Of whose clock its times are, and by how much that is ahead, is told with each."""

    def __init__(
        self, store: FilmStore, catalogue: FilmCatalogue, growing: Path,
        timed_by: TimeSource = "recorder", clock_offset_ms: int = 0,
    ) -> None:  # fmt: skip
        self._store = store
        self._catalogue = catalogue
        self._growing = growing
        self._timed_by: TimeSource = timed_by
        self._clock_offset_ms = clock_offset_ms
        self._file: VideoSegmentFile | None = None

    def write(self, effects: Iterable[SegmentEffect]) -> list[VideoSegment]:
        """Carry them out; the segments that are stored now. What follows a failure is left out up
        to the next segment: a file with a piece missing is none. Raises `DiskFailed`."""
        stored: list[VideoSegment] = []
        try:
            for effect in effects:
                if isinstance(effect, SegmentBegun):
                    self._begin(effect)
                elif self._file is None:
                    continue
                elif isinstance(effect, SegmentData):
                    self._file.write(effect.data)
                else:
                    stored.append(self._keep(self._file, effect.segment))
        except Exception as error:  # every file system of fsspec has exceptions of its own
            self.drop()
            raise DiskFailed(str(error)) from error
        return stored

    def drop(self) -> None:
        """The open segment is lost."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def _begin(self, effect: SegmentBegun) -> None:
        self._file = VideoSegmentFile(self._growing)
        self._file.write(effect.data)

    def _keep(self, file: VideoSegmentFile, segment: VideoSegment) -> VideoSegment:
        known = self._catalogue.segment(segment.segment_id)
        if known is not None:  # of a film that was added before
            self.drop()
            return known
        closed = self._store.closed_path(segment.segment_id)
        file.close(closed)
        self._file = None
        named = replace(
            segment, name=segment_name(segment), timed_by=self._timed_by,
            clock_offset_ms=self._clock_offset_ms, changed_at_ms=wall_clock.now_ms(),
        )  # fmt: skip
        return keep_closed(self._store, self._catalogue, named, closed)


class SegmentWriter(SegmentFiles):
    """What a recorder keeps of one camera, connection after connection, with the gaps between."""

    def __init__(self, store: FilmStore, catalogue: FilmCatalogue, camera_ip: str) -> None:
        super().__init__(store, catalogue, store.open_path(camera_ip))
        self._camera_ip = camera_ip
        self.reason: GapReason = "recorder-ended"
        """Why there may be a gap before the next segment."""

    def write(self, effects: Iterable[SegmentEffect]) -> list[VideoSegment]:
        """See `SegmentFiles.write`."""
        try:
            return super().write(effects)
        except DiskFailed:
            self.reason = "disk-failed"
            raise

    def abandon(self, reason: GapReason) -> None:
        """The open segment is lost."""
        self.reason = reason
        self.drop()

    def _begin(self, effect: SegmentBegun) -> None:
        self._put_gap(effect.start_ms)
        super()._begin(effect)

    def _put_gap(self, start_ms: int) -> None:
        """What is missing before a segment that begins now."""
        end_ms = self._catalogue.last_end_ms(self._camera_ip)
        if end_ms is None or start_ms - end_ms < LEAST_GAP_MS:
            return
        gap = VideoSegment(
            segment_id=f"{self._camera_ip}-{end_ms}-gap",
            camera_ip=self._camera_ip,
            state="gap",
            start_ms=end_ms,
            end_ms=start_ms,
            reason=self.reason,
            changed_at_ms=wall_clock.now_ms(),
        )
        self._catalogue.put(gap, GAP)


def keep_closed(
    store: FilmStore, catalogue: FilmCatalogue, segment: VideoSegment, closed: Path
) -> VideoSegment:
    """A file that is synced, into the catalogue and then under its name."""
    catalogue.put(segment, CLOSING)
    store.publish(closed, segment.name)
    catalogue.advance(segment, STORED)
    return segment


def continue_after_kill(store: FilmStore, catalogue: FilmCatalogue) -> int:
    """What an earlier process left between two steps; how many open segments are lost."""
    closing = catalogue.at_step(CLOSING)
    waiting = {store.closed_path(one.segment_id) for one in closing}
    for segment in closing:
        closed = store.closed_path(segment.segment_id)
        if closed.exists():
            store.publish(closed, segment.name)
        if store.has(segment.name):
            catalogue.advance(segment, STORED)
        else:
            catalogue.drop(segment.segment_id)
    store.remove_unknown(waiting)
    return store.remove_open()
