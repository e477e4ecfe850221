"""What a client is told that may not do what it asks for, beside Apache Kafka 4.4.

Every API that a client may send, under one denial after the other: the same requests go to both,
and the errors of their answers are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.handlers.registry import SERVED, advertised_ranges
from bus.errors import ErrorCode
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import decode_response
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka import start_kafka
from tests.broker.handlers.test_every_version import FrameSocket

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}
ANONYMOUS = "User:ANONYMOUS"
SENTINEL = "denied-now"
"""A topic that nobody may see while the ACLs of a case are in force."""
READY_S = 30.0
OF_TOPICS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
OF_GROUPS = ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
OF_CLUSTER = ("CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE")
"""CLUSTER_ACTION is what Kafka's own broker needs, which is ANONYMOUS here as well. ALTER comes last:
without it no ACL can be taken away again."""
CASES: list[tuple[str, list[tuple[Resource, str]]]] = [
    ("nothing", []),
    *((f"topic {word}", [(Resource.TOPIC, word)]) for word in OF_TOPICS),
    *((f"group {word}", [(Resource.GROUP, word)]) for word in OF_GROUPS),
    *((f"cluster {word}", [(Resource.CLUSTER, word)]) for word in OF_CLUSTER),
    ("topic and cluster CREATE", [(Resource.TOPIC, "CREATE"), (Resource.CLUSTER, "CREATE")]),
    ("topic and cluster DELETE", [(Resource.TOPIC, "DELETE"), (Resource.CLUSTER, "DELETE")]),
    ("every topic", [(Resource.TOPIC, "ALL")]),
    ("every group", [(Resource.GROUP, "ALL")]),
    ("producing without an id", [(Resource.TOPIC, "WRITE"), (Resource.CLUSTER, "IDEMPOTENT_WRITE")]),
    ("all but its own nodes", [
        (Resource.TOPIC, "ALL"), (Resource.GROUP, "ALL"), (Resource.CLUSTER, "ALTER"),
        *((Resource.CLUSTER, word) for word in OF_CLUSTER)]),
]  # fmt: skip
NOT_ASKED = {
    ApiKey.API_VERSIONS: "asks for nothing",
    ApiKey.UNREGISTER_BROKER: "would take away the only broker",
    ApiKey.ADD_RAFT_VOTER: "would change the only quorum",
    ApiKey.REMOVE_RAFT_VOTER: "would change the only quorum",
    ApiKey.UNREGISTER_CONTROLLER: "Kafka 4.4 has it on controllers only",
}


def requests(topic: str, gone: str, made: str, group: str) -> Iterator[tuple[int, int, Any]]:
    """API, version, fields: those that change something of `topic` behind those that do not."""
    places = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    member = {"group_id": group, "generation_id": 1, "member_id": "nobody"}
    configs = [{"name": "retention.ms", "value": "1000000"}]
    resources = [(2, topic), (4, "1"), (32, group)]
    yield ApiKey.FETCH, 12, {"replica_id": -1, "max_bytes": 1000, "session_epoch": -1, "topics": [
        {"topic": topic, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]}
    yield ApiKey.LIST_OFFSETS, 9, {"replica_id": -1, "topics": places}
    yield ApiKey.METADATA, 12, {"topics": [{"name": topic}, {"name": "absent"}]}
    yield ApiKey.METADATA, 12, {"topics": None}
    yield ApiKey.METADATA, 10, {"topics": [], "include_cluster_authorized_operations": True}
    yield ApiKey.METADATA, 12, {"topics": [{"name": made}], "allow_auto_topic_creation": True}
    yield ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}
    yield ApiKey.OFFSET_COMMIT, 9, {"group_id": group, "topics": [
        {"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    yield ApiKey.OFFSET_FETCH, 8, {"groups": [
        {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}]}
    yield ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]}
    yield ApiKey.JOIN_GROUP, 9, {"group_id": group, "session_timeout_ms": 10_000,
                                 "protocol_type": "consumer", "protocols": [{"name": "range"}]}
    yield ApiKey.HEARTBEAT, 4, member
    yield ApiKey.LEAVE_GROUP, 5, {"group_id": group, "members": [{"member_id": "nobody"}]}
    yield ApiKey.SYNC_GROUP, 5, {**member, "protocol_type": "consumer", "protocol_name": "range"}
    yield ApiKey.DESCRIBE_GROUPS, 5, {"groups": [group]}
    yield ApiKey.LIST_GROUPS, 4, {}
    yield ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    yield ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [
        {"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    yield ApiKey.DESCRIBE_ACLS, 3, _every_acl()
    yield ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
        for kind, name in resources]}
    for key, version in ((ApiKey.ALTER_CONFIGS, 2), (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)):
        yield key, version, {"validate_only": True, "resources": [
            {"resource_type": kind, "resource_name": name, "configs": configs if kind == 2 else []}
            for kind, name in resources]}
    yield ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": [
        {"path": "/nowhere", "topics": [{"name": topic, "partitions": [0]}]}]}
    yield ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": topic, "partitions": [0]}]}
    yield ApiKey.ELECT_LEADERS, 2, {"topic_partitions": [{"topic": topic, "partitions": [0]}]}
    yield ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"topics": [
        {"name": topic, "partitions": [{"partition_index": 0, "replicas": None}]}]}
    yield ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}
    yield ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": []}
    yield ApiKey.ALTER_CLIENT_QUOTAS, 1, {"validate_only": True, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u"}],
         "ops": [{"key": "producer_byte_rate", "value": 1000.0}]}]}
    yield ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "nobody"}]}
    yield ApiKey.DESCRIBE_QUORUM, 2, {"topics": [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    yield ApiKey.UPDATE_FEATURES, 1, {"validate_only": True, "feature_updates": [
        {"feature": "nothing", "max_version_level": 1, "upgrade_type": 1}]}
    yield ApiKey.DESCRIBE_CLUSTER, 2, {"include_cluster_authorized_operations": True}
    yield ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": topic, "partition_indexes": [0]}]}
    yield ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]}
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": topic}, {"name": "absent"}]}
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}
    yield ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, _batch())])])
    yield ApiKey.CREATE_TOPICS, 7, {"topics": [
        {"name": f"{made}-2", "num_partitions": 1, "replication_factor": 1}]}
    yield ApiKey.CREATE_PARTITIONS, 3, {"timeout_ms": 5000, "topics": [
        {"name": topic, "count": 2, "assignments": None}]}
    yield ApiKey.DELETE_RECORDS, 2, {"timeout_ms": 5000, "topics": [
        {"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}]}
    yield ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": [
        {"name": topic, "partitions": [{"partition_index": 0}]}]}
    yield ApiKey.DELETE_GROUPS, 2, {"groups_names": [group]}
    yield ApiKey.DELETE_TOPICS, 6, {"timeout_ms": 5000, "topics": [{"name": gone}]}
    yield ApiKey.CREATE_ACLS, 3, {"creations": [
        {"resource_type": 2, "resource_name": "other", "resource_pattern_type": 3,
         "principal": "User:other", "host": "*", "operation": 3, "permission_type": 3}]}
    yield ApiKey.DELETE_ACLS, 3, {"filters": [{**_every_acl(), "principal_filter": "User:other"}]}  # fmt: skip


def _every_acl() -> dict[str, Any]:
    return {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
            "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


def _batch() -> bytes:
    return bytes(build_batch([Record(None, b"x", timestamp_ms=0)]))


class Cluster:
    """One of the two, asked by frames."""

    def __init__(self, bootstrap: str) -> None:
        self._wire = FrameSocket(bootstrap)

    def ask(self, key: int, version: int, fields: Any) -> Any:
        """`fields` of a request, or the request."""
        if not isinstance(fields, dict):
            return self.send(key, version, fields)
        kind = getattr(APIS[key].module, f"{APIS[key].name}Request")
        return self.send(key, version, msgspec.convert(fields, kind))

    def send(self, key: int, version: int, request: object) -> Any:
        self._wire.send(key, version, request)
        return decode_response(key, version, self._wire.receive())[1]

    def deny(self, denials: list[tuple[Resource, str]]) -> None:
        acls = [_denied(Resource.TOPIC, SENTINEL, Operation.DESCRIBE)]
        acls += [
            _denied(kind, "kafka-cluster" if kind is Resource.CLUSTER else "*", Operation[word])
            for kind, word in denials
        ]
        made = self.send(
            ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(*each) for each in acls])
        )
        assert [one.error_code for one in made.results] == [0] * len(acls)
        self._until_sentinel_is(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def allow_all(self) -> None:
        every = msgspec.convert(_every_acl(), DeleteAclsFilter)
        self.send(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([every]))
        self._until_sentinel_is(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def prepare(self, *topics: str) -> None:
        """Topics that are led by now."""
        self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics]})  # fmt: skip
        for name in topics:
            self._until(lambda name=name: self._led(name))

    def coordinates(self, group: str) -> None:
        """Until the topic of committed offsets is there and loaded."""
        self._until(lambda: self.ask(
            ApiKey.HEARTBEAT, 4, {"group_id": group, "generation_id": 1, "member_id": "nobody"}
        ).error_code == ErrorCode.UNKNOWN_MEMBER_ID, lambda: self.ask(
            ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}))  # fmt: skip

    def close(self) -> None:
        self._wire.close()

    def _led(self, name: str) -> bool:
        [found] = self.ask(ApiKey.METADATA, 12, {"topics": [{"name": name}]}).topics
        return bool(found.partitions) and found.partitions[0].leader_id >= 0

    def _until_sentinel_is(self, error: ErrorCode) -> None:
        request = MetadataRequest(
            [MetadataRequestTopic(name=SENTINEL)], allow_auto_topic_creation=False
        )
        self._until(
            lambda: self.send(ApiKey.METADATA, 12, request).topics[0].error_code == error
        )

    def _until(self, is_so: Any, again: Any = lambda: None) -> None:
        deadline = time.monotonic() + READY_S
        while again() is NotImplemented or not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _denied(kind: Resource, name: str, operation: Operation) -> AclBinding:
    return AclBinding(kind, name, Pattern.LITERAL, ANONYMOUS, "*", operation, Permission.DENY)


def errors_of(answer: object) -> Any:
    """Every `error_code` of an answer with what stands around it; names that were asked for."""
    if isinstance(answer, msgspec.Struct):
        found = {}
        for name in answer.__struct_fields__:
            value = getattr(answer, name)
            if name == "error_code":
                found[name] = ErrorCode.of(value).name
            elif name.endswith("authorized_operations"):
                found[name] = value
            elif isinstance(value, list) and value and isinstance(value[0], msgspec.Struct):
                found[name] = sorted((errors_of(one) for one in value), key=str)
        return found
    return answer


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Ours, and Apache Kafka."""
    try:
        theirs = start_kafka(tmp_path / "kafka", settings=AUTHORIZER, heap="384m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    running = start_broker(tmp_path / "ours", AUTHORIZER)
    with theirs:
        both = Cluster(running.bootstrap), Cluster(theirs.address)
        try:
            yield both
        finally:
            for one in both:
                one.close()
            running.stop()


def test_a_refused_client_is_told_what_kafka_tells_it(clusters: tuple[Cluster, Cluster]) -> None:
    """Also what it is not told of."""
    wrong = []
    for one in clusters:
        one.coordinates("g")
    for number, (case, denials) in enumerate(CASES):
        topic, gone, made, group = f"t{number}", f"gone{number}", f"made{number}", f"g{number}"
        answers = []
        for one in clusters:
            one.prepare(topic, gone)
            if denials:
                one.deny(denials)
            answers.append([
                (APIS[key].name, errors_of(one.ask(key, version, fields)))
                for key, version, fields in requests(topic, gone, made, group)
            ])  # fmt: skip
            if denials and case != CASES[-1][0]:
                one.allow_all()
        wrong += [(case, ours, theirs) for ours, theirs in zip(*answers, strict=True) if ours != theirs]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_api_of_clients_is_left_out() -> None:
    """A later one brings its row."""
    asked = {key for key, *_ in requests("t", "gone", "made", "g")} | set(NOT_ASKED)
    assert asked >= {key for key in advertised_ranges() if SERVED[key].asks}
