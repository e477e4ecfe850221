"""A simulated producer: up to five batches of a partition in flight, each retried until decided.

In: where to write, how. Out: events `send`, then `ack` or `fail`, for every value. Never: a batch
of a partition while the fifth before it is undecided, or while an earlier one has failed: a broker
remembers five, and what failed leaves a gap in the sequence.

An idempotent producer often drops an acknowledgement on purpose, with all else on that connection,
and retries immediately or seconds later, when another broker may lead or the leader has restarted:
it must get the same offset, also if other batches were appended meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from tests.checker.history import Ack, Fail, SendEvent
from tests.simulation.client import Client, ClientSurroundings
from tests.simulation.dialect import OWN, Dialect
from tests.simulation.wire import WireError

DELIVERY_TIMEOUT_S = 40.0
ASK_TIMEOUT_S = 5.0
RETRY_S = (0.05, 0.25)
LATE_RETRY_S = (0.5, 8.0)
"""Pause after some lost acknowledgements: long enough for an election or a restart meanwhile."""
LOST_ACKS = 0.1
"""Share of the idempotent producers' acknowledgements that are dropped."""
LATE = 0.5
"""Share of the dropped ones that are retried late."""
MOST_RECORDS = 5
MOST_IN_FLIGHT = 5
"""As many batches of a producer as a broker remembers."""

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
OUT_OF_ORDER = {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}


@dataclass(frozen=True, slots=True)
class ProducerKind:
    """How a producer writes."""

    acks: int = -1
    idempotent: bool = True
    padding_bytes: int = 40
    in_flight: int = 1
    lost_acks: float = 0.0
    dialect: Dialect = OWN


@dataclass(slots=True, eq=False)
class Sending:
    """One batch in flight. `offset`: the base offset that was acknowledged, also if the
    acknowledgement was dropped; -1 if none is known."""

    topic: str
    partition: int
    ops: list[int]
    batch: bytes
    sequence: int
    ends: float
    decided: asyncio.Future[bool]
    tried: bool = False
    error: str = "never sent"
    offset: int = -1


@dataclass(slots=True)
class Line:
    """The batches of a partition, oldest first; decided ones stay until all before them are
    decided.

    Invariant: at most `in_flight` of them; `broken`: one has failed, later ones may be out of
    order. `begun`: one is acknowledged. Before that a broker does not know the producer and accepts
    any sequence as its first (KIP-360, as Kafka does), so only one may be in flight. `last_offset`:
    the highest base offset of the batches before those in flight, -1 if none is known.
    """

    sendings: deque[Sending] = field(default_factory=deque)
    broken: bool = False
    begun: bool = False
    last_offset: int = -1

    def is_next(self, sending: Sending) -> bool:
        """Whether all batches before it are acknowledged: then no sequence can be out of order."""
        return not self.broken and self.sendings[0] is sending

    def forget_decided(self) -> None:
        """Removes decided batches up to the first undecided one."""
        while self.sendings and self.sendings[0].decided.done():
            self.last_offset = max(self.last_offset, self.sendings.popleft().offset)


class AckLost(WireError):
    """The acknowledgement arrived, but the client drops it on purpose."""

    def __init__(self, is_late: bool) -> None:
        super().__init__("the acknowledgement was lost")
        self.pause_s = LATE_RETRY_S if is_late else RETRY_S


