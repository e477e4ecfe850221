"""Asking the active controller for other in-sync sets: AlterPartition (56), KIP-497.

In: proposals of partitions. Out: one request at a time with all that wait, and each partition told
what became of its proposal. Never: what should be in sync; and nothing is sent twice for a
partition that has moved on meanwhile.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock
from broker.clock.tasks import Errand
from broker.metrics.registry import Meter
from broker.peer.errors import PeerError, making_sense_of
from broker.peer.silence import Silence
from broker.replica.leadership import IsrProposal
from broker.replica.partition import Partition
from broker.replica.port import Cluster
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
"""One attempt over all elections the link sits out; proposals that are still right go again."""

RETRY_MS = 50
"""Kafka's; a controller that is being elected needs a few hundred milliseconds."""

MAX_PARTITIONS = 10_000
"""Partitions in one request; the rest goes with the next, so that no request grows too large."""

_REFUSED = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""The set in force is what it was, and another proposal may be made at once."""

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


class AlterPartitions:
    """Invariant: a partition has at most one item, and one request is on its way at most."""

    def __init__(self, broker_id: int, clock: Clock, cluster: Cluster, failed: Meter) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._cluster = cluster
        self._failed = failed
        self._silence = Silence()
        self._waiting: dict[tuple[bytes, int], Item] = {}
        self._errand = Errand(clock, "alter-partition", self._run)

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Ask for it as soon as may be."""
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        self._errand.begin()

    async def stop(self) -> None:
        """Ask no more."""
        await self._errand.stop()

    async def _run(self) -> None:
        await self._clock.sleep(0)  # whatever is proposed in the same turn goes along
        while items := self._take():
            again = await self._ask(items)
            if again:
                for item in again:
                    self._waiting.setdefault((item[0].topic_id, item[0].index), item)
                await self._clock.sleep(RETRY_MS / 1000)

    def _take(self) -> list[Item]:
        """What is still wanted, in the order in which it was proposed."""
        items: list[Item] = []
        for key in list(self._waiting)[:MAX_PARTITIONS]:
            partition, proposal = self._waiting.pop(key)
            if is_pending(partition, proposal):
                items.append((partition, proposal))
        if not items and self._waiting:
            return self._take()
        return items

    async def _ask(self, items: list[Item]) -> list[Item]:
        """One request; the items to ask for again."""
        body = request_of(self._broker_id, self._cluster.broker_epoch(), items)
        try:
            response: AlterPartitionResponse = await self._cluster.controllers.request(
                ApiKey.ALTER_PARTITION, body, timeout_ms=REQUEST_TIMEOUT_MS
            )
        except PeerError as error:
            if self._silence.worth_saying(self._clock.monotonic()):
                log.info("no controller took %d ISR changes: %s", len(items), error)
            return items
        self._silence.ended(self._clock.monotonic())
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
                with making_sense_of("the controller"):
                    done = answer is not None and self._settle(partition, proposal, answer)
            except PeerError:
                done = False
            if not done:
                again.append((partition, proposal))
        return again

    def _settle(
        self, partition: Partition, proposal: IsrProposal, answer: PartitionDataInResponse
    ) -> bool:
        """Carry an answer out; false if it has to be asked again."""
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
    """Whether the partition still waits for just this proposal."""
    leadership = partition.leadership
    return leadership is not None and leadership.pending is proposal


def request_of(broker_id: int, broker_epoch: int, items: list[Item]) -> AlterPartitionRequest:
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
