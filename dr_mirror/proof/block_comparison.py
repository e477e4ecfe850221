"""Replicas of one partition compared with the source over a range of offsets, block by block.

In: sides, a range. Out: per replica how far it was compared and what differs. Core:
`dr_mirror.proof.plan.digests`. Never: a difference that was not found batch by batch: blocks of
both sides may have been cut otherwise, batches cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from bus.records.block_digest import BlockDigest
from dr_mirror.proof.plan.digests import (
    BatchDifference,
    BatchDigest,
    differing_batches,
    differing_blocks,
)
from dr_mirror.proof.plan.partition_proof import MAX_DIFFERENCES
from dr_mirror.proof.replica_endpoints import (
    EndpointError,
    EndpointMoved,
    ReadBlocks,
    ReplicaEndpoint,
    read_all,
)

UNREADABLE = "cannot be read: "
SOURCE_SILENT = "the source does not answer, so that no batch can be compared"
BLOCK_DIFFERS = "the block is not what the source had; it does not answer now, to say which batch"


class SourceSilent(EndpointError):
    """Its block is known from a record, its batches are not."""


@dataclass(slots=True)
class ReplicaComparison:
    """One replica. [first asked, `reached`) was compared; `failure`: why it went no further."""

    reached: int
    differences: list[BatchDifference] = field(default_factory=list)
    failure: str = ""
    blocks: int = 0
    size_bytes: int = 0


class BlockComparison:
    """One partition. `pace` is told the bytes that disks were read for, before more are."""

    def __init__(
        self,
        source: ReplicaEndpoint,
        replicas: Mapping[int, ReplicaEndpoint],
        block_offsets: int,
        pace: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._source = source
        self._replicas = replicas
        self._block_offsets = block_offsets
        self._pace = pace
        self.source_blocks: list[BlockDigest] = []
        """Of every block that was compared, as the source has it."""
        self.source_failure = ""
        """Why the source went no further; empty: it did."""

    async def compare(self, first: int, end: int) -> dict[int, ReplicaComparison]:
        """By broker, as far as both sides answer."""
        results = {broker: ReplicaComparison(first) for broker in self._replicas}
        going = set(self._replicas)
        position = first
        while going and position < end:
            answers = await self._read_replicas(going, position, end, results)
            if not answers:
                break
            stop = min(answer.next_offset for answer in answers.values())
            try:
                of_source = await self._read_source(position, stop)
            except EndpointMoved as moved:  # what the source has deleted is not compared
                position = min(max(moved.log_start, position + 1), end)
                for broker in answers:
                    results[broker].reached = position
                continue
            except EndpointError as error:
                self.source_failure = str(error)
                break
            stop = min(stop, of_source.next_offset)
            self.source_blocks += of_source.blocks
            for broker, answer in answers.items():
                ours = [one for one in answer.blocks if one.first_offset < stop]
                await self._judge(broker, of_source.blocks, ours, (position, stop), results[broker])
            if self._pace is not None:
                read = sum(one.size_bytes for one in of_source.blocks)
                await self._pace(read * len(answers))
            going = {broker for broker in answers if not results[broker].failure}
            position = stop
        return results

    async def _read_source(self, position: int, stop: int) -> ReadBlocks:
        answer = await read_all(self._source, position, stop, self._block_offsets)
        if answer.next_offset > position:
            return answer
        if answer.fault:
            raise EndpointError(f"{UNREADABLE}{answer.fault}")
        raise EndpointError("it does not hold these offsets by now")

    async def _read_replicas(
        self, brokers: set[int], position: int, end: int, results: dict[int, ReplicaComparison]
    ) -> dict[int, ReadBlocks]:
        """What each has from `position` on; those that go no further are left out."""
        order = sorted(brokers)
        answers = await asyncio.gather(
            *(self._read_one(self._replicas[broker], position, end) for broker in order)
        )
        going: dict[int, ReadBlocks] = {}
        for broker, answer in zip(order, answers, strict=True):
            result = results[broker]
            if isinstance(answer, EndpointMoved):
                result.reached = min(max(answer.log_start, position), end)
            elif isinstance(answer, EndpointError):
                result.failure = str(answer)
            elif answer.fault and answer.next_offset <= position:
                self._skip_unreadable(result, position, end, answer.fault)
            elif answer.next_offset > position:
                going[broker] = answer
        return going

    def _skip_unreadable(
        self, result: ReplicaComparison, position: int, end: int, fault: str
    ) -> None:
        """What cannot be read differs, up to the next block; the next task begins there."""
        width = self._block_offsets
        result.reached = min((position // width + 1) * width, end)
        result.differences.append(BatchDifference(position, result.reached, f"{UNREADABLE}{fault}"))

    async def _read_one(
        self, endpoint: ReplicaEndpoint, position: int, end: int
    ) -> ReadBlocks | EndpointError:
        try:
            answer = await endpoint.read(position, end, self._block_offsets)
        except EndpointError as error:
            return error
        return whole_blocks(answer, position, end, self._block_offsets)

    async def _judge(
        self, broker: int, of_source: list[BlockDigest], ours: list[BlockDigest],
        covered: tuple[int, int], result: ReplicaComparison,
    ) -> None:  # fmt: skip
        position, stop = covered
        result.blocks += len(of_source)
        result.size_bytes += sum(one.size_bytes for one in of_source)
        for number in differing_blocks(of_source, ours, self._block_offsets):
            if len(result.differences) >= MAX_DIFFERENCES:
                break
            begin = max(number * self._block_offsets, position)
            end = min((number + 1) * self._block_offsets, stop)
            try:
                result.differences += await self._batches_that_differ(broker, begin, end)
            except SourceSilent:
                if end - begin < self._block_offsets:
                    result.failure, result.reached = SOURCE_SILENT, begin
                    return
                result.differences.append(BatchDifference(begin, end, BLOCK_DIFFERS))
            except EndpointError as error:
                result.failure, result.reached = str(error), begin
                return
        result.reached = stop

    async def _batches_that_differ(
        self, broker: int, begin: int, end: int
    ) -> list[BatchDifference]:
        try:
            theirs = await read_all(self._source, begin, end, 1)
        except EndpointError as error:
            raise SourceSilent(str(error)) from None
        ours = await read_all(self._replicas[broker], begin, end, 1)
        if theirs.next_offset < end:
            raise SourceSilent(theirs.fault)
        stop = ours.next_offset if ours.fault else end
        found = differing_batches(
            [BatchDigest.of(one) for one in theirs.blocks if one.first_offset < stop],
            [BatchDigest.of(one) for one in ours.blocks],
        )
        if ours.fault:
            found.append(BatchDifference(stop, end, f"{UNREADABLE}{ours.fault}"))
        return found


def whole_blocks(answer: ReadBlocks, position: int, end: int, block_offsets: int) -> ReadBlocks:
    """Without the block that an answer ended in, unless there is no other: the next answer brings
    it whole."""
    if answer.next_offset >= end or answer.fault:
        return answer
    begin = answer.next_offset // block_offsets * block_offsets
    if begin <= position:
        return answer
    return ReadBlocks([one for one in answer.blocks if one.first_offset < begin], begin)
