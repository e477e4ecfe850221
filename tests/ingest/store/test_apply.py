"""The write side of either store: identity, counts and positions."""

from __future__ import annotations

import random

import msgspec
import pytest

from bus.contracts.meters import MAX_NAME_CHARACTERS, MAX_SENT, MAX_WHOLE, LatencyCell, Sent
from ingest.store.open import open_store
from ingest.store.port import (
    PageRequest,
    Position,
    PositionsOverlap,
    Query,
    RecordStore,
    StoreBatch,
)
from ingest.store.totals import quality_summary
from tests.ingest.store.made import MINUTE, accepted, position, quality, rejected, row, sent


def test_rows_come_back_as_they_were_with_the_store_time(store: RecordStore):
    """What is applied is what is read, and only the store sets the store time."""
    given = row(1)
    applied = store.apply(StoreBatch(rows=[given]), [position(1)])
    rows, cursor = store.query(Query(), PageRequest())
    assert (applied.stored, applied.duplicates, cursor) == (1, 0, "")
    assert rows == [given]
    assert rows[0].stored_at_ms == applied.stored_at_ms > 0
    assert rows[0].partly_read is True


def test_a_replayed_batch_changes_nothing_and_counts_nothing(store: RecordStore):
    """The same positions again: rows, totals, quality and store time stay."""
    batch = StoreBatch(
        rows=[row(1), row(2)],
        rejected=[rejected(1)],
        quality=[quality(arrived=3)],
    )
    store.apply(batch, [position(3, 0)])
    before = (store.query(Query(), PageRequest()), store.counts(), store.quality(from_ms=0, until_ms=0))
    again = store.apply(batch, [position(3, 0)])
    assert again.already_applied
    assert (
        store.query(Query(), PageRequest()),
        store.counts(),
        store.quality(from_ms=0, until_ms=0),
    ) == before


def test_a_record_sent_twice_is_a_duplicate_once_per_arrival(store: RecordStore):
    """New offsets with known identities are counted as duplicates; the first store time stays."""
    store.apply(StoreBatch(rows=[row(1)]), [position(1, 0)])
    first = store.query(Query(), PageRequest())[0][0].stored_at_ms
    applied = store.apply(StoreBatch(rows=[row(1), row(2), row(2)]), [position(4, 1)])
    assert (applied.stored, applied.duplicates) == (1, 2)
    assert store.counts().duplicates == {"vehicle": 2}
    assert store.query(Query(record_id="id-1"), PageRequest())[0][0].stored_at_ms == first


def test_the_latency_callback_sees_exactly_the_new_rows(store: RecordStore):
    """A duplicate does not count twice in the latency statistic (I-4); cells add up."""
    seen: list[list[str]] = []

    def latency(rows):
        seen.append([r.record_id for r in rows])
        assert all(r.stored_at_ms > 0 for r in rows)
        return [
            LatencyCell(kind="vehicle", district_id="west", camera_ip="10.0.0.1", minute_ms=MINUTE,
                        buckets={7: len(rows)})
        ]  # fmt: skip

    store.apply(StoreBatch(rows=[row(1), row(2)], latency=latency), [position(2, 0)])
    applied = store.apply(
        StoreBatch(rows=[row(2), row(3), row(3), row(4)], latency=latency), [position(6, 2)]
    )
    assert seen == [["id-1", "id-2"], ["id-3", "id-4"]]
    assert [cell.buckets for cell in applied.latency] == [{7: 4}]
    (kept,) = store.latency_cells(from_ms=0, until_ms=0)
    assert applied.latency == [msgspec.structs.replace(kept, attempt=store.newest_attempt())]


def test_touched_quality_cells_come_back_whole_under_a_number_that_grows(store: RecordStore):
    """Increments of records, of the store's own count and of senders meet in one cell; untouched
    cells stay at home."""
    other = quality(arrived=1, valid=1, minute_ms=MINUTE + 60_000)
    first = store.apply(
        StoreBatch(rows=[row(1, recognizer_ip="")], quality=[quality(arrived=2, valid=1,
                   rejected={"not-json": 1}), other], counters=[sent(5)]),
        [position(2, 0)],
    )  # fmt: skip
    one = {cell.minute_ms: cell for cell in first.quality}[MINUTE]
    assert (one.sent, one.arrived, one.valid, one.stored, one.rejected) == (
        5, 2, 1, 1, {"not-json": 1},
    )  # fmt: skip
    assert {cell.attempt for cell in first.quality} == {store.newest_attempt()}
    again = store.apply(
        StoreBatch(rows=[row(1, recognizer_ip="")], quality=[quality(arrived=1, valid=1)]),
        [position(3, 2)],
    )
    (cell,) = again.quality
    assert (cell.arrived, cell.valid, cell.stored, cell.duplicates) == (3, 2, 1, 1)
    assert cell.attempt == store.newest_attempt() > one.attempt
    stored = {c.minute_ms: c for c in store.quality(from_ms=0, until_ms=0)}
    assert stored[MINUTE] == msgspec.structs.replace(cell, attempt=0)
    assert stored[MINUTE + 60_000].arrived == 1


