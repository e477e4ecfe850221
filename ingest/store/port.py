"""The store port: what every store (SQLite, HBase) offers, and the rows that cross it.

In: rows and positions. Out: counts and pages of rows. Never: SQL or an HBase type in a signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bus.contracts.headers import RecordKind
from bus.contracts.meters import CumulativeCount, LatencyCell, QualityCell
from bus.contracts.video_segments import VideoSegment
from bus.domain.confusion_table import PACKAGED, ConfusionTable, ReadConfusion
from bus.domain.fuzzy_plate import is_fuzzy
from bus.domain.kinds import KIND_AS_STORED
from bus.domain.searched_area import SearchedArea
from bus.domain.times import minute_of
from bus.domain.tolerant_search import SearchTolerance

COMMON_STORED = RecordKind.VEHICLE.value
"""The stored kind of most records, whose newest are found by time alone, without an index of the
kind. A part of both stores' formats on disk."""


CellKey = tuple[str, str, str, int]
"""Kind, camera, server and capture minute of a quality cell."""


class StoreError(Exception):
    """The store could not do what was asked; nothing of the batch counts.

    `retriable`: the same call may succeed later unchanged (disk full, file busy).
    """

    retriable = False


class StoreUnavailable(StoreError):
    """The disk is full, or the file cannot be written just now; try the same batch again."""

    retriable = True


class AttemptForgotten(StoreError):
    """The store does not know any more that the attempt had begun: begin it again, which keeps its
    number, and write all of it again."""


class PositionsOverlap(StoreError):
    """The batch begins before, and ends after, what is stored: read again from `positions()`."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far one application has read one partition; `end_offset` is exclusive.

    `start_offset` is where the batch began in this partition. It is not stored; when it is given
    (not -1)
    `apply` proves by it that no offset is counted twice.
    """

    application: str
    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    end_offset: int
    start_offset: int = -1


class MinuteQuality(NamedTuple):
    """What all devices of a kind have sent in a minute, and how much of it is valid; a device that
    has more valid records than it said it sent counts as complete."""

    kind: str
    minute_ms: int
    sent: int
    valid: int


class MissingCell(NamedTuple):
    """So many records an edge has handed to the bus, and nobody has found them there."""

    kind: str
    camera_ip: str
    minute_ms: int
    records: int


class QualitySummary(NamedTuple):
    """Minutes over all devices, and the cells in which records are missing, `MAX_MISSING` at most.
    Small, whatever the number of devices: the watch reads it every minute."""

    minutes: list[MinuteQuality]
    missing: list[MissingCell]


MAX_MISSING = 10_000


class RecordRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One valid record as it is stored. Times are epoch milliseconds UTC; `body` is the device's
    JSON.

    `stored_at_ms` of a row that `apply` found new is set in place, by the store alone.
    """

    record_id: str
    kind: str  # bus.contracts.headers.Kind value
    checkpoint_id: str
    district_id: str
    camera_ip: str
    recognizer_ip: str
    captured_at_ms: int
    received_at_ms: int
    plate_number: str = ""  # as the device wrote it
    plate_key: str = ""  # normalised for matching; empty when unread or none
    plate_color: str = ""
    vehicle_color: str = ""
    vehicle_type: str = ""
    vehicle_brand: str = ""
    vehicle_series: str = ""
    picture_url: str = ""
    partly_read: bool = False
    replayed: bool = False
    body: bytes = b""
    # Not 0 where the device's clock is off: what it wrote minus `captured_at_ms`, by which the
    # record is ordered. Where its offset was not known, that is the arrival.
    clock_off_ms: int = 0
    # Set by the store at the first successful write; a replay never changes it
    stored_at_ms: int = 0

    @property
    def claimed_at_ms(self) -> int:
        """The capture time as the device wrote it."""
        return self.captured_at_ms + self.clock_off_ms

    @property
    def is_ordered_by_arrival(self) -> bool:
        """Whether nothing better was known than when it arrived."""
        return self.clock_off_ms != 0 and self.captured_at_ms == self.received_at_ms

    @property
    def has_untrue_arrival(self) -> bool:
        """Whether its producer gave it a time that is none of an arrival."""
        return self.received_at_ms == 0

    @property
    def times_ms(self) -> tuple[int, ...]:
        """When it was captured and when it arrived, as far as that is known."""
        arrived = (self.received_at_ms,) if self.received_at_ms > 0 else ()
        return self.captured_at_ms, *arrived

    @property
    def quality_key(self) -> CellKey:
        """The cell in which its sender has counted it, even if its clock was wrong."""
        return _cell_key(self, self.claimed_at_ms)


class RejectedRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record that is not valid, kept with its reason (Q-4)."""

    record_id: str
    kind: str
    reason: str  # bus.contracts.headers.Reason value
    field: str
    camera_ip: str
    recognizer_ip: str
    checkpoint_id: str
    source: str
    received_at_ms: int
    body: bytes
    stored_at_ms: int = 0
    captured_at_ms: int = 0  # 0 where the record does not tell it

    @property
    def quality_key(self) -> CellKey:
        """The cell in which its sender has counted it."""
        return _cell_key(self, self.captured_at_ms)