class SimProducer:
    """One producer; `run` writes until `stop`."""

    def __init__(self, name: str, around: ClientSurroundings, kind: ProducerKind) -> None:
        self.name, self.around, self.kind = name, around, kind
        self.client = Client(name, around, kind.dialect)
        self.stopping = False
        self.acknowledged = 0
        self._producer_id = -1
        self._epoch = -1
        self._sequence: dict[tuple[str, int], int] = {}
        self._lines: dict[tuple[str, int], Line] = {}
        self._moved = asyncio.Event()
        self._targets: list[tuple[str, int]] | None = None
        self._count = 0

    async def run(self, targets: list[tuple[str, int]], pause_s: float) -> None:
        """Writes to the targets in turn. A batch whose target is removed (its topic is deleted) is
        abandoned."""
        dice = self.around.dice
        self._targets = targets
        while not self.stopping:
            topic, partition = targets[dice.randrange(0, len(targets))]
            burst = 1 + dice.randrange(0, self.kind.in_flight)
            for _ in range(burst):
                sending = await self._begin(
                    topic, partition, 1 + dice.randrange(0, MOST_RECORDS), DELIVERY_TIMEOUT_S
                )
            if self.kind.in_flight == 1 and sending is not None:
                await sending.decided
            await asyncio.sleep(pause_s * burst * (0.5 + dice.random()))

    async def write(
        self, topic: str, partition: int, count: int, *, within_s: float = DELIVERY_TIMEOUT_S
    ) -> bool:
        """Writes one batch of `count` values; returns whether it was acknowledged."""
        sending = await self._begin(topic, partition, count, within_s)
        return sending is not None and await sending.decided

    # --- queued ----------------------------------------------------------------------------------

    async def _begin(
        self, topic: str, partition: int, count: int, within_s: float
    ) -> Sending | None:
        """Appends a new batch to its queue; None if no producer id is available."""
        ends = self.client.clock.monotonic() + within_s
        await self._after_failures()
        line = self._lines.setdefault((topic, partition), Line())
        while len(line.sendings) >= (self.kind.in_flight if line.begun else 1):
            await self._next_move()
            await self._after_failures()
            line = self._lines.setdefault((topic, partition), Line())
        if not await self._has_producer_id(ends):
            return None
        values = [f"{self.name}.{self._count + index}" for index in range(count)]
        self._count += count
        sequence = self._sequence.get((topic, partition), 0)
        self._sequence[topic, partition] = sequence + count
        sending = Sending(
            topic=topic,
            partition=partition,
            ops=[self._sent(topic, partition, value) for value in values],
            batch=self._build(values, sequence),
            sequence=sequence,
            ends=ends,
            decided=asyncio.get_running_loop().create_future(),
        )
        line.sendings.append(sending)
        self.around.clock.spawn(self._deliver(sending, line), name=f"{self.name}/send")
        return sending

    async def _next_move(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _after_failures(self) -> None:
        """Gets a new producer id once all is decided, as Java's producer: a failed batch leaves a
        gap."""
        while any(line.broken for line in self._lines.values()):
            if any(line.sendings for line in self._lines.values()):
                await self._next_move()
                continue
            self._producer_id = -1
            self._sequence.clear()
            self._lines.clear()

    async def _has_producer_id(self, ends: float) -> bool:
        while self.kind.idempotent and self._producer_id < 0:
            if self.client.clock.monotonic() >= ends or self.stopping:
                return False
            try:
                await self._init()
            except WireError:
                await self._pause(RETRY_S)
        return True

    async def _init(self) -> None:
        if not self.client.brokers:
            await self.client.refresh([])
        dialect = self.client.dialect
        answer = dialect.read_producer_id(
            await self.client.ask(-1, ApiKey.INIT_PRODUCER_ID, dialect.init_producer_id())
        )
        if answer.error_code:
            raise WireError(f"InitProducerId: {ErrorCode(answer.error_code).name}")
        self._producer_id, self._epoch = answer.producer_id, answer.epoch

    def _build(self, values: list[str], sequence: int) -> bytes:
        writer = -1, -1, -1
        if self.kind.idempotent:
            writer = self._producer_id, self._epoch, sequence
        key = b"x" * self.kind.padding_bytes
        return self.client.dialect.build(values, key, self.client.now_ms, writer)

    # --- in flight -------------------------------------------------------------------------------

    async def _deliver(self, sending: Sending, line: Line) -> None:
        """Retries until the batch is decided or its time is over."""
        while self.client.clock.monotonic() < sending.ends and self._is_wanted(sending):
            is_next = line.is_next(sending)
            pause = RETRY_S
            try:
                code, offset = await self._try(sending)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._compare(sending, offset)
                    self._acknowledge(sending, line, offset)
                    return
                if not self._may_go_on(sending, line, code, is_next):
                    break
            except AckLost as lost:
                sending.tried, pause = True, lost.pause_s
            except WireError as wrong:
                sending.tried, sending.error = True, str(wrong)
            self.client.forget_leader(sending.topic, sending.partition)
            await self._pause(pause)
        self._fail(sending, line)

    def _is_wanted(self, sending: Sending) -> bool:
        return self._targets is None or (sending.topic, sending.partition) in self._targets

    async def _try(self, sending: Sending) -> tuple[ErrorCode, int]:
        """Sends the batch once; returns the answer's code and offset, -1 if unknown."""
        _, leader = await self.client.leader(sending.topic, sending.partition)
        dialect = self.client.dialect
        place = self.client.place(sending.topic, sending.partition)
        request = dialect.produce(place, self.kind.acks, sending.batch)
        wire = await self.client.wire(leader)
        if self.kind.acks == 0:
            wire.send_unanswered(ApiKey.PRODUCE, request)
            return ErrorCode.NONE, -1
        said = await wire.ask(ApiKey.PRODUCE, request, timeout_s=ASK_TIMEOUT_S)
        answer = dialect.read_produced(said)
        code = ErrorCode(answer.error_code)
        if not code and self.kind.lost_acks and self.around.dice.random() < self.kind.lost_acks:
            self._compare(sending, answer.base_offset)
            sending.offset = answer.base_offset
            wire.drop()
            raise AckLost(is_late=self.around.dice.random() < LATE)
        return code, answer.base_offset

    def _compare(self, sending: Sending, offset: int) -> None:
        """Checks that a batch has one offset, however often it is sent."""
        if 0 <= sending.offset != offset >= 0:
            self.around.complain(
                f"{self.name}: sequence {sending.sequence} of {sending.topic}-{sending.partition} "
                f"is at {offset}, and was acknowledged at {sending.offset} before"
            )

    def _may_go_on(self, sending: Sending, line: Line, code: ErrorCode, is_next: bool) -> bool:
        """Whether the batch may be retried after this error."""
        sending.error = code.name
        if code in OUT_OF_ORDER:
            if is_next and not self._may_be_forgotten(sending, line):
                self.around.complain(
                    f"{self.name} heard {code.name} for {sending.topic}-{sending.partition}, "
                    f"sequence {sending.sequence}, and all before it is acknowledged"
                )
            return not is_next and not line.broken
        sending.tried = sending.tried or code not in REFUSED
        return code in REFUSED or code in UNDECIDED

    def _may_be_forgotten(self, sending: Sending, line: Line) -> bool:
        """Whether all that was acknowledged is deleted. A replica copied anew after that knows
        nothing of the producer, as in Apache Kafka: as a leader it takes whichever of several
        batches in flight comes first as the producer's first (KIP-360)."""
        deleted = self.around.deleted_before(sending.topic, sending.partition)
        return 0 <= line.last_offset < deleted

    async def _pause(self, span_s: tuple[float, float]) -> None:
        low, high = span_s
        await asyncio.sleep(low + (high - low) * self.around.dice.random())

    # --- decided ---------------------------------------------------------------------------------

    def _sent(self, topic: str, partition: int, value: str) -> int:
        op = self.around.next_op()
        self.around.record(
            SendEvent(
                at_ms=self.client.now_ms, op=op, producer=self.name, topic=topic,
                partition=partition, value=value, acks=self.kind.acks,
                idempotent=self.kind.idempotent, ordered=True,
            )
        )  # fmt: skip
        return op

    def _acknowledge(self, sending: Sending, line: Line, offset: int) -> None:
        line.begun = True
        sending.offset = max(sending.offset, offset)
        self.acknowledged += len(sending.ops)
        for index, op in enumerate(sending.ops):
            found = offset + index if offset >= 0 else -1
            self.around.record(Ack(at_ms=self.client.now_ms, op=op, offset=found))
        self._decide(sending, line, True)

    def _fail(self, sending: Sending, line: Line) -> None:
        certain = not sending.tried
        for op in sending.ops:
            self.around.record(
                Fail(at_ms=self.client.now_ms, op=op, error=sending.error, certain=certain)
            )
        line.broken = True
        self._decide(sending, line, False)

    def _decide(self, sending: Sending, line: Line, acknowledged: bool) -> None:
        sending.decided.set_result(acknowledged)
        line.forget_decided()
        self._moved.set()
