"""Produce requests to the leaders of an ordinary target: several partitions, one batch of each.

In: batches of partitions. Out: their answers, in `AppendBatches`. Never: more than IN_FLIGHT
requests to a leader that may hold batches of one partition; a leader remembers five.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from bus.records.batch import RecordsError
from bus.runtime.tasks import spawn
from dr_mirror.copy.context import CopyContext
from dr_mirror.produce.plan.append_batches import AppendBatches
from dr_mirror.produce.plan.rewrite import BatchProducer, ProducedBatch

IN_FLIGHT = 5
TIMEOUT_MS = 30_000
"""For the in-sync replicas; the target takes a replica out of sync after about as long."""
PRODUCE_VERSION = 11
"""The newest for a client that names its topics and adds partitions to a transaction itself."""
ALL_IN_SYNC = -1
SEND_AGAIN_S = 0.2
MAX_ATTEMPTS = 100
"""Of an idempotent producer: twenty seconds, longer than an election."""

Wave = list[tuple[AppendBatches, ProducedBatch]]
LeaderOf = Callable[[TopicPartition], int]


class ProduceRequests:
    """Stateless between calls."""

    def __init__(self, context: CopyContext, leader_of: LeaderOf, purpose: str) -> None:
        """`purpose` names the connections: they are this sender's own, so that requests keep their
        order."""
        self._context = context
        self._leader_of = leader_of
        self._purpose = purpose

    async def send(
        self, work: Sequence[AppendBatches], producer: BatchProducer, transactional_id: str | None
    ) -> None:
        """Send all; each of `work` has its failure or none. Without a transaction batches are sent
        again with their sequences, since an answer may be lost."""
        await self._send_once(work, producer, transactional_id)
        if transactional_id is not None:
            return
        for _ in range(MAX_ATTEMPTS):
            again = [each for each in work if each.may_send_again]
            if not again:
                return
            self._context.refresh.set()
            await self._context.clock.sleep(SEND_AGAIN_S)
            for each in again:
                each.rewind()
            await self._send_once(again, producer, None)

    async def _send_once(
        self, work: Sequence[AppendBatches], producer: BatchProducer, transactional_id: str | None
    ) -> None:
        by_leader: dict[int, list[AppendBatches]] = defaultdict(list)
        for each in work:
            by_leader[self._leader_of(each.partition)].append(each)
        for each in by_leader.pop(-1, []):
            each.on_failed(ErrorCode.LEADER_NOT_AVAILABLE, "")
        await asyncio.gather(
            *(
                self._send_to(leader, batches, producer, transactional_id)
                for leader, batches in by_leader.items()
            )
        )

    async def _send_to(
        self,
        leader: int,
        work: list[AppendBatches],
        producer: BatchProducer,
        transactional_id: str | None,
    ) -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)
        requests: list[asyncio.Task[None]] = []
        try:
            while wave := _next_wave(work, producer):
                await slots.acquire()
                task = spawn(self._request(leader, wave, transactional_id), name="produce")
                task.add_done_callback(lambda _: slots.release())
                requests.append(task)
            await asyncio.gather(*requests)
        finally:
            for task in requests:
                task.cancel()

    async def _request(self, leader: int, wave: Wave, transactional_id: str | None) -> None:
        channel = self._context.target.channel(leader, self._purpose, pipelined=True)
        try:
            answer = await channel.request(
                ApiKey.PRODUCE, _request_of(wave, transactional_id),
                timeout_ms=TIMEOUT_MS + TIMEOUT_MS // 2, max_version=PRODUCE_VERSION,
            )  # fmt: skip
        except PeerError as error:
            code = ErrorCode.NETWORK_EXCEPTION
            if error.kind is PeerErrorKind.NOT_LET_IN:
                code = ErrorCode.SASL_AUTHENTICATION_FAILED
            for batches, _ in wave:
                batches.on_failed(code, str(error))
            return
        results = {
            TopicPartition(topic.name, one.index): one
            for topic in answer.responses
            for one in topic.partition_responses
        }
        for batches, batch in wave:
            _on_result(batches, batch, results.get(batches.partition))


def _next_wave(work: list[AppendBatches], producer: BatchProducer) -> Wave:
    wave: Wave = []
    for batches in work:
        try:
            batch = batches.next_batch(producer)
        except RecordsError as error:
            batches.on_failed(ErrorCode.CORRUPT_MESSAGE, error.detail)
            continue
        if batch is not None:
            wave.append((batches, batch))
    return wave


def _request_of(wave: Wave, transactional_id: str | None) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for batches, batch in wave:
        name, index = batches.partition
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(name, partition_data=[])
        topic.partition_data.append(PartitionProduceData(index, batch.data))
    return ProduceRequest(transactional_id, ALL_IN_SYNC, TIMEOUT_MS, list(topics.values()))


def _on_result(
    batches: AppendBatches, batch: ProducedBatch, result: PartitionProduceResponse | None
) -> None:
    if result is None:
        batches.on_failed(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer lacks the partition")
        return
    code = ErrorCode.of(result.error_code)
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        batches.on_acknowledged(batch, result.base_offset)
    else:
        batches.on_failed(code, result.error_message or "")