def _cell_key(row: RecordRow | RejectedRow, captured_at_ms: int) -> CellKey:
    minute_ms = minute_of(captured_at_ms or row.received_at_ms)
    kind = KIND_AS_STORED.get(row.kind, row.kind)
    return kind, row.camera_ip, row.recognizer_ip, minute_ms


class QualitySum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Quality cells added up, from `start_ms` on for the step that was asked for: of all devices
    (`camera_ip` is empty) or of one device and server."""

    start_ms: int
    kind: str
    camera_ip: str = ""
    recognizer_ip: str = ""
    sent: int = 0
    accepted: int = 0
    arrived: int = 0
    valid: int = 0
    partly_read: int = 0
    stored: int = 0
    duplicates: int = 0
    missing: int = 0  # of each cell what it has: one device's surplus hides no other's loss
    rejected: dict[str, int] = {}


class QualityDevices(msgspec.Struct, frozen=True, kw_only=True):
    """The devices with the widest gaps, one sum each over the whole span, and how many there are in
    all."""

    widest: Sequence[QualitySum]
    total: int


class StoreBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one micro-batch changes. `latency` turns the rows that were really new into
    latency cells; the store itself counts them in the quality cells (`quality_key`). `clocks`: by
    how much (ms) the captures of devices are corrected from the next batch on; None: as before."""

    rows: Sequence[RecordRow] = ()
    rejected: Sequence[RejectedRow] = ()
    quality: Sequence[QualityCell] = ()  # increments, added to what is there
    # What exceeds the stored maximum is added to the cell's number that it `adds_to`
    counters: Sequence[CumulativeCount] = ()
    latency: Callable[[Sequence[RecordRow]], Sequence[LatencyCell]] | None = None
    clocks: Mapping[str, int] | None = None
    # What is said of pieces of film. Of one that is deleted nothing later says that it is there
    segments: Sequence[VideoSegment] = ()


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch really changed. `latency` and `quality` hold the touched cells after the change
    (cumulative), under the number of this batch, which only grows."""

    stored: int
    duplicates: int
    rejected: int
    rejected_duplicates: int
    latency: Sequence[LatencyCell] = ()
    quality: Sequence[QualityCell] = ()
    stored_at_ms: int = 0
    # By kind: what edges have told more of than before
    accepted: Mapping[str, int] = {}
    # Every position was reached before: a replay, nothing was written
    already_applied: bool = False


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question for records; empty fields do not restrict. Newest capture first."""

    kind: str = ""
    plate: str = ""  # `*`: any run of characters, `?`: one; see `bus.domain.plate_search`
    # Of a whole plate; `~` in front of it asks for misreadings, too: `bus.domain.tolerant_search`
    tolerance: SearchTolerance = ""
    confusion: ConfusionTable = PACKAGED  # by which misreadings are priced: see `priced`
    checkpoint_id: str = ""
    district_id: str = ""
    camera_ip: str = ""
    captured_from_ms: int = 0
    captured_until_ms: int = 0
    record_id: str = ""
    text: str = ""  # substring of the body
    area: SearchedArea | None = None  # what stands there, by the register when it was asked


def priced(query: Query, read_confusion: ReadConfusion) -> Query:
    """With the site's table, where it asks for readings that may be misread."""
    if not query.plate or not (query.tolerance or is_fuzzy(query.plate)):
        return query
    return msgspec.structs.replace(query, confusion=read_confusion())


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`limit` rows after `cursor` (opaque; empty = first page)."""

    limit: int = 100
    cursor: str = ""


class InvalidCursor(ValueError):
    """None of this store's: nothing was read, and the store is well."""


def cursor_numbers(cursor: str, count: int) -> tuple[int, ...]:
    """The whole numbers of a cursor that is made of so many. Raises `InvalidCursor`."""
    parts = cursor.split(".")
    if len(parts) != count or not all(_CURSOR_NUMBER.fullmatch(part) for part in parts):
        raise InvalidCursor("cursor: none of this list")
    return tuple(int(part) for part in parts)


