"""What is past its time leaves the file in slices; what is not stays and is found as before."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts.meters import LatencyCell
from bus.contracts.topics import DAY_MS
from bus.domain.retention import RetentionSettings
from ingest.store.open import open_store
from ingest.store.port import (
    PageRequest,
    Query,
    RecordRow,
    StoreBatch,
    StoreUnavailable,
)
from ingest.store.sqlite.retention import REST_MS, ROUND_MS
from ingest.store.sqlite.schema import VERSION
from ingest.store.sqlite.writer import MAX_SLICE_ROWS, MIN_SLICE_ROWS, SqliteStore
from tests.ingest.store.made import MINUTE, accepted, position, quality, rejected, row, sent

VERSION_2 = Path(__file__).with_name("records_version_2.zip")
KEEP = RetentionSettings(
    records_days=10, kinds_days={"face": 20, "mover": 0}, rejected_days=5, books_days=7
)
KINDS = ("vehicle", "face", "mover")


class MovedClock:
    def __init__(self) -> None:
        self.now_ms = MINUTE

    def __call__(self) -> int:
        return self.now_ms


class StoreWithRetention:
    """A store with a clock that tests move."""

    def __init__(self, folder: Path, keep: RetentionSettings = KEEP) -> None:
        self.clock, self.offset = MovedClock(), 0
        self.store = SqliteStore(folder / "records.db", self.clock, keep)

    def write(self, batch: StoreBatch) -> None:
        self.store.apply(batch, [position(self.offset + 1, self.offset)])
        self.offset += 1

    def slices_until_rest(self) -> None:
        """A round from the start, to its end."""
        self.clock.now_ms += ROUND_MS
        for _ in range(200):
            self.write(StoreBatch())
            if not self.store._retention.is_due(self.clock.now_ms):
                return
        raise AssertionError("the slices found no end")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[StoreWithRetention]:
    made = StoreWithRetention(tmp_path)
    yield made
    made.store.close()


def all_rows(store: SqliteStore, query: Query = Query()) -> list[RecordRow]:
    rows, cursor = store.query(query, PageRequest(limit=10_000))
    assert not cursor
    return rows


def assert_all_answers_agree(store: SqliteStore) -> None:
    """Every index and the table itself tell of the same records."""
    rows = all_rows(store)
    for name, field in (
        ("record_id", "record_id"),
        ("plate", "plate_key"),
        ("checkpoint_id", "checkpoint_id"),
        ("camera_ip", "camera_ip"),
        ("kind", "kind"),
    ):
        for value in {getattr(r, field) for r in rows}:
            query = Query(**{name: value})
            found = [r for r in rows if getattr(r, field) == value]
            assert all_rows(store, query) == found
            assert store.count(query) == len(found)
    db = store._db
    marks = sum(3 + (r.kind != "vehicle") for r in rows)
    assert db.execute("SELECT count(*) FROM facets").fetchone()[0] == marks
    hours = {hour for (hour,) in db.execute("SELECT hour FROM hours")}
    assert hours == {int(r.captured_at_ms / 3_600_000) for r in rows}
    pairs = set(db.execute("SELECT camera_ip, checkpoint_id FROM cameras"))
    assert pairs >= {(r.camera_ip, r.checkpoint_id) for r in rows}
    assert rows or not pairs


def is_past(r: RecordRow, now_ms: int) -> bool:
    days = KEEP.record_days(r.kind)
    return bool(days) and r.captured_at_ms < now_ms - days * DAY_MS


steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # days that pass before it
        st.lists(
            st.tuples(st.sampled_from(KINDS), st.integers(-3_000, 40_000), st.integers(0, 2)),
            max_size=8,
        ),
    ),
    max_size=8,
)


@settings(max_examples=20, deadline=None)
@given(steps)
def test_after_any_writes_and_slices_readers_find_what_is_not_past_its_time(
    written: list[tuple[int, list[tuple[str, int, int]]]],
):
    """In between nothing young is missing and all indexes agree; at the end nothing old is left,
    also of what came late. Totals count what was stored."""
    with TemporaryDirectory() as folder:
        kept, number = StoreWithRetention(Path(folder)), 0
        model: dict[str, RecordRow] = {}
        for days, records in written:
            kept.clock.now_ms += days * DAY_MS
            rows = []
            for kind, minutes_old, which in records:
                number += 1
                rows.append(row(
                    number, kind=kind, captured_at_ms=kept.clock.now_ms - minutes_old * 60_000,
                    camera_ip=f"10.0.0.{which}", checkpoint_id=f"cp-{which}",
                    plate_key=f"浙A{which}", plate_number=f"浙A{which}",
                ))  # fmt: skip
            kept.write(StoreBatch(rows=rows))
            model |= {r.record_id: r for r in rows}
            there = {r.record_id for r in all_rows(kept.store)}
            young = {i for i, r in model.items() if not is_past(r, kept.clock.now_ms)}
            assert young <= there <= set(model)
            assert_all_answers_agree(kept.store)
        kept.slices_until_rest()
        left = {i for i, r in model.items() if not is_past(r, kept.clock.now_ms)}
        assert {r.record_id for r in all_rows(kept.store)} == left
        assert_all_answers_agree(kept.store)
        assert sum(kept.store.counts().stored.values()) == number
        kept.store.close()


SUMS = ("quality_sums", "quality_sums_rejected", "latency_sums")


def test_books_and_rejections_leave_after_their_own_days(kept: StoreWithRetention):
    """Each by its own time; a quality cell takes its reasons along."""
    cell = LatencyCell(kind="vehicle", district_id="", camera_ip="c", minute_ms=MINUTE,
                       buckets={1: 1})  # fmt: skip
    kept.write(StoreBatch(
        rows=[row(1)], rejected=[rejected(1)], latency=lambda new: [cell],
        counters=[sent(3), accepted(2)],
        quality=[quality(arrived=2, valid=1, rejected={"not-json": 1})],
    ))  # fmt: skip
    store, everything = kept.store, PageRequest()
    kept.clock.now_ms += 6 * DAY_MS
    kept.write(StoreBatch())
    assert store.rejected(kind="", reason="", page=everything) == ([], "")
    assert store.quality(from_ms=0, until_ms=0)[0].rejected == {"not-json": 1}
    kept.clock.now_ms += 2 * DAY_MS
    kept.write(StoreBatch())
    assert store.quality(from_ms=0, until_ms=0) == []
    assert store.latency_cells(from_ms=0, until_ms=0) == []
    for table in ("quality_rejected", "sent", "accepted", *SUMS):
        assert store._db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert store.count(Query(kind="vehicle")) == 1
    assert store.counts().rejected == {"vehicle": {"not-json": 1}}


def test_a_slice_is_bounded_and_follows_what_the_batch_stored(kept: StoreWithRetention):
    """No batch waits for all that is old, and a file under load still shrinks."""
    kept.write(StoreBatch(rows=[row(i) for i in range(3 * MAX_SLICE_ROWS)]))
    kept.clock.now_ms += 11 * DAY_MS
    for young, gone in ((1, MIN_SLICE_ROWS), (100, 125), (2_000, MAX_SLICE_ROWS)):
        before = kept.store._db.execute("SELECT count(*) FROM records").fetchone()[0]
        rows = [row(10**6 * young + i, captured_at_ms=kept.clock.now_ms) for i in range(young)]
        kept.write(StoreBatch(rows=rows))
        after = kept.store._db.execute("SELECT count(*) FROM records").fetchone()[0]
        assert before + young - after == gone


def test_nothing_is_deleted_where_nobody_asked_for_it(tmp_path: Path):
    """The defaults keep for ever."""
    kept = StoreWithRetention(tmp_path, RetentionSettings())
    kept.write(StoreBatch(rows=[row(1)], rejected=[rejected(1)], quality=[quality(valid=1)]))
    kept.clock.now_ms += 20_000 * DAY_MS
    for _ in range(3):
        kept.write(StoreBatch())
        kept.clock.now_ms += REST_MS
    assert all_rows(kept.store)
    assert kept.store.quality(from_ms=0, until_ms=0)
    kept.store.close()


def test_a_full_disk_delays_deleting_and_takes_no_batch_back(
    kept: StoreWithRetention, monkeypatch: pytest.MonkeyPatch
):
    """The slice is a transaction of its own; the next batch tries again."""
    kept.write(StoreBatch(rows=[row(i) for i in range(20)]))
    kept.clock.now_ms += 11 * DAY_MS
    with monkeypatch.context() as full:
        full.setattr(kept.store._retention, "forget", _no_room)
        kept.write(StoreBatch(rows=[row(100, captured_at_ms=kept.clock.now_ms)]))
    assert len(all_rows(kept.store)) == 21
    kept.write(StoreBatch())
    assert [r.record_id for r in all_rows(kept.store)] == ["id-100"]


def _no_room(now_ms: int, limit: int) -> int:
    raise StoreUnavailable("records.db: the disk (or its quota) is full")


def test_a_file_of_version_2_is_brought_up_to_date_and_then_forgets(tmp_path: Path):
    """A data directory as the program before retention left it: all of it is found, and then what
    is past its time goes with its facets, hours and cameras."""
    with zipfile.ZipFile(VERSION_2) as archive:
        archive.extractall(tmp_path)
    with closing(open_store(f"sqlite://{tmp_path}/records.db")) as reader:
        assert reader.count(Query()) == 0, "a reader waits for the writer to bring it up to date"
    kept = StoreWithRetention(tmp_path)
    assert kept.store._db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert [p.end_offset for p in kept.store.positions("ingest")] == [21]
    assert kept.store.counts().stored == {"vehicle": 17, "face": 4}
    assert len(all_rows(kept.store)) == 21
    assert len(all_rows(kept.store, Query(camera_ip="10.0.0.1"))) == 7
    kept.offset, kept.clock.now_ms = 21, MINUTE + 10 * DAY_MS + 3_600_000
    kept.slices_until_rest()
    left = all_rows(kept.store)
    assert {r.kind for r in left} == {"face"}
    assert len(left) == 4
    kept.clock.now_ms += 11 * DAY_MS
    kept.slices_until_rest()
    assert all_rows(kept.store) == []
    for table in ("facets", "hours", "cameras"):
        assert kept.store._db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    kept.store.close()
