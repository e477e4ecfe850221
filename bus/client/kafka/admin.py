"""Administration of the bus for applications: topics of the contract, topics and groups in general.

In: names. Out: frozen views. Raises BusError; every call is bounded by CLIENT_REQUEST_TIMEOUT_MS.
Never: the broker's own controller; this is a client like any other and works on Apache Kafka too.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import confluent_kafka
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from bus.client.admin.config_resources import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG
from bus.client.admin.wire_admin import WireAdmin
from bus.client.kafka.cluster import ClusterUnavailable, describe, describe_existing
from bus.client.kafka.config import admin_config
from bus.client.kafka.errors import bus_error
from bus.client.model import (
    BrokerDescription,
    ClusterDescription,
    ClusterIdentity,
    ConfigEntry,
    GroupDescription,
    MemberDescription,
    OffsetAndMetadata,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)
from bus.contracts.topics import ADDED_KEYS, Topic
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_REQUEST_TIMEOUT_MS
from bus.settings import BusSettings

Value = TypeVar("Value")

_TIMEOUT_S = CLIENT_REQUEST_TIMEOUT_MS / 1000
_BROKER_DEFAULT = -1
COORDINATOR_RETRY_S = 0.1
NO_LEADER_EPOCH = -1  # librdkafka does not say it


class Admin:
    """An administration client; every call ends within `timeout_s`."""

    def __init__(
        self,
        bus: BusSettings,
        *,
        client_id: str,
        timeout_s: float = _TIMEOUT_S,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._config = admin_config(bus, client_id, overrides)
        self._librdkafka: AdminClient | None = None  # some megabytes, for what hardly anybody asks
        self._wire = WireAdmin(bus, client_id, timeout_s)
        self._is_closed = False

    def close(self) -> None:
        """End its threads and connections; calls under way are given up, later ones raise
        RuntimeError.

        To be called before the interpreter ends: librdkafka's threads must not answer into one that
        is being taken down.
        """
        self._is_closed = True
        self._wire.close()
        if self._librdkafka is not None:
            self._librdkafka.__exit__(None, None, None)

    @property
    def _client(self) -> AdminClient:
        if self._is_closed:
            raise RuntimeError("the admin client is closed")
        if self._librdkafka is None:
            self._librdkafka = AdminClient(self._config)
        return self._librdkafka

    def wait_until_up(self, timeout_s: float) -> None:
        """Wait until a broker answers; BusError if none does in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            try:
                self._client.list_topics(timeout=max(0.1, min(left, 2.0)))
            except confluent_kafka.KafkaException as failure:
                if left <= 0:
                    raise bus_error(failure) from failure
            else:
                return

    def ensure_topics(self, topics: Iterable[Topic]) -> list[str]:
        """Create those topics of the contract that are missing; the names of the created ones.

        Existing topics are left as they are, even if their partitions or configuration differ:
        what a later contract has added, `add_configs` sets.
        """
        wanted = {topic.name: topic for topic in topics}
        missing = [topic for name, topic in wanted.items() if name not in set(self.topic_names())]
        created = []
        for topic in missing:
            try:
                self.create_topic(topic.name, topic.partitions, topic.configs)
            except BusError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another process was faster
                    raise
            else:
                created.append(topic.name)
        return created

    def add_configs(self, topics: Iterable[Topic]) -> list[str]:
        """Set on topics of the contract that are there what a later contract has added and nobody
        has set; the names of those that were changed. What an operator has set stays."""
        wanted = {topic.name: topic for topic in topics}
        there = wanted.keys() & set(self.topic_names())
        missing = {}
        for name, entries in self._topic_configs(sorted(there)).items():
            known = {one.name for one in entries if one.source == DYNAMIC_TOPIC_CONFIG}
            added = {k: v for k, v in wanted[name].configs.items() if k in ADDED_KEYS}
            if lacking := {key: value for key, value in added.items() if key not in known}:
                missing[name] = lacking
        self._alter_configs([_with_keys(name, keys) for name, keys in missing.items()])
        return sorted(missing)

    def replace_policy(self, topic: Topic) -> None:
        """Give a topic that is there the contract's policy of cleaning and retention, and take away
        what only tables have."""
        removed = [key for key in ADDED_KEYS if key not in topic.configs]
        self._alter_configs([_with_keys(topic.name, topic.configs, removed)])

    def _alter_configs(self, resources: list[ConfigResource]) -> None:
        if resources:
            answers = self._client.incremental_alter_configs(
                resources, request_timeout=self._timeout_s
            )
            for answer in answers.values():
                self._wait(answer)

    def create_topic(
        self,
        name: str,
        partitions: int = _BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = _BROKER_DEFAULT,
    ) -> None:
        """Create a topic; -1 leaves a number to the broker's default."""
        new = NewTopic(name, partitions, replication_factor, config=dict(configs or {}))
        self._wait(self._client.create_topics([new], request_timeout=self._timeout_s)[name])

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records."""
        self._wait(self._client.delete_topics([name], request_timeout=self._timeout_s)[name])

    def identity(self, topics: Iterable[str]) -> ClusterIdentity:
        """The ids of the cluster and of these topics, and their partitions."""
        try:
            return describe(self._client, topics)
        except ClusterUnavailable as error:
            raise BusError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def existing(self, topics: Iterable[str]) -> ClusterIdentity:
        """As `identity`, of those of these topics that are there."""
        wanted = list(topics)
        return self._ask(
            lambda wire: wire.existing(wanted), lambda: self._existing_by_librdkafka(wanted)
        )

    def _existing_by_librdkafka(self, topics: Iterable[str]) -> ClusterIdentity:
        try:
            return describe_existing(self._client, topics, self._timeout_s, None)
        except ClusterUnavailable as error:
            raise BusError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error

    def topic_names(self) -> list[str]:
        """All topics, internal ones included."""
        return sorted(self._metadata().topics)

    def describe_topic(self, name: str) -> TopicDescription:
        """One topic with the configuration that differs from the default, and its offsets."""
        partitions = _partitions(self._topic(name))
        places = [TopicPartition(name, partition.index) for partition in partitions]
        starts, ends = self.start_offsets(places), self.end_offsets(places)
        known = tuple(
            dataclasses.replace(
                p,
                log_start_offset=starts.get(TopicPartition(name, p.index), -1),
                end_offset=ends.get(TopicPartition(name, p.index), -1),
            )
            for p in partitions
        )
        return TopicDescription(name, b"", name.startswith("__"), known, self.topic_configs(name))

    def cluster(self) -> ClusterDescription:
        """Brokers and controller, without topics."""
        return self._ask(lambda wire: wire.cluster(), lambda: self.describe_cluster()[0])

    def describe_cluster(self) -> tuple[ClusterDescription, list[TopicDescription]]:
        """Brokers, controller and all topics by name, without configurations and offsets."""
        metadata = self._metadata()
        brokers = sorted(metadata.brokers.values(), key=lambda broker: int(broker.id))
        cluster = ClusterDescription(
            metadata.cluster_id or "",
            metadata.controller_id,
            tuple(BrokerDescription(b.id, b.host, b.port) for b in brokers),
        )
        topics = [
            TopicDescription(name, b"", name.startswith("__"), _partitions(topic))
            for name, topic in sorted(metadata.topics.items())
        ]
        return cluster, topics

    def all_topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Every key of these topics' configurations."""
        return {
            name: {entry.name: entry.value or "" for entry in entries}
            for name, entries in self._topic_configs(names).items()
        }

    def broker_configs(self, broker_id: int) -> dict[str, str]:
        """What is set in a broker's configuration, also for all brokers; no defaults."""
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        entries = self._ask(
            lambda wire: wire.broker_configs(broker_id),
            lambda: self._configs_by_librdkafka([resource])[resource.name],
        )
        return _set_values(entries)

    def topic_configs(self, name: str, *, defaults: bool = False) -> dict[str, str]:
        """The configuration of a topic: what was set, or everything."""
        entries = self._topic_configs([name])[name]
        return {e.name: e.value or "" for e in entries} if defaults else _set_values(entries)

    def _topic_configs(self, names: Iterable[str]) -> dict[str, list[ConfigEntry]]:
        wanted = list(names)
        return self._ask(
            lambda wire: wire.topic_configs(wanted),
            lambda: self._configs_by_librdkafka(
                [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
            ),
        )

    def _configs_by_librdkafka(
        self, resources: Sequence[ConfigResource]
    ) -> dict[str, list[ConfigEntry]]:
        if not resources:
            return {}
        answers = self._client.describe_configs([*resources], request_timeout=self._timeout_s)
        return {
            resource.name: sorted(map(_config_entry, self._wait(answer).values()), key=_by_name)
            for resource, answer in answers.items()
        }

    def start_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Log start offsets; partitions without a leader are left out."""
        wanted = list(places)
        return self._ask(
            lambda wire: wire.start_offsets(wanted),
            lambda: _known(self._offsets(wanted, OffsetSpec.earliest())),
        )

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """End offsets (exclusive); partitions without a leader are left out."""
        wanted = list(places)
        return self._ask(
            lambda wire: wire.end_offsets(wanted),
            lambda: _known(self._offsets(wanted, OffsetSpec.latest())),
        )

    def groups(self) -> list[str]:
        """The ids of all consumer groups."""
        return self._ask(lambda wire: wire.groups(), self._groups_by_librdkafka)

    def _groups_by_librdkafka(self) -> list[str]:
        answer = self._wait(self._client.list_consumer_groups(request_timeout=self._timeout_s))
        return sorted(listing.group_id for listing in answer.valid)

    def describe_group(self, group: str) -> GroupDescription:
        """One group with members, committed offsets and lag."""
        described, committed = self._described_with_offsets(group)
        ends = self.end_offsets(committed)
        lag = {place: ends[place] - at for place, at in committed.items() if place in ends}
        return _group(described, committed, lag)

    def describe_groups(self, groups: Iterable[str]) -> list[GroupDescription]:
        """These groups with members and committed offsets, without lag."""
        return [_group(*self._described_with_offsets(group), {}) for group in groups]

    def _described_with_offsets(
        self, group: str
    ) -> tuple[confluent_kafka.admin.ConsumerGroupDescription, dict[TopicPartition, int]]:
        """In this order, for the reason that `_await_coordinator` gives."""
        described = self._retry(lambda: self._described(group))
        return described, self.committed(group)

    def _described(self, group: str) -> confluent_kafka.admin.ConsumerGroupDescription:
        answers = self._client.describe_consumer_groups([group], request_timeout=self._timeout_s)
        return self._wait(answers[group])

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Committed offsets of a group. Waits for a coordinator that is just coming up."""
        return {place: found.offset for place, found in self.committed_offsets(group).items()}

    def committed_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same with their metadata."""
        return self._retry(
            lambda: self._ask(
                lambda wire: wire.committed_offsets(group),
                lambda: self._committed_by_librdkafka(group),
            )
        )

    def _committed_by_librdkafka(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        self._await_coordinator(group)
        request = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
        answers = self._client.list_consumer_group_offsets(request, request_timeout=self._timeout_s)
        places = self._wait(answers[group]).topic_partitions
        return {
            TopicPartition(p.topic, p.partition): OffsetAndMetadata(p.offset, p.metadata or "")
            for p in places
            if p.offset >= 0
        }

    def set_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group without members go on from these offsets. Waits for a coordinator that is
        just coming up."""
        self._retry(
            lambda: self._ask(
                lambda wire: wire.set_committed(group, offsets),
                lambda: self._alter_committed(group, offsets),
            )
        )

    def _await_coordinator(self, group: str) -> None:
        """librdkafka 2.16 ends the process (a null pointer in `rd_kafka_handle_OffsetFetch`) where
        an admin client that asks for offsets hears that the coordinator is another one or just
        loading. The same answer to a description is an error, so that is asked first."""
        try:
            self._retry(lambda: self._described(group))
        except BusError as error:
            if error.retriable:
                raise

    def _retry(self, ask: Callable[[], Value]) -> Value:
        """Again while the coordinator is coming up. Raises BusError."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask()
            except BusError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
                time.sleep(COORDINATOR_RETRY_S)

    def _alter_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        places = [confluent_kafka.TopicPartition(p.topic, p.partition, offset)
                  for p, offset in sorted(offsets.items())]  # fmt: skip
        request = [confluent_kafka.ConsumerGroupTopicPartitions(group, places)]
        answers = self._client.alter_consumer_group_offsets(
            request, request_timeout=self._timeout_s
        )
        for place in self._wait(answers[group]).topic_partitions:
            if place.error is not None:
                raise bus_error(place.error)

    def offsets_at(
        self, places: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a moment; the end where nothing is so new."""
        asked = list(places)
        found = self._offsets(asked, OffsetSpec.for_timestamp(timestamp_ms))
        ends = self.end_offsets([place for place, offset in found.items() if offset < 0])
        return {place: ends.get(place, offset) for place, offset in found.items()}

    def delete_group(self, group: str) -> None:
        """Delete a group that has no members."""
        answer = self._client.delete_consumer_groups([group], request_timeout=self._timeout_s)[
            group
        ]
        self._wait(answer)

    def _offsets(
        self, places: Iterable[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        asked = {confluent_kafka.TopicPartition(p.topic, p.partition): spec for p in places}
        if not asked:
            return {}
        answers = self._client.list_offsets(asked, request_timeout=self._timeout_s)
        return {
            TopicPartition(partition.topic, partition.partition): self._wait(answer).offset
            for partition, answer in answers.items()
        }

    def _ask(
        self, ours: Callable[[WireAdmin], Value], by_librdkafka: Callable[[], Value]
    ) -> Value:
        """By our own client; librdkafka logs in by more mechanisms, and is asked for those only."""
        try:
            return ours(self._wire)
        except BusError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
        return by_librdkafka()

    def _topic(self, name: str) -> confluent_kafka.admin.TopicMetadata:
        """Out of the list of all topics: asking for one by name may create it."""
        topic = self._metadata().topics.get(name)
        if topic is None:
            raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        if topic.error is not None:
            raise bus_error(topic.error)
        return topic

    def _metadata(self) -> confluent_kafka.admin.ClusterMetadata:
        try:
            return self._client.list_topics(timeout=self._timeout_s)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure

    def _wait(self, answer: Future[Value]) -> Value:
        """The result of one of confluent-kafka's futures."""
        try:
            return answer.result(self._timeout_s)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        except TimeoutError:
            raise BusError(ErrorCode.REQUEST_TIMED_OUT, self._bus.bootstrap_servers) from None


def _known(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Without what librdkafka has no answer for: it gives -1, and no error, for a partition whose
    leader went away while it was being asked."""
    return {place: offset for place, offset in offsets.items() if offset >= 0}


def _config_entry(one: confluent_kafka.admin.ConfigEntry) -> ConfigEntry:
    return ConfigEntry(one.name, one.value, one.source, one.is_read_only, one.is_sensitive)


def _by_name(entry: ConfigEntry) -> str:
    return entry.name


def _set_values(entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """Without defaults."""
    return {one.name: one.value or "" for one in entries if one.source != DEFAULT_CONFIG}


def _with_keys(topic: str, keys: Mapping[str, str], removed: Sequence[str] = ()) -> ConfigResource:
    changes = [(key, value, AlterConfigOpType.SET) for key, value in keys.items()]
    changes += [(key, "", AlterConfigOpType.DELETE) for key in removed]
    entries = [
        confluent_kafka.admin.ConfigEntry(key, value, incremental_operation=operation)
        for key, value, operation in changes
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _partitions(topic: confluent_kafka.admin.TopicMetadata) -> tuple[PartitionDescription, ...]:
    return tuple(
        PartitionDescription(p.id, p.leader, NO_LEADER_EPOCH, tuple(p.replicas), tuple(p.isrs))
        for _, p in sorted(topic.partitions.items())
    )


def _group(
    described: confluent_kafka.admin.ConsumerGroupDescription,
    committed: dict[TopicPartition, int],
    lag: dict[TopicPartition, int],
) -> GroupDescription:
    return GroupDescription(
        group=described.group_id,
        state=described.state.name.lower(),
        protocol=described.partition_assignor or "",
        members=tuple(_member(member) for member in described.members),
        committed=committed,
        lag=lag,
    )


def _member(member: confluent_kafka.admin.MemberDescription) -> MemberDescription:
    assigned = member.assignment.topic_partitions if member.assignment else []
    places = tuple(TopicPartition(p.topic, p.partition) for p in assigned)
    return MemberDescription(member.member_id, member.client_id, member.host, places)