_CURSOR_NUMBER = re.compile(r"-?[0-9]{1,18}")


class PlatesFound(msgspec.Struct, frozen=True, kw_only=True):
    """Plates that contain a part, the latest seen first. Only the newest of the store were looked
    at: all records captured since `since_ms`; None: all of the store."""

    plates: Sequence[str]
    since_ms: int | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Totals for the account, per kind."""

    stored: dict[str, int]
    rejected: dict[str, dict[str, int]]  # kind -> reason -> count
    duplicates: dict[str, int]  # kind -> records that arrived again and changed nothing
    rejected_duplicates: dict[str, int] = {}  # the same for rejected records


class RecordReader(Protocol):
    """The read side, which monitor, alarm and dr_mirror may import."""

    def query(self, query: Query, page: PageRequest) -> tuple[list[RecordRow], str]:
        """Rows and the cursor of the next page (empty at the end)."""

    def count(self, query: Query) -> int:
        """How many rows match, bounded by nothing."""

    def plates_containing(self, part: str, *, limit: int = 20) -> PlatesFound:
        """At most `limit` plates that contain `part` (compared normalised; empty finds none). Looks
        at a bounded number of the newest records, independent of the store's size."""

    def rejected(
        self, *, kind: str, reason: str, page: PageRequest
    ) -> tuple[list[RejectedRow], str]:
        """Rejected records, newest first."""

    def rejected_record(self, record_id: str) -> RejectedRow | None:
        """One rejected record; None if there is none with this id."""

    def counts(self) -> Counts:
        """Totals over the whole store."""

    def quality(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[QualityCell]:
        """Quality cells by capture minute."""

    def quality_summary(self, *, from_ms: int, until_ms: int) -> QualitySummary:
        """The same, summed up over devices."""

    def latency_cells(self, *, from_ms: int, until_ms: int, kind: str = "") -> list[LatencyCell]:
        """The exact histograms (all devices), for percentiles over any range."""

    def quality_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = ""
    ) -> list[QualitySum]:
        """Per kind and step (`ingest.store.rollups.STEPS`) that begins in the span, ascending: the
        sum over all devices, or one of each server of a camera."""

    def quality_devices(
        self, *, step_ms: int, from_ms: int, until_ms: int, kind: str = "", camera_ip: str = "",
        limit: int,
    ) -> QualityDevices:  # fmt: skip
        """The same over the whole span, per kind, camera and server: at most `limit`, those first
        that have the most records sent and not valid."""

    def missing_records(self, *, from_ms: int, until_ms: int) -> list[QualityCell]:
        """The quality cells of which edges have taken more than was found on the bus."""

    def latency_sums(
        self, *, step_ms: int, from_ms: int, until_ms: int, scope: str, district_id: str = ""
    ) -> list[LatencyCell]:
        """Histograms per kind and step that begins in the span, ascending. `scope`: `ALL`,
        `DISTRICT` (one, or each) or `ODD` (per device) of `ingest.store.rollups`."""

    def device_latency(
        self, *, from_ms: int, until_ms: int, camera_ip: str, districts: Sequence[str]
    ) -> list[LatencyCell]:
        """As `latency_cells`, of one camera that was in one of the districts, at the cost of that
        one camera."""

    def segments(
        self, camera_ip: str, *, from_ms: int, until_ms: int, limit: int
    ) -> list[VideoSegment]:
        """The pieces of a camera's film that reach into a span, and its gaps, by their start; those
        that are deleted say so. At most `limit`, the latest."""

    def positions(self, application: str) -> list[Position]:
        """How far an application has come."""

    def newest_attempt(self) -> int:
        """The number of the newest batch that counts; 0 before the first."""

    def clocks(self) -> dict[str, int]:
        """By how much (ms) the captures of devices are corrected, as the newest batch that counts
        left it."""

    def close(self) -> None:
        """Release the store."""


class RecordStore(RecordReader, Protocol):
    """The write side; exactly one process holds it."""

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """Write everything with the positions: all of it counts, or none of it.

        Idempotent: a batch whose positions were all reached before changes nothing and says so.
        Raises `StoreUnavailable`, `PositionsOverlap`, `StoreError`; then nothing counts.
        """

    def set_positions(self, positions: Sequence[Position]) -> None:
        """These stand from now on, all or none, also where they are lower than before: their logs
        were cut, and what follows there is read again. Rows stay. Raises `StoreError`."""
