"""A fetch outside any session names all its partitions: most of them have nothing new."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.handlers import k01_fetch
from broker.handlers.partition_fetch import read_partition
from broker.replica.fetch.session_cache import CachedPartition
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import PartitionData
from bus.records.batch import assign
from tests.broker.replica.story import NOW_MS, TOPIC, batch
from tests.broker.replica.test_cold_reads import ColdStory, partitions, run_story

END = 3  # of either partition of the story


def test_a_fetch_that_is_caught_up_everywhere_reads_nothing_until_there_is_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then it reads each partition once, and its answer names all."""
    read: list[int] = []

    def counted(entry: CachedPartition, *more: Any) -> PartitionData:
        read.append(entry.index)
        return read_partition(entry, *more)

    monkeypatch.setattr(k01_fetch, "read_partition", counted)

    async def story(world: ColdStory) -> None:
        waiting = world.ask_fetch(END, END)
        await asyncio.sleep(1)
        assert (waiting.done(), read) == (False, [])
        world[1].replicas.get(TOPIC, 1).append_as_leader(
            batch("more"), required_acks=1, now_ms=NOW_MS
        )
        empty, full = partitions(await waiting)
        assert (bytes(empty.records), empty.high_watermark, empty.error_code) == (b"", END, 0)
        assert (full.high_watermark, b"more" in bytes(full.records)) == (END + 1, True)
        assert read == [0, 1]

    run_story(story)


def test_a_fetch_with_an_offset_that_is_not_there_is_answered_at_once() -> None:
    """Though its other partition has nothing new."""

    async def story(world: ColdStory) -> None:
        asked = world.ask_fetch(END, END + 6)
        await asyncio.sleep(0)
        first, second = partitions(asked.result())
        assert (first.error_code, second.error_code) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)

    run_story(story)


def test_a_fetch_that_does_not_wait_reads_at_once() -> None:
    """Empty as it is."""

    async def story(world: ColdStory) -> None:
        asked = world.ask_fetch(END, END, max_wait_ms=0)
        await asyncio.sleep(0)
        assert [bytes(one.records) for one in partitions(asked.result())] == [b"", b""]

    run_story(story)


def test_a_fetch_before_a_hole_waits_until_there_is_something_behind_it() -> None:
    """Of a compacted topic offsets may be missing right up to the high watermark, or to an open
    transaction. Such a fetch was answered at once, empty, and its client asked again, as fast as
    it could."""

    async def story(world: ColdStory) -> None:
        partition = world[1].replicas.get(TOPIC, 1)
        log = partition.log
        log.reconfigure(replace(log.config, compacted=True))
        behind = bytearray(batch("behind"))
        assign(behind, 0, END + 4, log.latest_epoch)
        log.append_as_follower(behind, NOW_MS)
        log.advance_high_watermark(END + 4)
        waiting = world.ask_fetch(END, END)
        await asyncio.sleep(1)
        assert not waiting.done()
        partition.append_as_leader(batch("more"), required_acks=1, now_ms=NOW_MS)
        _, full = partitions(await waiting)
        assert b"behind" in bytes(full.records)

    run_story(story)
