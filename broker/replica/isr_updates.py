"""Sends proposed in-sync sets to the active controller: AlterPartition (56), KIP-497.

Sends one request at a time with all pending proposals, and reports the result to each partition. It
does not decide what is in sync, and does not resend a proposal that its partition has replaced.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock
from broker.clock.tasks import OnDemandTask
from broker.metrics.registry import Meter
from broker.peer.log_limiter import LogRateLimiter
from broker.replica.leader_state import IsrProposal
from broker.replica.partition import Partition
from broker.replica.port import ClusterAccess
from bus.client.wire.errors import PeerError, decoding_response
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataInRequest,
    PartitionDataInResponse,
    TopicDataInRequest,
)

log = logging.getLogger("broker.replica")

REQUEST_TIMEOUT_MS = 10_000
"""One attempt, including controller elections; proposals that are still pending are resent."""

RETRY_MS = 50
"""Kafka's; a controller that is being elected needs a few hundred milliseconds."""

MAX_PARTITIONS = 10_000
"""Partitions in one request; the rest goes with the next, so that requests stay bounded."""

_REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The set in force is unchanged, and another proposal may be made at once."""

_OUTDATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller knows more than we do. The proposal stays pending (both outcomes are possible for
the watermark) until the metadata that says so arrives; asking again would only be refused again."""

Item = tuple[Partition, IsrProposal]


class AlterPartitionManager:
    """Invariant: a partition has at most one item, and one request is on its way at most."""

    def __init__(self, broker_id: int, clock: Clock, cluster: ClusterAccess, failed: Meter) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._failed = failed
        self._log_limiter = LogRateLimiter()
        self._waiting: dict[tuple[bytes, int], Item] = {}
        self._task = OnDemandTask(clock, "alter-partition", self._run)

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send it with the next request."""
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        self._task.ensure_running()

    async def stop(self) -> None:
        """Stop sending."""
        await self._task.stop()

    async def _run(self) -> None:
        await self._clock.sleep(0)  # proposals of the same loop iteration go with it
        while items := self._next_items():
            again = await self._send(items)
            if again:
                for item in again:
                    self._waiting.setdefault((item[0].topic_id, item[0].index), item)
                await self._clock.sleep(RETRY_MS / 1000)

    def _next_items(self) -> list[Item]:
        """The proposals still pending, in the order in which they were made."""
        items: list[Item] = []
        for key in list(self._waiting)[:MAX_PARTITIONS]:
            partition, proposal = self._waiting.pop(key)
            if is_pending(partition, proposal):
                items.append((partition, proposal))
        if not items and self._waiting:
            return self._next_items()
        return items

    async def _send(self, items: list[Item]) -> list[Item]:
        """Send one request; returns the items to send again."""
        body = alter_partition_request(self._broker_id, self._cluster.broker_epoch(), items)
        try:
            response: AlterPartitionResponse = await self._cluster.controllers.request(
                ApiKey.ALTER_PARTITION, body, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except PeerError as error:
            if self._log_limiter.should_log(self._clock.monotonic()):
                log.info("no controller took %d ISR changes: %s", len(items), error)
            return items
        self._log_limiter.ended(self._clock.monotonic())
        if response.error_code:
            log.info("ISR changes refused: %s", ErrorCode.of(response.error_code).name)
            return items
        answers = {
            (topic.topic_id, data.partition_index): data
            for topic in response.topics
            for data in topic.partitions
        }
        again = []
        for partition, proposal in items:
            answer = answers.get((partition.topic_id, partition.index))
            try:
                with decoding_response("the controller"):
                    done = answer is not None and self._handle_response(partition, proposal, answer)
            except PeerError:
                done = False
            if not done:
                again.append((partition, proposal))
        return again

    def _handle_response(
        self, partition: Partition, proposal: IsrProposal, answer: PartitionDataInResponse
    ) -> bool:
        """Apply an answer to its partition; false if it has to be sent again."""
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.NONE:
            if answer.leader_epoch == partition.leader_epoch:
                partition.on_isr_stored(proposal, answer.isr, answer.partition_epoch)
            log.info(
                "%s-%d: in sync are %s (partition epoch %d)",
                partition.topic, partition.index, answer.isr, answer.partition_epoch,
            )  # fmt: skip
            return True
        self._failed.mark()
        log.info(
            "%s-%d: in-sync set %s refused: %s",
            partition.topic, partition.index, list(proposal.isr), error.name,
        )  # fmt: skip
        if error in _REFUSED:
            partition.on_isr_refused(proposal)
            return True
        return error in _OUTDATED


def is_pending(partition: Partition, proposal: IsrProposal) -> bool:
    """Whether this is still the partition's pending proposal."""
    leader = partition.leader_state
    return leader is not None and leader.pending is proposal


def alter_partition_request(
    broker_id: int, broker_epoch: int, items: list[Item]
) -> AlterPartitionRequest:
    """The wire form; version 2 takes the ids, version 3 the ids with their broker epochs."""
    topics: dict[bytes, TopicDataInRequest] = {}
    for partition, proposal in items:
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = TopicDataInRequest(topic_id=partition.topic_id, partitions=[])
            topics[partition.topic_id] = topic
        topic.partitions.append(
            PartitionDataInRequest(
                partition_index=partition.index,
                leader_epoch=proposal.leader_epoch,
                new_isr=list(proposal.isr),
                new_isr_with_epochs=[
                    BrokerState(
                        broker_id=replica,
                        broker_epoch=broker_epoch if replica == broker_id else epoch,
                    )
                    for replica, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
                ],
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