def test_records_of_a_film_are_counted_where_their_sender_counted_them(store: RecordStore):
    """A person and a mover are stored under their own kind; the cell is that of the topic."""
    rows = [row(1, kind="person"), row(2, kind="mover")]
    store.apply(StoreBatch(rows=rows), [position(2, 0)])
    (cell,) = store.quality(from_ms=0, until_ms=0)
    assert (cell.kind, cell.stored) == ("video", 2)


def test_quality_increments_add_up_per_cell(store: RecordStore):
    """Counters and reasons of one cell grow; other cells stay apart."""
    store.apply(
        StoreBatch(quality=[quality(arrived=2, valid=1, rejected={"no-time": 1})]), [position(2)]
    )
    store.apply(
        StoreBatch(
            quality=[
                quality(arrived=1, rejected={"no-time": 1}),
                quality(minute_ms=MINUTE + 60_000),
            ]
        ),
        [position(3)],
    )
    cells = store.quality(from_ms=0, until_ms=0)
    assert cells == [
        quality(arrived=3, valid=1, rejected={"no-time": 2}),
        quality(minute_ms=MINUTE + 60_000),
    ]


def test_cumulative_sent_counters_heal_after_a_lost_or_repeated_message(store: RecordStore):
    """Only what exceeds the stored maximum of an epoch is added."""
    store.apply(StoreBatch(counters=[sent(3), sent(3), sent(9), sent(8)]), [position(4)])
    store.apply(StoreBatch(counters=[sent(2, epoch=2), sent(10)]), [position(6)])
    assert [cell.sent for cell in store.quality(from_ms=0, until_ms=0)] == [12]


def test_what_edges_took_is_counted_apart_from_what_senders_say(store: RecordStore) -> None:
    """By the largest number of each epoch too; what the bus has less is missing."""
    batch = StoreBatch(
        counters=[accepted(3), sent(9), accepted(2), accepted(4, epoch=2)],
        quality=[quality(arrived=5, valid=5)],
    )
    applied = store.apply(batch, [position(4)])
    assert applied.accepted == {"vehicle": 7}
    (told,) = applied.quality
    (cell,) = store.quality(from_ms=0, until_ms=0)
    assert (cell.sent, cell.accepted, cell.arrived, cell.missing) == (9, 7, 5, 2)
    assert (told.accepted, told.missing) == (7, 2)
    batch = StoreBatch(quality=[quality(arrived=3, valid=3)], counters=[accepted(3)])
    assert store.apply(batch, [position(5)]).accepted == {}
    (cell,) = store.quality(from_ms=0, until_ms=0)
    assert (cell.accepted, cell.arrived, cell.missing) == (7, 8, 0)


def test_every_counter_that_the_contract_lets_through_can_be_stored(store: RecordStore):
    """One that cannot would stop the counting application again after every start."""
    name = "镜" * MAX_NAME_CHARACTERS
    extremes = [
        Sent(
            producer=name, epoch=epoch, kind=name, camera_ip=name, recognizer_ip=name,
            checkpoint_id=name, minute_ms=minute_ms, sent=MAX_SENT,
        )
        for epoch in (-MAX_WHOLE, MAX_WHOLE)
        for minute_ms in (-MAX_WHOLE, MAX_WHOLE)
    ]  # fmt: skip
    decoder = msgspec.json.Decoder(Sent)
    counters = [decoder.decode(msgspec.json.encode(counter)) for counter in extremes]
    assert store.apply(StoreBatch(counters=counters), [position(4)])
    cells = store.quality(from_ms=MAX_WHOLE, until_ms=MAX_WHOLE + 1)
    assert [cell.sent for cell in cells] == [2 * MAX_SENT]


@pytest.mark.parametrize(
    "positions",
    [
        [position(6, 2)],
        [position(3, partition=0), position(9, partition=1)],
        [position(4, 2, partition=0), position(5, 1, partition=1)],
    ],
    ids=["starts below", "goes back", "known offsets beside new ones"],
)
def test_a_batch_that_overlaps_what_is_stored_is_refused(
    store: RecordStore, positions: list[Position]
):
    """Half-known offsets cannot be counted exactly; nothing is written, the caller reads again."""
    store.apply(StoreBatch(rows=[row(1)]), [position(4, 0), position(1, 0, partition=1)])
    with pytest.raises(PositionsOverlap):
        store.apply(StoreBatch(rows=[row(2)], rejected=[rejected(1)]), positions)
    assert store.counts().stored == {"vehicle": 1}
    assert [p.end_offset for p in store.positions("ingest")] == [4, 1]


