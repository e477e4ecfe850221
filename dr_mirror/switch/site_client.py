"""One of the two clusters as a switch sees it: its site epoch, topics, ends, and changes there.

In: bootstrap servers. Out: answers as values. Blocking. Raises BusError; EpochRefused where another
site epoch is in force. Core: `bus.domain.site_epochs`. Never: a change of a topic without the
site epoch as its condition, in the same request.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bus.client.admin import commands
from bus.client.admin.config_resources import BROKER, TOPIC, AlterConfigOp, ConfigChanges
from bus.client.admin.queries import raise_for_error
from bus.client.admin.site_keys import SiteKeys
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    ConfirmedBy,
    SiteConfirmation,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, SiteEpoch
from bus.contracts.topics import TOPICS, Topic
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from bus.protocol.generated.describe_producers import DescribeProducersRequest, TopicRequest
from bus.protocol.generated.list_groups import ListGroupsRequest
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    PartitionMirrorAppend,
    TopicMirrorAppend,
)
from bus.protocol.generated.mirror_truncate import (
    MirrorTruncateRequest,
    PartitionMirrorTruncate,
    TopicMirrorTruncate,
)
from bus.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from bus.records.build import build_batch
from bus.records.codecs import Compression
from bus.records.record import Record
from bus.settings import BusSettings
from dr_mirror.copy.cluster_admin import TOPICS_AT_ONCE, ClusterAdmin, ClusterView
from dr_mirror.copy.plan.fetch_session import FetchFrom, one_fetch
from dr_mirror.copy.plan.requests import (
    EARLIEST,
    LATEST,
    commit_of_group,
    committed_offsets,
    offsets_of_groups,
)
from dr_mirror.groups.plan.groups import GroupOffsets
from dr_mirror.topics.topics import MirrorTopic

CLIENT_ID = "databus-mirror-switch"
CONNECT_TIMEOUT_MS = 3_000
REQUEST_TIMEOUT_MS = 15_000
CLAIM_TIMEOUT_MS = 10_000
PRODUCE_TIMEOUT_MS = 10_000
ALL_REPLICAS = -1
FETCH_BYTES = 4 * 1024 * 1024
RETRY_S = 0.1

Result = TypeVar("Result")
ByLeader = dict[int, dict[str, list[int]]]


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
    """Invariant: `view` is the cluster's newest answer; `name` is what the operator calls it."""

    def __init__(self, name: str, bus: BusSettings) -> None:
        self.name = name
        self._admin = ClusterAdmin(bus, CLIENT_ID)
        self._client = SyncClient.of(
            bus, CLIENT_ID, connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )  # fmt: skip
        self.view = ClusterView("", {}, {})

    @property
    def cluster_id(self) -> str:
        """Its id; empty before `refresh`."""
        return self.view.cluster_id

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()
        self._client.close()

    def refresh(self) -> None:
        """Ask for brokers, topics and leaders."""
        self.view = self._admin.view()

    def site_epoch(self) -> SiteEpoch | None:
        """The one in force there."""
        return self._admin.site_epoch()

    def site_keys(self) -> SiteKeys:
        """The one in force there, and who has confirmed it."""
        return self._admin.site_keys()

    def confirm(self, confirmation: SiteConfirmation) -> None:
        """Raises EpochRefused where another site epoch is in force there by now, BusError."""
        try:
            self._admin.confirm(confirmation)
        except BusError as error:
            if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
                raise
            raise EpochRefused(f"{self.name}: {error.detail}") from None

    def topics(self) -> dict[str, MirrorTopic]:
        """All topics with their effective configurations, as they are now."""
        self.refresh()
        return self._admin.with_configs(self.view, list(self.view.topics))

    def serves_mirror(self) -> bool:
        """Whether these addresses are those of a listener for a mirror."""
        return self._client.supports(ApiKey.MIRROR_APPEND)

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
        names = sorted(topics)
        chunks = [names[at : at + TOPICS_AT_ONCE] for at in range(0, len(names), TOPICS_AT_ONCE)]
        for chunk in chunks or [[]]:
            self._change(epoch, {name: topics[name] for name in chunk}, confirms)

    def _change(
        self, epoch: SiteEpoch, topics: Mapping[str, ConfigChanges], confirms: bool
    ) -> None:
        own = [(SITE_EPOCH_KEY, AlterConfigOp.SET, epoch.text)]
        if confirms:
            own.append((SITE_CONFIRMATION_KEY, AlterConfigOp.SET, _confirmation(epoch).text))
        of_topics = {(TOPIC, name): changes for name, changes in topics.items()}
        request = commands.alter_configs_request({(BROKER, ""): own, **of_topics})
        answer = self._client.request_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        for result in answer.responses:
            if result.error_code == ErrorCode.INVALID_UPDATE_VERSION:
                raise EpochRefused(f"{self.name}: {result.error_message}")
            detail = f"{result.resource_name}: {result.error_message}"
            raise_for_error(result.error_code, detail)

    def nodes_without(self, topics: Sequence[str], key: str, value: str) -> list[int]:
        """Brokers that know another value of this key for one of the topics, or do not answer. One
        that does not live is none of them: it reads the metadata before it serves."""
        return [node for node in self.view.nodes if not self._all_have(node, topics, key, value)]

    def _all_have(self, node: int, topics: Sequence[str], key: str, value: str) -> bool:
        for at in range(0, len(topics), TOPICS_AT_ONCE):
            request = DescribeConfigsRequest(resources=[
                DescribeConfigsResource(TOPIC, name, [key])
                for name in topics[at : at + TOPICS_AT_ONCE]
            ])  # fmt: skip
            try:
                answer = self._client.request_node(node, ApiKey.DESCRIBE_CONFIGS, request)
            except BusError as error:
                if not (error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE):
                    raise
                return False
            for result in answer.results:
                if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # deleted meanwhile: nobody commits there
                if value not in [one.value for one in result.configs if one.name == key]:
                    return False
        return True

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks; a partition without a leader that answers is left out."""
        return self._offsets(partitions, LATEST)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Log starts, in the same way."""
        return self._offsets(partitions, EARLIEST)

    def free(self, topic: str) -> None:
        """It is a copy no longer; under the site epoch in force, where there ever was one. Raises
        BusError, EpochRefused."""
        unset: ConfigChanges = [(SOURCE_CLUSTER_KEY, AlterConfigOp.DELETE, None)]
        epoch = self.site_epoch()
        if epoch is not None:
            self.change(epoch, {topic: unset})
        else:
            commands.alter_configs(self._client, {(TOPIC, topic): unset})

    def delete(self, topic: str) -> None:
        """Raises BusError."""
        commands.delete_topic(self._client, topic)

    def _offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for leader, topics in self._by_leader(partitions).items():
            request = ListOffsetsRequest(-1, 0, [
                ListOffsetsTopic(name, [ListOffsetsPartition(n, -1, timestamp) for n in parts])
                for name, parts in topics.items()
            ])  # fmt: skip
            for partition, one in self._ask(leader, ApiKey.LIST_OFFSETS, request):
                if not one.error_code:
                    found[partition] = int(one.offset)
        return found

    def claim(
        self, partitions: Iterable[TopicPartition], source_cluster_id: str, generation: int
    ) -> dict[TopicPartition, Any]:
        """What each leader answers to a claim of the mirror: it says where its log ends, or why it
        takes none. A partition without a leader that answers is left out."""
        found: dict[TopicPartition, Any] = {}
        for leader, topics in self._by_leader(partitions).items():
            request = MirrorAppendRequest(source_cluster_id, generation, CLAIM_TIMEOUT_MS, [
                TopicMirrorAppend(name, [PartitionMirrorAppend(index) for index in parts])
                for name, parts in topics.items()
            ])  # fmt: skip
            found.update(self._ask(leader, ApiKey.MIRROR_APPEND, request))
        return found

    def producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[Any]]:
        """Producers that each leader remembers."""
        found: dict[TopicPartition, list[Any]] = {}
        for leader, topics in self._by_leader(partitions).items():
            request = DescribeProducersRequest([
                TopicRequest(name, parts) for name, parts in topics.items()
            ])  # fmt: skip
            for partition, one in self._ask(leader, ApiKey.DESCRIBE_PRODUCERS, request):
                if not one.error_code:
                    found[partition] = one.active_producers
        return found

    def fetch(self, partition: TopicPartition, position: int) -> memoryview:
        """Batches below the high watermark, from the one that holds `position` on. Raises
        BusError."""
        [leader] = self._by_leader([partition])
        key = self.view.topics[partition.topic].topic_id, partition.partition
        start = FetchFrom(partition.topic, position)
        request = one_fetch(key, start, max_bytes=FETCH_BYTES)
        answer = self._client.request_node(leader, ApiKey.FETCH, request)
        raise_for_error(answer.error_code, partition.topic)
        data = answer.responses[0].partitions[0]
        raise_for_error(data.error_code, f"{partition.topic}-{partition.partition}")
        return memoryview(data.records or b"")

    def truncate(
        self, partition: TopicPartition, source_cluster_id: str, generation: int,
        claim: Any, offset: int,
    ) -> Any:  # fmt: skip
        """The leader's answer to a cut at `offset`, while its log ends as `claim` says. Raises
        BusError."""
        [leader] = self._by_leader([partition])
        one = PartitionMirrorTruncate(
            partition.partition, claim.leader_epoch, claim.log_end_offset, offset
        )
        request = MirrorTruncateRequest(
            source_cluster_id, generation, [TopicMirrorTruncate(partition.topic, [one])]
        )
        answer = self._client.request_node(leader, ApiKey.MIRROR_TRUNCATE, request)
        return answer.topics[0].partitions[0]

    def groups(self) -> dict[str, tuple[int, GroupOffsets]]:
        """Every group with its coordinator and what it has committed. Raises BusError."""
        found: dict[str, tuple[int, GroupOffsets]] = {}
        names = {topic.topic_id: name for name, topic in self.view.topics.items()}
        for node in self.view.nodes:
            listed = self._client.request_node(node, ApiKey.LIST_GROUPS, ListGroupsRequest())
            groups = [one.group_id for one in listed.groups]
            if not groups:
                continue
            request = offsets_of_groups(groups)
            answer = self._client.request_node(node, ApiKey.OFFSET_FETCH, request)
            for group, offsets in committed_offsets(answer, names).items():
                found[group] = node, offsets
        return found

    def commit(
        self, group: str, node: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """As nobody's member: refused where the group has members. Raises BusError."""
        ids = {name: topic.topic_id for name, topic in self.view.topics.items()}
        request = commit_of_group(group, offsets, ids)
        answer = self._client.request_node(node, ApiKey.OFFSET_COMMIT, request)
        for topic in answer.topics:
            for result in topic.partitions:
                raise_for_error(result.error_code, group)

    def append(
        self,
        partition: TopicPartition,
        source_cluster_id: str,
        generation: int,
        base_offset: int,
        records: bytes,
    ) -> Any:
        """The leader's answer to one mirrored append. Raises BusError."""
        [leader] = self._by_leader([partition])
        one = PartitionMirrorAppend(partition.partition, base_offset=base_offset, records=records)
        request = MirrorAppendRequest(
            source_cluster_id, generation, CLAIM_TIMEOUT_MS,
            [TopicMirrorAppend(partition.topic, [one])],
        )  # fmt: skip
        answer = self._client.request_node(leader, ApiKey.MIRROR_APPEND, request)
        return answer.topics[0].partitions[0]

    def produce(self, topic: str, records: Sequence[Record]) -> None:
        """One batch to the only partition of a topic of our contract, which is made where it is
        missing; all replicas in sync have it then. Raises BusError, after which the next call asks
        who leads."""
        partition = TopicPartition(topic, 0)
        leader = next(iter(self._by_leader([partition])), None)
        if leader is None:
            leader = self._leader_of_contract(partition)
        batch = build_batch(records, compression=Compression.LZ4)
        one = TopicProduceData(
            topic, self.view.topics[topic].topic_id, [PartitionProduceData(0, batch)]
        )
        request = ProduceRequest(None, ALL_REPLICAS, PRODUCE_TIMEOUT_MS, [one])
        try:
            answer = self._client.request_node(leader, ApiKey.PRODUCE, request)
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
        for leader in self._by_leader([partition]):
            return leader
        raise BusError(ErrorCode.LEADER_NOT_AVAILABLE, contract.name)

    def _create(self, contract: Topic) -> None:
        """A broker that does not know of it yet has said that it is missing, perhaps."""
        try:
            commands.create_topic(
                self._client, contract.name, partitions=contract.partitions,
                configs=contract.configs,
            )  # fmt: skip
        except BusError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    def _ask(
        self, leader: int, api_key: int, request: object
    ) -> Sequence[tuple[TopicPartition, Any]]:
        try:
            answer = self._client.request_node(leader, api_key, request)
        except BusError as error:
            if not (error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE):
                raise
            return []
        return list(_partitions_of(answer))

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> ByLeader:
        leaders = {
            TopicPartition(name, each.index): each.leader
            for name, topic in self.view.topics.items()
            for each in topic.partitions
        }
        found: ByLeader = defaultdict(lambda: defaultdict(list))
        for partition in partitions:
            leader = leaders.get(partition, -1)
            if leader >= 0:
                found[leader][partition.topic].append(partition.partition)
        return found


def _confirmation(epoch: SiteEpoch) -> SiteConfirmation:
    reason = f"{epoch.kind.value} switch to this site"
    return SiteConfirmation(epoch.number, ConfirmedBy.SWITCH, epoch.at_ms, epoch.who, reason)


def _partitions_of(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.topics:
        for one in topic.partitions:
            index = one.partition_index if hasattr(one, "partition_index") else one.index
            yield TopicPartition(topic.name, index), one
