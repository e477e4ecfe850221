"""One producer of the mirror at an ordinary target, and its transactions where there are any.

In: partitions that take part. Out: a producer id and epoch, committed transactions. Never: a
decision what to do after a failure; the next `init_producer_id` ends whatever was open, and says
the same for a transaction whose outcome was not heard.

Protocol: that of `transaction.version` 1, which every Kafka since 0.11 serves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.errors import PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from bus.protocol.generated.end_txn import EndTxnRequest
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.init_producer_id import InitProducerIdRequest
from bus.protocol.wire import RequestMessage, ResponseT
from dr_mirror.copy.context import CopyContext
from dr_mirror.produce.plan.produce_errors import ASK_AGAIN, FENCING, FIND_AGAIN, produce_state
from dr_mirror.produce.plan.rewrite import BatchProducer
from dr_mirror.topics.states import MirrorState

TRANSACTION = 1  # the type of key in FindCoordinator
TRANSACTION_TIMEOUT_MS = 60_000
"""The coordinator aborts what a dead mirror left open after this, if none comes after it."""
TIMEOUT_MS = 10_000
PATIENCE_S = 40.0
"""For a coordinator that is busy or moves: longer than an election, shorter than a transaction."""
FIRST_WAIT_S, BUSY_WAIT_S, LONGEST_WAIT_S = 0.004, 0.016, 0.5
"""After a commit the markers of the last transaction take some milliseconds; Java waits 20."""
INIT_VERSION, ADD_VERSION, END_VERSION = 4, 3, 4
"""The newest versions for clients of transaction.version 1."""


class ProducerFenced(Exception):
    """Another process has the transactional id, or the transaction took too long."""


class TransactionFailed(Exception):
    """The transaction cannot go on."""

    def __init__(self, state: MirrorState, detail: str) -> None:
        super().__init__(detail)
        self.state = state
        self.detail = detail


class TransactionManager:
    """Invariant: `producer` is set while nothing is known to have failed since it was given."""

    def __init__(
        self,
        context: CopyContext,
        transactional_id: str | None,
    ) -> None:
        """`transactional_id` None: the target has no transactions; the producer is idempotent."""
        self._context = context
        self.transactional_id = transactional_id
        self._coordinator: int | None = None
        self.producer: BatchProducer | None = None

    async def init_producer_id(self) -> None:
        """A fresh epoch; ends what this id has open, waits for what it is committing. Raises
        ProducerFenced, TransactionFailed."""
        self.producer = None
        request = InitProducerIdRequest(self.transactional_id, TRANSACTION_TIMEOUT_MS)
        answer = await self._ask(
            ApiKey.INIT_PRODUCER_ID, request, INIT_VERSION, lambda found: found.error_code
        )
        self.producer = BatchProducer(
            answer.producer_id, answer.producer_epoch, self.transactional_id is not None
        )

    async def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """A transaction with these partitions; `producer` must be set."""
        if self.transactional_id is None or self.producer is None:
            return
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in by_topic.items()],
        )
        await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, ADD_VERSION, _worst_code)

    async def commit(self) -> None:
        """End it; asked again until an answer comes, since a commit may be repeated."""
        if self.transactional_id is None or self.producer is None:
            return
        request = EndTxnRequest(
            self.transactional_id, self.producer.producer_id, self.producer.epoch, committed=True
        )
        await self._ask(ApiKey.END_TXN, request, END_VERSION, lambda found: found.error_code)

    async def _ask(
        self,
        api_key: int,
        request: RequestMessage[ResponseT],
        max_version: int,
        code_of: Callable[[ResponseT], int],
    ) -> ResponseT:
        clock = self._context.clock
        deadline, wait_s = clock.monotonic() + PATIENCE_S, FIRST_WAIT_S
        while True:
            detail = ""
            try:
                channel = await self._channel()
                answer = await channel.request(
                    api_key, request, timeout_ms=TIMEOUT_MS, max_version=max_version
                )
                code = ErrorCode.of(code_of(answer))
            except PeerError as error:
                if error.kind is PeerErrorKind.UNSUPPORTED_VERSION:
                    raise TransactionFailed(MirrorState.NOT_ALLOWED, str(error)) from None
                code, detail = ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
            except _NoCoordinator as error:
                code, detail = error.code, error.detail
            if code == ErrorCode.NONE:
                return answer
            if code in FENCING:
                raise ProducerFenced(code.name)
            if code in FIND_AGAIN:
                self._coordinator = None
            is_passing = code in FIND_AGAIN or code in ASK_AGAIN
            if not is_passing or clock.monotonic() > deadline:
                raise TransactionFailed(*produce_state(code, detail))
            await clock.sleep(wait_s)
            longest_s = BUSY_WAIT_S if code == ErrorCode.CONCURRENT_TRANSACTIONS else LONGEST_WAIT_S
            wait_s = min(wait_s * 2, longest_s)

    async def _channel(self) -> PeerChannel:
        node = self._coordinator
        if node is None:
            node = self._coordinator = await self._find_coordinator()
        return self._context.target.channel(node, "transactions", pipelined=True)

    async def _find_coordinator(self) -> int:
        """Any broker where there are no transactions. Raises PeerError, _NoCoordinator."""
        nodes = list(self._context.copied.target_nodes)
        if not nodes:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            raise _NoCoordinator(code, "no broker of the target")
        asked = nodes[int(self._context.clock.random.random() * len(nodes))]
        if self.transactional_id is None:
            return asked
        answer = await self._context.target.channel(asked, "transactions", pipelined=True).request(
            ApiKey.FIND_COORDINATOR,
            FindCoordinatorRequest("", TRANSACTION, [self.transactional_id]),
            timeout_ms=TIMEOUT_MS,
        )  # fmt: skip
        found = answer.coordinators[0]
        if found.error_code:
            raise _NoCoordinator(ErrorCode.of(found.error_code), found.error_message or "")
        return found.node_id


class _NoCoordinator(Exception):
    def __init__(self, code: ErrorCode, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def _worst_code(answer: AddPartitionsToTxnResponse) -> int:
    """One that says why, before those that were not attempted because of it."""
    codes = [
        one.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ]
    failed = [code for code in codes if code]
    attempted = [code for code in failed if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter(attempted or failed), 0)
