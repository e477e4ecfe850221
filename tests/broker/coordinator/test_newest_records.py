"""What a coordinator loads is what a replay of every record in order would give."""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator import newest_records, partition_reader
from broker.coordinator.group.offsets import OffsetTable
from broker.coordinator.group.records import (
    OFFSETS,
    CommittedOffset,
    CoordinatorRecord,
    OffsetRecord,
)
from broker.coordinator.open_transactions import OpenTransactions
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.coordinator.drawn_offsets import NOW_MS, DrawnOffsets, Offsets
from tests.broker.coordinator.offsets_broker import OffsetsBroker
from tests.broker.log.cleaned_log import clean_in_loop


def loaded(broker: OffsetsBroker) -> Offsets:
    table = OffsetTable()
    replay(table, broker.newest())
    return held(table)


def replay(table: OffsetTable, records: Iterable[CoordinatorRecord]) -> None:
    for record in records:
        assert isinstance(record, OffsetRecord)
        table.replay(record)


def held(table: OffsetTable) -> Offsets:
    return {
        (group_id, *place): value
        for group_id in table.group_ids()
        for place, value in table.of(group_id).items()
    }


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_loaded_state_is_that_of_a_plain_replay(seed: int) -> None:
    """Whatever transactions became, whatever tombstones and holes there are, in pieces of any
    size; and no hole is called damage."""
    dice = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="databus-newest-") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(partition_reader, "PIECE_BYTES", dice.choice((1, 300, 65_536)))
        patch.setattr(newest_records, "RECORDS_PER_PIECE", dice.choice((1, 3, 500)))
        broker = OffsetsBroker(directory)
        drawn = DrawnOffsets(broker.partition.log, dice)
        for _ in range(dice.randrange(60)):
            drawn.append()
        broker.partition.log.advance_high_watermark(broker.partition.log.end_offset)
        logger = logging.getLogger("broker.coordinator")
        patch.setattr(logger, "error", pytest.fail)
        assert loaded(broker) == drawn.plain_replay()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_what_is_committed_after_a_load_counts_as_if_it_had_been_loaded_then(seed: int) -> None:
    """Transactions that were open go on, end, and others begin, among commits that the coordinator
    replays itself; the log is cleaned before, and what has come into force is taken in pieces of
    any size."""
    dice = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="databus-open-") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(partition_reader, "PIECE_BYTES", dice.choice((1, 300, 65_536)))
        broker = OffsetsBroker(directory)
        log = broker.partition.log
        drawn, table, transactions = DrawnOffsets(log, dice), OffsetTable(), OpenTransactions()
        for _ in range(dice.randrange(40)):
            drawn.append()
        log.advance_high_watermark(log.end_offset)
        if dice.random() < 0.5:
            broker.clean(NOW_MS)
        replay(table, broker.newest(transactions))
        for _ in range(dice.randrange(40)):
            known = len(drawn.changes)
            if dice.random() < 0.1:
                drawn.end_all()
            drawn.append()
            log.advance_high_watermark(log.end_offset)
            alone = [one.record for one in drawn.changes[known:] if one.transaction is None]
            if dice.random() < 0.5:  # between the high watermark's rise and the replay of its writer
                settle(broker, transactions, table, most=dice.choice((0, 1, 2)))
            replay(table, alone)
            if dice.random() < 0.3:
                settle(broker, transactions, table, most=dice.choice((1, 200)))
        settle(broker, transactions, table, most=1000)
        assert held(table) == drawn.plain_replay()
        assert sorted(transactions.first_offsets) == sorted(log.producers.open_transactions())


def settle(
    broker: OffsetsBroker, transactions: OpenTransactions, table: OffsetTable, most: int
) -> None:
    asyncio.run(broker.appender.read_on(0, transactions))
    replay(table, broker.appender.decoded(transactions.take_due(most)))


def test_each_key_is_decoded_once_however_often_it_was_written(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last record only, and a tombstone where that is one."""
    broker = OffsetsBroker(str(tmp_path))
    for number in range(300):
        broker.appender.write(
            0,
            [OffsetRecord("g", "t", number % 3, CommittedOffset(number, -1, "", NOW_MS))],
            lambda: None, lambda error: None,
        )  # fmt: skip
    broker.appender.write(0, [OffsetRecord("g", "t", 0, None)], lambda: None, lambda error: None)
    found = broker.newest()
    values = [(one.partition, one.value and one.value.offset) for one in found
              if isinstance(one, OffsetRecord)]  # fmt: skip
    assert sorted(values) == [(0, None), (1, 298), (2, 299)]


def test_a_key_of_the_first_format_is_removed_by_a_tombstone_of_the_second(
    tmp_path: object,
) -> None:
    """The two are different keys and mean the same: the newer one counts, so their order stays."""
    broker = OffsetsBroker(str(tmp_path))
    key, value = OFFSETS.encode(OffsetRecord("g", "t", 0, CommittedOffset(7, -1, "", NOW_MS)))
    log = broker.partition.log
    log.append_as_follower(build_batch([Record(b"\0\0" + key[2:], value)]), NOW_MS)
    log.advance_high_watermark(log.end_offset)
    assert loaded(broker) == {("g", "t", 0): CommittedOffset(7, -1, "", NOW_MS)}
    broker.appender.write(0, [OffsetRecord("g", "t", 0, None)], lambda: None, lambda error: None)
    assert loaded(broker) == {}


@pytest.mark.parametrize("moment", range(0, 36, 3))
def test_segments_that_are_replaced_or_rolled_while_they_are_loaded_change_nothing(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The cleaner goes on beside it: one segment stands for all of them, from one moment on."""
    monkeypatch.setattr(partition_reader, "PIECE_BYTES", 1)
    broker = OffsetsBroker(str(tmp_path))
    log = broker.partition.log
    for number in range(36):
        record = OffsetRecord(f"g-{number % 5}", "t", 0, CommittedOffset(number, -1, "", NOW_MS))
        broker.appender.write(0, [record], lambda: None, lambda error: None)
        if number % 6 == 5:
            log.roll(NOW_MS)
    log.flush()
    before, sleeps = loaded(broker), 0
    sleep = broker.clock.sleep

    async def sleep_and_clean(seconds: float) -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == moment + 1:
            await clean_in_loop(log, broker.disk)
            log.roll(NOW_MS)
        await sleep(seconds)

    monkeypatch.setattr(broker.clock, "sleep", sleep_and_clean)
    assert loaded(broker) == before
    assert sleeps > moment
    assert len(log.segments) < 6, "it was cleaned"


def test_a_base_offset_that_points_too_far_is_damage_and_hides_nothing_behind_it(
    tmp_path: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies outside the checksum. Read by offset, all up to where it points to would be taken for
    a hole."""
    monkeypatch.setattr(partition_reader, "PIECE_BYTES", 1)  # every batch is a piece of its own
    caplog.set_level(logging.ERROR)
    broker = OffsetsBroker(str(tmp_path))
    for group in range(8):
        broker.commit(group)
    data = bytearray(broker.path.read_bytes())
    at = len(data) // 8 * 3
    data[at : at + 8] = (6).to_bytes(8, "big")  # the batch at offset 3
    broker.path.write_bytes(data)
    assert set(broker.read()) >= {f"group-{n}" for n in range(8) if n != 3}
    assert "is damaged" in caplog.text
