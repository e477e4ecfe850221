"""Where what is recent begins in each partition, by its records' own times: asked of the source.

In: the partitions that are copied. Out: of each the offset from which on it is compared in every
interval. Core: `dr_mirror.proof.plan.first_scan`. Never: a guess from when the mirror began, or
from when it copied something: a mirror may be younger than what it compares.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerError
from bus.client.wire.offset_requests import list_offsets
from bus.protocol.apis import ApiKey
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.plan.partition_copy import NO_NODE, PartitionCopy
from dr_mirror.proof.log_directories import LogDirectories
from dr_mirror.proof.plan.first_scan import (
    GUESSED_RECORD_BYTES,
    RECENT_BYTES,
    FirstScan,
    budget_of,
    newest_from,
    recent_from,
)

TIMEOUT_MS = 10_000
PURPOSE = "proof"
NONE_IS_YOUNG = -1
"""What a broker answers where no record is as young."""


@dataclass(frozen=True, slots=True)
class YoungFrom:
    """What was answered, and when; of the topic that the target had then."""

    target_topic_id: bytes
    at_ms: int
    offset: int


class RecentBounds:
    """Invariant: `_known` has answers about partitions of `copies` only."""

    def __init__(self, context: CopyContext, directories: LogDirectories) -> None:
        self._context = context
        self._copies = context.copied.copies
        self._directories = directories
        self._pace = context.settings.proof_pace
        self._known: dict[TopicPartition, YoungFrom] = {}
        self._first_ms, self._first_bytes = 0, 0.0  # what first looks have called recent

    async def run(self, tick_s: float) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask(now_ms())
            await asyncio.sleep(tick_s)

    def of(self, copy: PartitionCopy) -> int | None:
        """The first offset of which a record was young when it was asked last; None: nobody has
        answered yet."""
        known = self._known.get(copy.partition)
        if known is None or known.target_topic_id != copy.target_topic_id:
            return None
        return known.offset

    def newest(self, copy: PartitionCopy) -> int:
        """From where on what was got of late counts as recent, whatever its records say."""
        records = copy.copied_records
        mean = copy.copied_bytes / records if records else GUESSED_RECORD_BYTES
        return newest_from(copy.held[1], mean, len(self._copies))

    async def first(self, copies: Iterable[PartitionCopy], at_ms: int) -> dict[TopicPartition, int]:
        """Of partitions that are looked at the first time; those that nobody has answered about
        are left out."""
        scans: list[FirstScan] = []
        waiting = 0
        for copy in copies:
            young_from = self.of(copy)
            if young_from is None:
                waiting += 1
                continue
            stored = await self._directories.of(copy.target_leader, copy.partition)
            start, end = copy.held
            scans.append(FirstScan(copy.partition, start, end, young_from, stored.size_bytes))
        if at_ms - self._first_ms > self._pace.recent_ms:
            self._first_ms, self._first_bytes = at_ms, 0.0
        budget = budget_of(len(scans), waiting, RECENT_BYTES - self._first_bytes)
        self._first_bytes += min(sum(one.young_bytes for one in scans), budget)
        return recent_from(scans, budget)

    async def ask(self, at_ms: int) -> None:
        """About all whose turn it is, one request per leader. Who does not answer is asked again;
        what is known stays meanwhile, and says more than is young by now, never less."""
        for gone in set(self._known) - set(self._copies):
            del self._known[gone]
        by_leader: dict[int, list[PartitionCopy]] = defaultdict(list)
        for copy in self._copies.values():
            if copy.acknowledged >= 0 and self._is_due(copy, at_ms):
                by_leader[copy.source_leader].append(copy)
        by_leader.pop(NO_NODE, None)
        await asyncio.gather(
            *(self._ask_one(leader, found, at_ms) for leader, found in by_leader.items())
        )

    def _is_due(self, copy: PartitionCopy, at_ms: int) -> bool:
        if self.of(copy) is None:
            return True
        return at_ms - self._known[copy.partition].at_ms >= self._pace.interval_ms

    async def _ask_one(self, leader: int, copies: Iterable[PartitionCopy], at_ms: int) -> None:
        asked = {copy.partition: copy for copy in copies}
        request = list_offsets(asked, at_ms - self._pace.recent_ms)
        channel = self._context.source.channel(leader, PURPOSE, pipelined=True)
        try:
            answer = await channel.request(ApiKey.LIST_OFFSETS, request, timeout_ms=TIMEOUT_MS)
        except PeerError:
            return
        for topic in answer.topics:
            for one in topic.partitions:
                copy = asked.get(TopicPartition(topic.name, one.partition_index))
                if copy is not None:
                    offset = _offset(one.error_code, one.offset, copy)
                    self._known[copy.partition] = YoungFrom(copy.target_topic_id, at_ms, offset)


def _offset(error_code: int, offset: int, copy: PartitionCopy) -> int:
    """Where the broker cannot say it, all counts as young, as at a batch that it cannot read."""
    if error_code:
        return 0
    return copy.source.high_watermark if offset == NONE_IS_YOUNG else offset