def test_positions_that_are_set_stand_also_where_they_are_lower_and_rows_stay(store: RecordStore):
    """Their log was cut; what follows there is read again, and counted once."""
    store.apply(StoreBatch(rows=[row(1), row(2), row(3)]), [position(3, 0)])
    mark = position(7, application="site-epoch")
    store.set_positions([position(1), mark])
    assert [p.end_offset for p in store.positions("ingest")] == [1]
    assert [p.end_offset for p in store.positions("site-epoch")] == [7]
    applied = store.apply(StoreBatch(rows=[row(3), row(4)]), [position(3, 1)])
    assert (applied.already_applied, applied.stored, applied.duplicates) == (False, 1, 1)
    assert store.counts().stored == {"vehicle": 4}


def test_applications_and_clusters_have_their_own_positions(store: RecordStore):
    """The quality query does not move the ingest query's positions."""
    store.apply(StoreBatch(), [position(5)])
    store.apply(StoreBatch(), [position(2, application="quality")])
    assert [p.end_offset for p in store.positions("ingest")] == [5]
    assert [p.end_offset for p in store.positions("quality")] == [2]
    assert store.positions("unknown") == []


def test_a_rejected_record_counts_once_by_reason(store: RecordStore):
    """A second arrival of the same identity is a rejected duplicate."""
    store.apply(
        StoreBatch(rejected=[rejected(1), rejected(2, "no-time"), rejected(1)]), [position(3)]
    )
    counts = store.counts()
    assert counts.rejected == {"vehicle": {"not-json": 1, "no-time": 1}}
    assert counts.rejected_duplicates == {"vehicle": 1}
    found, _ = store.rejected(kind="vehicle", reason="no-time", page=PageRequest())
    assert [r.record_id for r in found] == ["bad-2"]
    assert found[0].stored_at_ms > 0


def test_a_failing_callback_leaves_nothing_behind(store: RecordStore):
    """The transaction is one: rows, totals and positions go together or not at all."""

    def latency(rows):
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        store.apply(StoreBatch(rows=[row(1)], latency=latency), [position(1)])
    assert store.count(Query()) == 0
    assert store.positions("ingest") == []
    assert store.apply(StoreBatch(rows=[row(1)]), [position(1)]).stored == 1


def test_the_store_goes_on_after_it_was_closed(url: str):
    """Rows, totals and positions are in the file."""
    with_rows = open_store(url, "write")
    with_rows.apply(StoreBatch(rows=[row(1)]), [position(1, 0)])
    with_rows.close()
    again = open_store(url, "write")
    assert again.apply(StoreBatch(rows=[row(1)]), [position(1, 0)]).already_applied
    assert again.counts().stored == {"vehicle": 1}
    again.close()


def test_minutes_are_summed_up_over_devices_and_missing_records_named_by_theirs(
    store: RecordStore,
) -> None:
    """Against the plain sum of the cells: the watch must not hold a hundred thousand of them."""
    dice = random.Random(7)
    cells = [
        quality(
            kind=kind, camera_ip=f"10.0.0.{device}", recognizer_ip=f"10.9.0.{device % 2}",
            minute_ms=MINUTE + 60_000 * minute, sent=dice.randrange(5), valid=dice.randrange(5),
            arrived=dice.randrange(5), accepted=dice.randrange(5),
        )
        for kind in ("vehicle", "face") for device in range(6) for minute in range(4)
    ]  # fmt: skip
    store.apply(StoreBatch(quality=cells), [])
    span = {"from_ms": MINUTE + 60_000, "until_ms": MINUTE + 180_000}
    found = store.quality_summary(**span)
    assert found == quality_summary(store.quality(**span))
    inside = [one for one in cells if span["from_ms"] <= one.minute_ms < span["until_ms"]]
    assert sum(one.sent for one in found.minutes) == sum(one.sent for one in inside)
    assert sum(one.records for one in found.missing) == sum(one.missing for one in inside) > 0
    assert len(found.minutes) == 4


def test_what_is_known_of_clocks_is_kept_with_the_batch_that_changed_it(
    store: RecordStore, url: str
):
    """Devices that are not named any more are forgotten; a batch that says nothing, is refused, or
    was stored before changes nothing."""
    assert store.clocks() == {}
    first = {"10.0.0.1": 3 * 3_600_000, "摄像机": -40_000}
    store.apply(StoreBatch(rows=[row(1)], clocks=first), [position(1, 0)])
    store.apply(StoreBatch(rows=[row(2)]), [position(2, 1)])
    with pytest.raises(PositionsOverlap):
        store.apply(StoreBatch(clocks={}), [position(3, 1)])
    store.apply(StoreBatch(clocks={}), [position(2, 1)])
    assert store.clocks() == first
    reader = open_store(url)
    assert reader.clocks() == first
    store.apply(StoreBatch(clocks={"10.0.0.1": -5}), [position(3, 2)])
    assert reader.clocks() == {"10.0.0.1": -5}
    store.apply(StoreBatch(clocks={}), [position(4, 3)])
    assert reader.clocks() == {}
    reader.close()
