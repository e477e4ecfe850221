"""Replicas compared with the source over answers that are cut anywhere, as brokers cut them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.client.model import TopicPartition
from bus.records.block_digest import BlockDigest
from dr_mirror.proof.block_comparison import BlockComparison
from dr_mirror.proof.plan.digests import BlockDigester
from dr_mirror.proof.plan.partition_proof import BLOCK_OFFSETS, PartitionProof
from dr_mirror.proof.reconciliation_file import ReconciliationFile, ReconciliationFileError
from dr_mirror.proof.recorded_source import RecordedSource
from dr_mirror.proof.replica_endpoints import (
    EndpointError,
    EndpointMoved,
    EndpointSilent,
    HeldRange,
    ReadBlocks,
)
from tests.dr_mirror.batch_log import a_batch, a_log

BLOCK = 8
PLACE = TopicPartition("data.face", 3)
Log = list[tuple[int, int, bytes]]


@dataclass
class LogSide:
    """A log that answers as a broker does: at most `max_bytes`, up to its end, no further than what
    cannot be read."""

    log: Log
    max_bytes: int = 1 << 30
    end: int = 1 << 60
    unreadable: int = 1 << 60
    start: int = 0
    is_silent: bool = False
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def held(self) -> HeldRange:
        return HeldRange(self.start, self.end)

    async def read(self, first: int, end: int, block_offsets: int) -> ReadBlocks:
        self.asked.append((first, end))
        if self.is_silent:
            raise EndpointSilent("no answer")
        if first < self.start:
            raise EndpointMoved(self.start)
        end = min(end, max(self.end, first))
        digester, left, position = BlockDigester(block_offsets), self.max_bytes, first
        for base, until, batch in self.log:
            if base < first:
                continue
            if base >= end or left <= 0:
                break
            if base >= self.unreadable:
                return ReadBlocks(digester.finish(), max(position, first), "the file is damaged")
            position = digester.add(batch, position, end)
            left -= len(batch)
            position = until
        else:
            position = end
        if left > 0:
            position = end
        return ReadBlocks(digester.finish(), min(position, end))


def flipped(log: Log, at: int, dice: random.Random) -> Log:
    base, end, batch = log[at]
    own = bytearray(batch)
    own[dice.randrange(61, len(own))] ^= 1 << dice.randrange(8)
    return [*log[:at], (base, end, bytes(own)), *log[at + 1 :]]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_differs_is_found_batch_by_batch_however_answers_are_cut(dice):
    """A flipped, a lost and an unreadable batch, a replica that has less, one that begins later."""
    log = a_log(dice, dice.randrange(1, 40))
    end = log[-1][1]
    expected: dict[int, set[int]] = {}
    sides: dict[int, LogSide] = {}
    for broker in range(1, 4):
        own, differing = log, set()
        what = dice.choice(["well", "well", "flipped", "lost", "short", "later"])
        side = LogSide(log, max_bytes=dice.choice([50, 200, 1 << 30]))
        at = dice.randrange(len(log))
        if what == "flipped":
            own, differing = flipped(log, at, dice), {log[at][0]}
        elif what == "lost":
            own, differing = [*log[:at], *log[at + 1 :]], {log[at][0]}
        elif what == "short":
            side.end = log[at][0]
        elif what == "later":
            side.start = log[at][0]
        side.log = own
        sides[broker], expected[broker] = side, differing
    source = LogSide(log, max_bytes=dice.choice([50, 1 << 30]))
    comparison = BlockComparison(source, sides, BLOCK)
    found = asyncio.run(comparison.compare(0, end))
    assert comparison.source_failure == ""
    for broker, result in found.items():
        side = sides[broker]
        assert result.failure == ""
        if side.start == 0:
            assert result.reached >= min(end, max(side.end, 0)) // BLOCK * BLOCK
            assert {one.first_offset for one in result.differences} == expected[broker]
        else:
            assert result.reached == side.start
            assert not result.differences


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_cannot_be_read_is_named_to_the_end_of_its_block_and_the_other_replicas_go_on(dice):
    """A damaged header: nothing behind it can be told from another batch."""
    log = a_log(dice, 30, hole=0)
    end, at = log[-1][1], dice.randrange(30)
    bad, well = LogSide(log, unreadable=log[at][0]), LogSide(log)
    found = asyncio.run(BlockComparison(LogSide(log), {1: bad, 2: well}, BLOCK).compare(0, end))
    [difference] = found[1].differences
    assert difference.first_offset == log[at][0]
    assert difference.end_offset == found[1].reached <= (log[at][0] // BLOCK + 1) * BLOCK
    assert "damaged" in difference.detail
    assert (found[2].reached, found[2].differences) == (end, [])


async def compare_with_records(
    folder: Path, log: Log, replica: LogSide, live: LogSide | None, end: int
) -> tuple[BlockComparison, dict]:
    file = ReconciliationFile(folder / "reconciliation.db")
    try:
        whole = await LogSide(log).read(0, end // BLOCK_OFFSETS * BLOCK_OFFSETS, BLOCK_OFFSETS)
        file.add(PLACE, whole.blocks, "1,2", 5)

        async def recorded(first: int, until: int) -> list[BlockDigest]:
            return file.blocks(PLACE, first, until)

        silent: list[str] = []
        source = RecordedSource(
            live, recorded, prefer_recorded=False, why_silent="gone", on_silent=silent.append
        )
        comparison = BlockComparison(source, {1: replica}, BLOCK_OFFSETS)
        found = await comparison.compare(0, end)
        assert len(silent) == int(live is not None)
        return comparison, found
    finally:
        file.close()


@pytest.mark.parametrize("is_known", [True, False])
async def test_records_of_blocks_speak_for_a_source_that_is_silent(
    tmp_path: Path, dice: random.Random, is_known: bool
):
    """Whole blocks are compared, what differs is named by its block; the rest stays unproven."""
    log: Log = [(at, at + 100, a_batch(dice, at, 100)) for at in range(0, 2_500, 100)]
    at = dice.randrange(20)
    replica = LogSide(flipped(log, at, dice))
    live = None if is_known else LogSide(log, is_silent=True)
    comparison, found = await compare_with_records(tmp_path, log, replica, live, 2_500)
    [difference] = found[1].differences
    begin = log[at][0] // BLOCK_OFFSETS * BLOCK_OFFSETS
    assert (difference.first_offset, difference.end_offset) == (begin, begin + BLOCK_OFFSETS)
    assert found[1].reached == 2_000
    assert comparison.source_failure in ("gone", "no answer")


def test_the_file_keeps_proofs_and_records_and_lets_one_mirror_in(tmp_path: Path):
    """Over a restart; below the log start, and of a topic that is another one, they are dropped."""
    path = tmp_path / "mirror" / "reconciliation.db"
    file = ReconciliationFile(path)
    with pytest.raises(ReconciliationFileError, match="another mirror"):
        ReconciliationFile(path)
    proof = PartitionProof(topic=PLACE.topic, partition=PLACE.partition, topic_id="ab", start=1_000)
    blocks = [BlockDigest(at, at + 1_000, 10, 1_000, 9, b"d" * 32) for at in (0, 1_000, 2_000)]
    file.add(PLACE, blocks, "1", 5)
    file.save([(PLACE, b'{"topic":"data.face","partition":3,"topic_id":"ab","start":1000}', 1_000)])
    file.close()
    again = ReconciliationFile(path)
    assert again.proofs() == [proof]
    assert again.blocks(PLACE, 0, 9_000) == blocks[1:]
    again.forget(PLACE)
    assert (again.proofs(), again.blocks(PLACE, 0, 9_000)) == ([], [])
    again.close()
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(ReconciliationFileError):
        ReconciliationFile(path)


async def test_a_source_that_goes_no_further_is_said_and_nothing_is_called_different(
    dice: random.Random,
):
    """No record stands in."""
    log = a_log(dice, 20)
    comparison = BlockComparison(LogSide(log, is_silent=True), {1: LogSide(log)}, BLOCK)
    found = await comparison.compare(0, log[-1][1])
    assert comparison.source_failure == "no answer"
    assert (found[1].reached, found[1].differences) == (0, [])
    with pytest.raises(EndpointError):
        await LogSide(log, is_silent=True).read(0, 1, BLOCK)
