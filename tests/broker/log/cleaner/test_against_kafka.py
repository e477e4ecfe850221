"""Drawn logs, cleaned by us and by Apache Kafka's own cleaner, batch by batch.

What differs, and nothing else does: the last batch of each of our groups stays, without records if
need be, and where offsets are missing at a group's end a batch without records stands for them
(ADR 0082); Kafka keeps the last batch of a whole pass only.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.log.cleaner.model import CleanedGroup, CleaningPass
from bus.records.batch import iter_batches
from tests.broker.log.cleaner.conftest import KafkaCleaner
from tests.broker.log.cleaner.table_log import DIRECTORY, TableBatch, TableLog, records_of
from tests.broker.log.cleaner.test_cleaning import DrawnTable

pytestmark = pytest.mark.java

LOGS = 12
PASSES = 4


class ComparedPass(NamedTuple):
    """One pass: the files as they were before it, and what we made of them."""

    directory: Path
    cleaning: CleaningPass
    groups: list[CleanedGroup]
    next_dirty_offset: int
    ours: list[TableBatch]
    segment_bytes: int

    def line(self) -> str:
        """What Apache Kafka's cleaner is asked."""
        cleaning = self.cleaning
        words = (
            self.directory, cleaning.first_dirty_offset, cleaning.end_offset, cleaning.now_ms,
            cleaning.delete_retention_ms, self.segment_bytes, cleaning.index_interval_bytes,
        )  # fmt: skip
        return " ".join(map(str, words)) + "\n"


def test_kafka_leaves_the_same_batches_of_drawn_logs(
    kafka_cleaner: KafkaCleaner, tmp_path: Path, dice: random.Random
) -> None:
    passes = [one for number in range(LOGS) for one in drawn_passes(dice, tmp_path / str(number))]
    lines = kafka_cleaner("".join(one.line() for one in passes))
    assert len(lines) == len(passes) > LOGS
    for one, line in zip(passes, lines, strict=True):
        assert int(line.split()[0]) == one.next_dirty_offset, one.directory
        compare(one, stored_in(one.directory))


def drawn_passes(dice: random.Random, folder: Path) -> list[ComparedPass]:
    drawn = DrawnTable(dice)
    table = drawn.table
    passes = []
    for number in range(PASSES):
        drawn.write(dice.randint(1, 60))
        if dice.random() < 0.7:
            drawn.end_transactions()
        table.settle()
        cleaning = table.plan()
        if cleaning.end_offset > cleaning.first_dirty_offset:
            directory = folder / str(number) / "table-0"
            export(table, directory)
            groups, result = table.clean()
            segment_bytes = table.settings.segment_bytes
            passes.append(ComparedPass(directory, cleaning, groups, result.next_dirty_offset,
                                       table.stored(), segment_bytes))  # fmt: skip
        table.now_ms += dice.choice([0, 500, 1000, 5000])
    return passes


def export(table: TableLog, directory: Path) -> None:
    """Write the log's files to a real directory."""
    directory.mkdir(parents=True)
    for name in table.disk.listdir(DIRECTORY):
        if name.endswith((".log", ".index", ".timeindex", ".txnindex")):
            file = table.disk.open(f"{DIRECTORY}/{name}")
            (directory / name).write_bytes(file.read(0, file.size()))
            file.close()


def stored_in(directory: Path) -> list[TableBatch]:
    stored = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for at, header in iter_batches(data):
            batch = data[at : at + header.size_bytes]
            stored.append(TableBatch(header, records_of(batch), batch))
    return stored


def compare(one: ComparedPass, theirs: list[TableBatch]) -> None:
    ends = {group.end_offset for group in one.groups}
    their_ends = {batch.header.last_offset for batch in theirs}
    ours = [
        batch
        for batch in one.ours
        if batch.header.last_offset in their_ends
        or batch.header.records_count
        or not (batch.header.end_offset in ends or precedes_a_hole(batch, one))
    ]
    assert [b.header.last_offset for b in ours] == [b.header.last_offset for b in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        if mine.header.compression:
            sealed = {"crc": 0, "batch_length": 0}  # packed at another level, maybe
            assert mine.header._replace(**sealed) == other.header._replace(**sealed)
            assert mine.records == other.records
        else:
            assert mine.data == other.data


def precedes_a_hole(batch: TableBatch, one: ComparedPass) -> bool:
    """Whether this was the last batch of its group, with offsets missing after it."""
    at = one.ours.index(batch)
    following = one.ours[at + 1].header if at + 1 < len(one.ours) else None
    return (
        following is not None
        and following.producer_id < 0
        and not following.records_count
        and following.end_offset in {group.end_offset for group in one.groups}
    )
