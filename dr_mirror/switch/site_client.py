"""One of the two clusters as a switch sees it: its site epoch, topics, ends, and changes there.

In: bootstrap servers. Out: answers as values. Blocking. Raises BusError; EpochRefused where another
site epoch is in force. Core: `bus.domain.site_epochs`. Never: a change of a topic without the
site epoch as its condition, in the same request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bus.client.admin.cluster_admin import ClusterAdmin, ClusterView
from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.client.admin.leader_requests import LeaderRequests
from bus.client.admin.queries import raise_for_error
from bus.client.model import TopicPartition
from bus.contracts.mirror import SOURCE_CLUSTER_KEY, SOURCE_TOPIC_KEY
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    ConfirmedBy,
    SiteConfirmation,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, SiteEpoch
from bus.contracts.topics import TOPICS, Topic
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from bus.records.build import build_batch
from bus.records.codecs import Compression
from bus.records.record import Record
from bus.settings import BusSettings
from dr_mirror.topics.topics import MirrorTopic, mirror_topic

CLIENT_ID = "databus-mirror-switch"
CONNECT_TIMEOUT_MS = 3_000
REQUEST_TIMEOUT_MS = 15_000
PRODUCE_TIMEOUT_MS = 10_000
ALL_REPLICAS = -1
RETRY_S = 0.1

Result = TypeVar("Result")


def mirror_of(cluster_id: str) -> ConfigChanges:
    """Makes topics mirrors of that cluster's; the mirror says of which topic once it copies it."""
    return [
        (SOURCE_CLUSTER_KEY, AlterConfigOp.SET, cluster_id),
        (SOURCE_TOPIC_KEY, AlterConfigOp.DELETE, None),
    ]


class EpochRefused(Exception):
    """The cluster has another site epoch; the text says which, and by whom."""


def retried(call: Callable[[], Result], timeout_s: float) -> Result:
    """Repeat while the cluster moves its leaders or controller. Raises the last BusError."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return call()
        except BusError as error:
            is_passing = error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
            if not is_passing or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_S)


class SiteClient:
    """What a switch does at a site beside `admin` and `leaders`. `name`: the operator's for it."""

    def __init__(self, name: str, bus: BusSettings) -> None:
        self.name = name
        self.admin = ClusterAdmin(
            bus, CLIENT_ID, connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self.leaders = LeaderRequests(self.admin.client)

    @property
    def view(self) -> ClusterView:
        """The cluster's newest answer."""
        return self.leaders.view

    @property
    def cluster_id(self) -> str:
        """Its id; empty before `refresh`."""
        return self.view.cluster_id

    def close(self) -> None:
        """Close the connections."""
        self.admin.close()

    def refresh(self) -> None:
        """Ask for brokers, topics and leaders."""
        self.leaders.view = self.admin.view()

    def confirm(self, confirmation: SiteConfirmation) -> None:
        """Raises EpochRefused where another site epoch is in force there by now, BusError."""
        try:
            self.admin.confirm(confirmation)
        except BusError as error:
            raise self._refused(error) from None

    def topics(self) -> dict[str, MirrorTopic]:
        """All topics with their effective configurations, as they are now."""
        self.refresh()
        found = self.admin.with_configs(self.view, list(self.view.topics))
        return {name: mirror_topic(topic) for name, topic in found.items()}

    def serves_mirror(self) -> bool:
        """Whether these addresses are those of a listener for a mirror."""
        return self.admin.supports(ApiKey.MIRROR_APPEND)

    def change(
        self,
        epoch: SiteEpoch,
        topics: Mapping[str, ConfigChanges],
        *,
        confirms: bool = False,
    ) -> None:
        """Set the site epoch, and these topics' keys only if it is in force. Raises EpochRefused.
        `confirms`: this cluster is the primary by it, and takes records of what it copies out.

        Repeating it is harmless. Many topics go in several requests, each under the epoch.
        """
        own = [(SITE_EPOCH_KEY, AlterConfigOp.SET, epoch.text)]
        if confirms:
            own.append((SITE_CONFIRMATION_KEY, AlterConfigOp.SET, _confirmation(epoch).text))
        try:
            self.admin.alter_topics(topics, cluster=own)
        except BusError as error:
            raise self._refused(error) from None

    def _refused(self, error: BusError) -> BusError | EpochRefused:
        """What a change under a site epoch has met."""
        if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
            return error
        return EpochRefused(f"{self.name}: {error.detail}")

    def free(self, topic: str) -> None:
        """It is a copy no longer; under the site epoch in force, where there ever was one. Raises
        BusError, EpochRefused."""
        unset: ConfigChanges = [(SOURCE_CLUSTER_KEY, AlterConfigOp.DELETE, None)]
        epoch = self.admin.site_epoch()
        if epoch is not None:
            self.change(epoch, {topic: unset})
        else:
            self.admin.alter_topics({topic: unset})

    def produce(self, topic: str, records: Sequence[Record]) -> None:
        """One batch to the only partition of a topic of our contract, which is made where it is
        missing; all replicas in sync have it then. Raises BusError, after which the next call asks
        who leads."""
        partition = TopicPartition(topic, 0)
        leader = self.leaders.leader_of(partition)
        if leader is None:
            leader = self._leader_of_contract(partition)
        batch = build_batch(records, compression=Compression.LZ4)
        one = TopicProduceData(
            topic, self.view.topics[topic].topic_id, [PartitionProduceData(0, batch)]
        )
        request = ProduceRequest(None, ALL_REPLICAS, PRODUCE_TIMEOUT_MS, [one])
        try:
            answer = self.admin.client.request_node(leader, ApiKey.PRODUCE, request)
            raise_for_error(answer.responses[0].partition_responses[0].error_code, topic)
        except BusError:
            self.refresh()
            raise

    def _leader_of_contract(self, partition: TopicPartition) -> int:
        """Raises BusError LEADER_NOT_AVAILABLE, which passes, while it has none."""
        self.refresh()
        contract = TOPICS[partition.topic]
        if contract.name not in self.view.topics:
            self._create(contract)
            self.refresh()
        leader = self.leaders.leader_of(partition)
        if leader is None:
            raise BusError(ErrorCode.LEADER_NOT_AVAILABLE, contract.name)
        return leader

    def _create(self, contract: Topic) -> None:
        """A broker that does not know of it yet has said that it is missing, perhaps."""
        try:
            self.admin.create_topic(
                contract.name, contract.partitions, configs=contract.configs
            )
        except BusError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def _confirmation(epoch: SiteEpoch) -> SiteConfirmation:
    reason = f"{epoch.kind.value} switch to this site"
    return SiteConfirmation(epoch.number, ConfirmedBy.SWITCH, epoch.at_ms, epoch.who, reason)
