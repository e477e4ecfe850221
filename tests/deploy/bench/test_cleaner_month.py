"""The bench of a month: its time, its commits, and a month of an hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from broker.coordinator.group.records import OFFSETS_TOPIC, OffsetRecord, decode
from bus.contracts.topics import CONTROL_REGISTER, TOPICS
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.read import read_all, read_records
from deploy.bench.cleaner.month import (
    FIGURES_OF_A_MONTH,
    LIVE_TIMES,
    MonthRun,
    lines,
    log_bytes,
    month_figures,
    newest_records,
)
from deploy.bench.cleaner.month_traffic import POSITIONS, TABLES, CommitRows
from deploy.bench.cleaner.virtual_time import START_MS, BenchClock, BenchLoop

HOURS = 1
ROUNDS = 150
"""More than twice the commits, so that an hour sees some passes."""


def test_a_month_passes_while_nobody_waits_and_whoever_sleeps_wakes_at_the_end_of_a_step() -> None:
    loop = BenchLoop()
    clock = BenchClock(loop)
    called: list[float] = []

    async def sleep() -> None:
        clock.call_later(61, lambda: called.append(clock.monotonic()))
        await clock.sleep(0)
        assert clock.monotonic() == 0
        await clock.sleep(0.5)
        assert clock.monotonic() == 60
        await clock.sleep(30 * 86_400)
        assert clock.now_ms() == START_MS + 30 * 86_400_000 + 60_000

    loop.run_until_complete(sleep())
    loop.close()
    assert called == [120]


@pytest.mark.parametrize("position", POSITIONS)
def test_a_commit_made_with_many_others_is_the_batch_that_is_made_of_it_alone(
    position: tuple[str, str, int]
) -> None:
    rows = CommitRows(POSITIONS[POSITIONS.index(position)], 1)  # type: ignore[arg-type]
    numbers = np.arange(3, dtype=np.int64)
    made = rows.made(70_000 + numbers, START_MS + numbers, 1_000 + numbers * 7)
    data = made.tobytes()
    found = [(header, *read_records(data, at)) for at, header in iter_batches(data)]
    assert [header.base_offset for header, _ in found] == [1_000, 1_007, 1_014]
    for number, (header, record) in enumerate(found):
        begin = number * rows.size
        alone = build_batch([record], base_offset=header.base_offset, partition_leader_epoch=0)
        assert data[begin : begin + rows.size] == bytes(alone)
        kept = decode(record.key or b"", record.value)
        assert isinstance(kept, OffsetRecord)
        assert kept.value is not None
        assert (kept.group_id, kept.topic, kept.partition) == position
        assert kept.value.offset == 70_000 + number
        assert kept.value.commit_timestamp_ms == START_MS + number == record.timestamp_ms


def test_twenty_positions_are_committed_by_groups_of_the_product() -> None:
    assert len(set(POSITIONS)) == 20
    assert {one.topic for one in POSITIONS} <= set(TOPICS)
    assert all(TOPICS[one.topic].compacted for one in TABLES)


@pytest.mark.slow
def test_after_an_hour_a_topic_is_as_small_and_a_start_reads_as_little_as_its_live_keys_say(
    tmp_path: Path
) -> None:
    """Nothing of it is a measure of time."""
    run = MonthRun(tmp_path, ROUNDS, starts=2)
    month = run.run(HOURS / 24, lambda text: None)
    assert month.commits == len(POSITIONS) * ROUNDS * HOURS * 60
    assert month.written_bytes > 100 * month.commits
    assert month.offsets_bytes < month.written_bytes / 2
    # Each group's active segment holds 20,000 records before it is closed, and a minute's more.
    most = len(run.groups) * (20_000 + 2 * 11 * ROUNDS) + sum(one.keys for one in TABLES) * 2
    assert month.last_start_records < most
    assert month.cleaner_bytes > month.written_bytes
    for group in run.groups:
        newest, _ = newest_records(group.log)
        kept = [decode(key, value) for key, value in newest.items()]
        offsets = [one.value.offset for one in kept if isinstance(one, OffsetRecord) and one.value]
        assert offsets == [ROUNDS * HOURS * 60 - 1] * group.keys
    for one in month.tables:
        assert one.file_bytes <= LIVE_TIMES * one.live_bytes + (4 << 20)
    assert set(month_figures(month)) == set(FIGURES_OF_A_MONTH)
    assert any(OFFSETS_TOPIC in line for line in lines(month))


def test_the_keys_of_a_table_are_written_first_and_their_newest_values_stay(tmp_path: Path) -> None:
    run = MonthRun(tmp_path, rounds=1, starts=1)
    run.run(1 / 48, lambda text: None)
    [table] = [one for one in run.tables if one.traffic.topic == CONTROL_REGISTER]
    [*parts] = log_bytes(table.log)
    keys = {record.key for data in parts for _, record in read_all(data)}
    assert len(keys) == table.traffic.keys
