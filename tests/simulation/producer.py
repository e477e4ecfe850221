"""A simulated producer: batches in order, retried until answered for good or too late.

In: where to write, how. Out: events `send`, then `ack` or `fail`, for every value. Never: a new
batch of a partition while the one before is undecided; so that its order can be judged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.init_producer_id import InitProducerIdRequest
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.checker.history import Ack, Fail, Send
from tests.simulation.client import Client, ClientSurroundings
from tests.simulation.wire import Wire, WireError

DELIVERY_TIMEOUT_S = 40.0
RETRY_S = (0.05, 0.25)
MOST_RECORDS = 5

REFUSED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
}
UNDECIDED = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ProducerKind:
    """How a producer writes."""

    acks: int = -1
    idempotent: bool = True
    padding_bytes: int = 40


class Producer:
    """One producer; `run` writes until `stop`."""

    def __init__(self, name: str, around: ClientSurroundings, kind: ProducerKind) -> None:
        self.name, self.around, self.kind = name, around, kind
        self.client = Client(name, around)
        self.stopping = False
        self.acknowledged = 0
        self._producer_id = -1
        self._epoch = -1
        self._sequence: dict[tuple[str, int], int] = {}
        self._count = 0

    async def run(self, targets: list[tuple[str, int]], pause_s: float) -> None:
        """Write to the targets in turn."""
        dice = self.around.dice
        while not self.stopping:
            topic, partition = targets[dice.randrange(0, len(targets))]
            await self.write(topic, partition, 1 + dice.randrange(0, MOST_RECORDS))
            await asyncio.sleep(pause_s * (0.5 + dice.random()))

    async def write(
        self, topic: str, partition: int, count: int, *, within_s: float = DELIVERY_TIMEOUT_S
    ) -> bool:
        """One batch of `count` values; whether it was acknowledged."""
        values = [f"{self.name}.{self._count + index}" for index in range(count)]
        self._count += count
        ops = [self._sent(topic, partition, value) for value in values]
        ends = self.client.clock.monotonic() + within_s
        tried = False
        error = "never sent"
        while self.client.clock.monotonic() < ends:
            try:
                batch = await self._batch(topic, partition, values)
                offset, error = await self._try(topic, partition, batch, count)
                if offset is not None:
                    self._acked(topic, partition, ops, offset)
                    return True
                code = ErrorCode(int(error))
                tried = tried or code not in REFUSED
                error = code.name
                if code not in REFUSED and code not in UNDECIDED:
                    break
            except WireError as wrong:
                tried, error = True, str(wrong)
            self.client.forget_leader(topic, partition)
            low, high = RETRY_S
            await asyncio.sleep(low + (high - low) * self.around.dice.random())
        self._failed(ops, error, certain=not tried)
        return False

    def _sent(self, topic: str, partition: int, value: str) -> int:
        op = self.around.next_op()
        self.around.record(
            Send(
                at_ms=self.client.now_ms, op=op, producer=self.name, topic=topic,
                partition=partition, value=value, acks=self.kind.acks,
                idempotent=self.kind.idempotent, ordered=True,
            )
        )  # fmt: skip
        return op

    def _acked(self, topic: str, partition: int, ops: list[int], offset: int) -> None:
        key = topic, partition
        self._sequence[key] = self._sequence.get(key, 0) + len(ops)
        self.acknowledged += len(ops)
        for index, op in enumerate(ops):
            found = offset + index if offset >= 0 else -1
            self.around.record(Ack(at_ms=self.client.now_ms, op=op, offset=found))

    def _failed(self, ops: list[int], error: str, *, certain: bool) -> None:
        for op in ops:
            self.around.record(Fail(at_ms=self.client.now_ms, op=op, error=error, certain=certain))
        # What is undecided leaves a gap in the sequence: go on under a new producer id, as Java's.
        self._producer_id = -1
        self._sequence.clear()

    async def _batch(self, topic: str, partition: int, values: list[str]) -> bytes:
        if self.kind.idempotent and self._producer_id < 0:
            await self._init()
        now, padding = self.client.now_ms, "x" * self.kind.padding_bytes
        records = [
            Record(value=value.encode(), key=padding.encode(), timestamp_ms=now)
            for value in values
        ]
        if not self.kind.idempotent:
            return bytes(build_batch(records))
        return bytes(
            build_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequence.get((topic, partition), 0),
            )
        )

    async def _init(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        if not self.client.brokers:
            await self.client.refresh([])
        answer = await self.client.ask(-1, ApiKey.INIT_PRODUCER_ID, request)
        if answer.error_code:
            raise WireError(f"InitProducerId: {ErrorCode(answer.error_code).name}")
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def _try(
        self, topic: str, partition: int, batch: bytes, count: int
    ) -> tuple[int | None, str]:
        """(offset, "") once acknowledged, -1 for an unknown one, else (None, error)."""
        view, leader = await self.client.leader(topic, partition)
        request = ProduceRequest(
            acks=self.kind.acks,
            timeout_ms=3000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=view.topic_id,
                    partition_data=[PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )
        wire: Wire = await self.client.wire(leader)
        if self.kind.acks == 0:
            wire.tell(ApiKey.PRODUCE, request)
            return -1, ""
        answer = await wire.ask(ApiKey.PRODUCE, request, timeout_s=5.0)
        return self._judge(answer.responses[0].partition_responses[0], topic, partition)

    def _judge(self, result: Any, topic: str, partition: int) -> tuple[int | None, str]:
        code = result.error_code
        if code == ErrorCode.NONE:
            return int(result.base_offset), ""
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1, ""
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            self.around.complain(
                f"{self.name} heard {ErrorCode(code).name} for {topic}-{partition}, sequence "
                f"{self._sequence.get((topic, partition), 0)} with one request in flight"
            )
        return None, str(int(code))
