"""What a spool keeps of what the bus has, until the second site has it too.

In: deliveries (the forwarder's thread), confirmed offsets (any thread). Out: up to where segments
may be deleted; the kept messages with their places. Core: `ingest.spool.retained_records`.
Never: a message called released that the second site may lack.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from bus.contracts.sent_again import SentAgainPartition
from bus.files.durable_file import replace_durably
from ingest.spool.frame import SpoolEntry
from ingest.spool.places import SUFFIX as PLACES_SUFFIX
from ingest.spool.places import append_places, load_places, places_path
from ingest.spool.queued import Queued
from ingest.spool.reader import SpoolReader
from ingest.spool.retained_records import Delivered, Place, RetainedRecords, is_beyond
from ingest.spool.segment import SpoolSegment
from ingest.spool.sent_again import SentAgainPlaces

_STATE = "kept.json"
_BATCHES_AT_ONCE = 20
"""A read ends after so many batches of messages that the other site holds, so that a stop is
noticed."""


class RetainedState(msgspec.Struct, kw_only=True):
    """`kept.json`. `floor`: nothing before it is kept; `dropped` and its ends as in
    `RetainedRecords`."""

    floor: int
    dropped: int = 0
    dropped_ends: list[tuple[str, int, int]] = []


class RetainedSegments:
    """Invariant: `drained` at the start is not beyond the first message without a place."""

    def __init__(self, folder: Path, segments: Sequence[SpoolSegment], drained: int) -> None:
        """`drained`: what the bus has, by the position file."""
        self._folder = folder
        self._lock = threading.Lock()  # guards `_records`
        state = _read_state(folder)
        if state is None:
            state = RetainedState(floor=drained)
            _write_state(folder, state)
        self.drained = drained
        ends = {(topic, partition): end for topic, partition, end in state.dropped_ends}
        first = segments[0].first_sequence
        floor = state.floor if state.dropped > state.floor else max(state.floor, first)
        self._records = RetainedRecords(floor, state.dropped, ends)
        _delete_orphans(folder, segments)
        self._load(segments)

    @property
    def released(self) -> int:
        """Every message before it may be deleted."""
        return self._records.released

    @property
    def uncovered(self) -> int:
        """Messages that were given up before the second site was known to have them."""
        with self._lock:
            return self._records.uncovered

    def on_delivered(
        self, end_sequence: int, rows: Sequence[Delivered], segments: Sequence[SpoolSegment]
    ) -> None:
        """The bus has every message before `end_sequence`. Raises OSError."""
        append_places(segments, rows)
        with self._lock:
            self._records.on_delivered(end_sequence, rows)

    def on_confirmed(self, confirmed: Mapping[Place, int]) -> None:
        """How far the second site has these partitions. Any thread."""
        with self._lock:
            self._records.on_confirmed(confirmed)

    def is_confirmed(self, ends: Mapping[Place, int]) -> bool:
        """Whether the second site has all of it."""
        with self._lock:
            return self._records.is_confirmed(ends)

    def on_dropped(self, end_sequence: int) -> None:
        """Messages before this are about to be deleted, released or not."""
        with self._lock:
            self._records.on_dropped(end_sequence)
            ends = [(*place, end) for place, end in self._records.dropped_ends.items()]
            state = RetainedState(
                floor=self._records.released, dropped=self._records.dropped, dropped_ends=ends
            )
        _write_state(self._folder, state)

    def reset(self, floor: int) -> None:
        """The second site has everything before `floor`, and gets what comes."""
        _write_state(self._folder, RetainedState(floor=floor))
        with self._lock:
            self._records.reset(floor)

    def _load(self, segments: Sequence[SpoolSegment]) -> None:
        floor = max(self._records.released, segments[0].first_sequence)
        for segment in segments:
            rows = [row for _, row in sorted(load_places(segment).items())]
            rows = [row for row in rows if floor <= row.sequence < self.drained]
            placed = max(rows[-1].sequence + 1 if rows else segment.first_sequence, floor)
            if placed < min(segment.end_sequence, self.drained):
                self.drained = placed  # a power cut took the rest: those are sent again
            self._records.on_delivered(min(max(placed, floor), self.drained), rows)
            if placed >= self.drained:
                return


class RetainedReader:
    """The kept messages that another site does not hold, in sequence; as a source of a
    `ProducerSession`. For the forwarder's thread, but for `wake`."""

    def __init__(
        self, reader: SpoolReader[SpoolEntry], end_sequence: int, held: Mapping[Place, int]
    ) -> None:
        """`held`: up to which offset of each partition that site has the records."""
        self._reader = reader
        self._end = end_sequence
        self._held = held
        self._rows: dict[int, Delivered] = {}
        self._rows_of: SpoolSegment | None = None
        self._woken = threading.Event()
        self._has_more = False
        self._places = SentAgainPlaces()
        self.drained_sequence = reader.sequence
        self.resent = 0

    @property
    def sent_again(self) -> tuple[SentAgainPartition, ...]:
        """Where the messages that were read had been delivered; one without a place has none."""
        return self._places.partitions()

    @property
    def exhausted(self) -> bool:
        """Whether all were read."""
        return self._reader.sequence >= self._end

    def read(self, max_messages: int) -> list[Queued]:
        """The next ones; also none before the end, where many are held there."""
        found: list[Queued] = []
        for _ in range(_BATCHES_AT_ONCE):
            if found or self.exhausted:
                break
            wanted = min(max_messages, self._end - self._reader.sequence)
            batch = self._reader.read(wanted, within_segment=True)
            if not batch and not self._reader.enter_next():
                break
            found += self._beyond(batch)
        self.resent += len(found)
        self._has_more = not found and not self.exhausted
        return found

    def wait(self, timeout_s: float) -> None:
        """Return at once unless only deliveries are waited for."""
        if not self._has_more:
            self._woken.wait(timeout_s)
            self._woken.clear()
        self._has_more = False

    def wake(self) -> None:
        """End a `wait` from another thread."""
        self._woken.set()

    def acknowledge(self, end_sequence: int, rows: Sequence[Delivered]) -> None:
        """Nothing is marked before all are there."""

    def close(self) -> None:
        """Release the file."""
        self._reader.close()

    def _beyond(self, batch: Sequence[tuple[int, SpoolEntry]]) -> list[Queued]:
        if batch and self._rows_of is not self._reader.segment:
            self._rows_of = self._reader.segment
            self._rows = load_places(self._rows_of)
        found = [
            (Queued(sequence, entry), self._rows.get(sequence))
            for sequence, entry in batch
            if is_beyond(self._rows.get(sequence), self._held)
        ]
        self._places.add(row for _, row in found if row is not None)
        return [queued for queued, _ in found]


def forget_retained(folder: Path) -> None:
    """Nothing is kept from now on, and nothing that was kept counts later."""
    (folder / _STATE).unlink(missing_ok=True)
    _delete_orphans(folder, ())


def delete_places(segment: SpoolSegment) -> None:
    """With the segment."""
    places_path(segment).unlink(missing_ok=True)


def _delete_orphans(folder: Path, segments: Iterable[SpoolSegment]) -> None:
    """Places are of no use without their segment, which went first."""
    wanted = {places_path(segment) for segment in segments}
    for path in folder.glob(f"*{PLACES_SUFFIX}"):
        if path not in wanted:
            path.unlink()


def _read_state(folder: Path) -> RetainedState | None:
    """None: nothing was kept so far. A damaged file: everything that is there is kept."""
    try:
        return msgspec.json.decode((folder / _STATE).read_bytes(), type=RetainedState)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, ValueError):
        return RetainedState(floor=0)


def _write_state(folder: Path, state: RetainedState) -> None:
    replace_durably(folder / _STATE, msgspec.json.encode(state))
