"""Every API that a client or a node may send, as requests that a cluster answers according to its
ACLs, and what the answers say, so that those of Apache Kafka and ours can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import is_served
from bus.client.admin.queries import listed_acls
from bus.errors import ErrorCode
from bus.protocol.acl_index import AclIndex, parse_super_users
from bus.protocol.acls import CLUSTER_NAME, AclBinding, Operation, Pattern, Resource
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bus.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.security.speakers import (
    DENY,
    Frames,
    Speaker,
    acl,
    acls_filter,
    everything,
)
from tests.broker.server.cluster_with_acls import until

TOPIC, GONE, MADE = "t", "gone", "made"
"""There; there until it is deleted; not there until it is used."""
GROUP_CONFIG = 32
IN_THE_MAKING = (
    ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)  # fmt: skip


OPERATIONS = {
    Resource.TOPIC: ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS",
                     "ALTER_CONFIGS"),
    Resource.GROUP: ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    Resource.CLUSTER: ("CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
                       "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
}  # fmt: skip
"""Those that Kafka knows of each kind of resource."""


def cases_about(who: Speaker) -> Iterator[tuple[str, list[AclBinding]]]:
    """Sets of ACLs by their names. For each operation: denied though all is allowed, allowed alone,
    and not mentioned where all others are allowed."""
    for kind, words in OPERATIONS.items():
        for word in words:
            others = [acl(kind, other, who=who) for other in words if other != word]
            rest = everything(who, kind)
            name = f"{kind.name} {word}"
            yield f"{name} denied", [*everything(who), acl(kind, word, DENY, who=who)]
            yield f"{name} alone", [*rest, acl(kind, word, who=who)]
            yield f"{name} absent", [*rest, *others]
    yield "nothing is allowed", []
    yield "everything is allowed", everything(who)
    for word in ("CREATE", "DELETE"):
        both = [acl(kind, word, DENY, who=who) for kind in (Resource.TOPIC, Resource.CLUSTER)]
        yield f"topic and cluster {word} denied", [*everything(who), *both]
    unwritten = [
        acl(Resource.TOPIC, "WRITE", DENY, who=who),
        acl(Resource.CLUSTER, "IDEMPOTENT_WRITE", DENY, who=who),
    ]
    yield "producing without an id", [*everything(who), *unwritten]
    yield "some topics by their prefix", [
        *everything(who, Resource.TOPIC),
        acl(Resource.TOPIC, "ALL", name="made", who=who, pattern=Pattern.PREFIXED),
    ]
    yield "all topics but some by their prefix", [
        *everything(who),
        acl(Resource.TOPIC, "ALL", DENY, name="gone", who=who, pattern=Pattern.PREFIXED),
    ]


IDENTITY = ("name", "topic", "topic_name", "group_id", "group", "coordinator_key", "key",
            "resource_name", "resource_type", "partition_index", "partition", "entity_name", "user")  # fmt: skip
"""Fields that say what an error is about."""

MANY_LATER = ("tokens",)
"""What a request before has made is listed soon or later; whose tokens one sees is compared in
`test_delegation_tokens`."""

Sent = tuple[int, int, Any]
"""API, version, fields of a request or the request."""

ONLY_DENIED = (ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
"""Allowed, they would take away the only node. Brokers forward them."""
OF_NODES = (
    ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.CONTROLLER_REGISTRATION, ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.UPDATE_RAFT_VOTER,
)  # fmt: skip
"""Sent to the listener of the controller, without CLUSTER_ACTION."""
OF_ZOOKEEPER_NODES = (
    ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
)  # fmt: skip
ELSEWHERE = {
    ApiKey.API_VERSIONS: "asks for nothing",
    ApiKey.SASL_HANDSHAKE: "the same; tests/conformance/test_logins.py",
    ApiKey.SASL_AUTHENTICATE: "the same",
    ApiKey.MIRROR_APPEND: "ours: tests/simulation/test_denied_requests.py",
    ApiKey.MIRROR_DIGEST: "the same",
    ApiKey.MIRROR_TRUNCATE: "the same",
    ApiKey.UNREGISTER_CONTROLLER: "Kafka 4.4 does not serve it while its version is unstable",
}


def requests(topic_id: bytes, group: str) -> Iterator[Sent]:
    """Those that change something of the topic behind those that do not."""
    places = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    member = {"group_id": group, "generation_id": 1, "member_id": "nobody"}
    configs = [{"name": "retention.ms", "value": "1000000"}]
    resources = [(2, TOPIC), (4, "1"), (GROUP_CONFIG, group)]
    yield ApiKey.FETCH, 12, {"replica_id": -1, "max_bytes": 1000, "session_epoch": -1, "topics": [
        {"topic": TOPIC, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}]}
    yield ApiKey.FETCH, 17, FetchRequest(session_epoch=-1, topics=[
        FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, partition_max_bytes=1000)])])
    yield ApiKey.LIST_OFFSETS, 9, {"replica_id": -1, "topics": places}
    yield ApiKey.METADATA, 12, {"topics": [{"name": TOPIC}, {"name": "absent"}],
                                "allow_auto_topic_creation": False}
    yield ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id)])
    yield ApiKey.METADATA, 12, {"topics": None, "include_topic_authorized_operations": True}
    yield ApiKey.METADATA, 10, {"topics": [], "include_cluster_authorized_operations": True}
    yield ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]}
    yield ApiKey.OFFSET_COMMIT, 9, {"group_id": group, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]}
    yield ApiKey.OFFSET_COMMIT, 10, OffsetCommitRequest(group_id=group, topics=[
        OffsetCommitRequestTopic(topic_id=topic_id, partitions=[
            OffsetCommitRequestPartition(0, committed_offset=1)])])
    yield ApiKey.OFFSET_FETCH, 8, {"groups": [
        {"group_id": group, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}
    yield ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": group, "topics": None}]}
    yield ApiKey.OFFSET_FETCH, 10, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])])])
    yield ApiKey.JOIN_GROUP, 9, {"group_id": group, "session_timeout_ms": 10_000,
                                 "protocol_type": "consumer", "protocols": [{"name": "range"}]}
    yield ApiKey.HEARTBEAT, 4, member
    yield ApiKey.LEAVE_GROUP, 5, {"group_id": group, "members": [{"member_id": "nobody"}]}
    yield ApiKey.SYNC_GROUP, 5, {**member, "protocol_type": "consumer", "protocol_name": "range"}
    yield ApiKey.DESCRIBE_GROUPS, 5, {"groups": [group]}
    yield ApiKey.LIST_GROUPS, 4, {}
    yield ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
    yield ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"replica_id": -1, "topics": [
        {"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]}
    yield ApiKey.DESCRIBE_ACLS, 3, acls_filter()
    yield ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
        for kind, name in resources]}
    for key, version in ((ApiKey.ALTER_CONFIGS, 2), (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)):
        yield key, version, {"validate_only": True, "resources": [
            {"resource_type": kind, "resource_name": name, "configs": configs if kind == 2 else []}
            for kind, name in resources]}
    yield ApiKey.ALTER_REPLICA_LOG_DIRS, 2, {"dirs": [
        {"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]}
    yield ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": [{"topic": TOPIC, "partitions": [0]}]}
    yield ApiKey.ELECT_LEADERS, 2, {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}]}
    yield ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}]}
    yield ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None}
    yield ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": []}
    yield ApiKey.ALTER_CLIENT_QUOTAS, 1, {"validate_only": True, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u"}],
         "ops": [{"key": "producer_byte_rate", "value": 1000.0}]}]}
    yield ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "nobody"}]}
    yield ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {
        "deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []}
    token = {"hmac": b"x" * 64}
    yield ApiKey.CREATE_DELEGATION_TOKEN, 3, {"owner_principal_type": "User",
                                              "owner_principal_name": "other", "renewers": []}
    yield ApiKey.RENEW_DELEGATION_TOKEN, 2, token
    yield ApiKey.EXPIRE_DELEGATION_TOKEN, 2, {**token, "expiry_time_period_ms": -1}
    yield ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None}
    yield ApiKey.DESCRIBE_QUORUM, 2, {"topics": [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    yield ApiKey.UPDATE_FEATURES, 1, {"validate_only": True, "feature_updates": [
        {"feature": "nothing", "max_version_level": 1, "upgrade_type": 1}]}
    yield ApiKey.DESCRIBE_CLUSTER, 2, {"include_cluster_authorized_operations": True}
    yield ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}
    yield ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]}
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": TOPIC}, {"name": "absent"}]}
    yield ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}
    yield ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[
        TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, _batch())])])
    yield ApiKey.PRODUCE, 13, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[
        TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(0, _batch())])])
    yield ApiKey.CREATE_TOPICS, 7, {"topics": [
        {"name": f"{MADE}-2", "num_partitions": 1, "replication_factor": 1}]}
    yield ApiKey.CREATE_PARTITIONS, 3, {"timeout_ms": 30_000, "topics": [
        {"name": TOPIC, "count": 2, "assignments": None}]}
    yield ApiKey.DELETE_RECORDS, 2, {"timeout_ms": 30_000, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}]}
    yield ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": [
        {"name": TOPIC, "partitions": [{"partition_index": 0}]}]}
    yield ApiKey.DELETE_GROUPS, 2, {"groups_names": [group]}
    yield ApiKey.DELETE_TOPICS, 6, {"timeout_ms": 30_000, "topics": [{"name": GONE}]}
    yield ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(timeout_ms=30_000, topics=[
        DeleteTopicState(name=None, topic_id=topic_id)])
    yield ApiKey.METADATA, 12, {"topics": [{"name": MADE}], "allow_auto_topic_creation": True}
    yield ApiKey.CREATE_ACLS, 3, {"creations": [
        {"resource_type": 2, "resource_name": "other", "resource_pattern_type": 3,
         "principal": "User:other", "host": "*", "operation": 3, "permission_type": 3}]}
    yield ApiKey.DELETE_ACLS, 3, {"filters": [acls_filter(principal_filter="User:other")]}  # fmt: skip


def _batch() -> bytes:
    return bytes(build_batch([Record(None, b"x", timestamp_ms=0)]))


class Cluster:
    """One of those that are compared, asked by frames."""

    def __init__(
        self, admin: Frames, served: ListenerType, nodes_speak_at: ListenerType,
        of_clients: dict[str, Any], super_users: str = "",
    ) -> None:  # fmt: skip
        """`of_clients`: a filter of the ACLs that are replaced; the others are the nodes'."""
        self._admin, self._served, self._nodes_speak_at = admin, served, nodes_speak_at
        self._of_clients = of_clients
        self._super_users = parse_super_users(super_users)
        self._prepared = False

    def prepare(self, *topics: str) -> None:
        """These topics and no others, led by now; once, also the topic of committed offsets."""
        if not self._prepared:
            until("the coordinator is there", self._coordinates)
            until("producers get ids", self._gives_producer_ids)
            self._prepared = True
        self._admin.ask(ApiKey.DELETE_TOPICS, 6, {"timeout_ms": 30_000, "topics": [
            {"name": name} for name in self._topics()]})  # fmt: skip
        until("there is no topic", lambda: not self._topics())
        self._admin.ask(ApiKey.CREATE_TOPICS, 7, {"timeout_ms": 30_000, "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics]})  # fmt: skip
        for name in topics:
            until(f"{name} is led", partial(self._is_led, name))

    def id_of(self, topic: str) -> bytes:
        """The topic's id."""
        return bytes(self._topic(topic).topic_id)

    def set_acls(self, acls: Sequence[AclBinding]) -> None:
        """These and no others are in force for the client when this returns."""
        done = self._admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [self._of_clients]})
        assert done.filter_results[0].error_code == 0, done
        self.create_acls(acls)
        until(
            f"the client has the ACLs {acls}",
            lambda: sorted(listed_acls(self._admin.ask(ApiKey.DESCRIBE_ACLS, 3, self._of_clients)))
            == sorted(acls),
        )

    def answers(
        self, client: Frames, node: Frames | None, sent: Iterator[Sent], acls: Sequence[AclBinding]
    ) -> list[tuple[str, Any]]:
        """What the client is told, by request, in their order. `node`: the same one where nodes speak
        (at the controller's listener, under ZooKeeper at a broker's); None where it does not get
        there."""
        index = AclIndex(self._super_users)
        index.add(acls)

        def may(word: str) -> bool:
            return index.decide(*client.who, Operation[word], Resource.CLUSTER, CLUSTER_NAME).is_allowed

        found = []
        for number, (key, version, fields) in enumerate(sent):
            if is_served(key, self._served):
                told = errors_told(client, key, version, fields)
                found.append((f"{number}. {APIS[key].name} {version}", told))
        if not may("ALTER"):
            found += [self._default(client, key) for key in ONLY_DENIED
                      if is_served(key, self._served)]  # fmt: skip
        if node is not None and not may("CLUSTER_ACTION"):
            found += [self._default(node, key) for key in OF_NODES
                      if is_served(key, self._nodes_speak_at)]  # fmt: skip
        return found

    def denied_zookeeper_nodes(self, client: Frames) -> list[tuple[str, Any]]:
        """The APIs that only brokers under ZooKeeper know."""
        return [self._default(client, key) for key in OF_ZOOKEEPER_NODES]

    def create_acls(self, acls: Sequence[AclBinding]) -> None:
        """These as well."""
        assert self._admin.create_acls(acls) <= {0}

    def _default(self, frames: Frames, key: int) -> tuple[str, Any]:
        return f"{APIS[key].name} of a node", errors_told(frames, key, APIS[key].latest, {})

    def _coordinates(self) -> bool:
        self._admin.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
        member = {"group_id": "g", "generation_id": 1, "member_id": "nobody"}
        answer = self._admin.ask(ApiKey.HEARTBEAT, 4, member)
        return bool(answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID)

    def _gives_producer_ids(self) -> bool:
        fields = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        return not self._admin.ask(ApiKey.INIT_PRODUCER_ID, 4, fields).error_code

    def _topics(self) -> list[str]:
        found = self._admin.ask(ApiKey.METADATA, 12, {"topics": None}).topics
        return [one.name for one in found if not one.is_internal]

    def _is_led(self, name: str) -> bool:
        partitions = self._topic(name).partitions
        return bool(partitions) and partitions[0].leader_id >= 0

    def _topic(self, name: str) -> Any:
        [found] = self._admin.ask(ApiKey.METADATA, 12, {"topics": [{"name": name}]}).topics
        return found


def errors_told(frames: Frames, key: int, version: int, fields: Any) -> Any:
    """The errors of the answer, or that the connection was closed."""
    try:
        return errors_of(frames.ask(key, version, fields))
    except ConnectionError:
        frames.close()
        return "closed"


def errors_of(answer: object) -> Any:
    """Every `error_code` of an answer with what stands around it, and what it is about."""
    if not isinstance(answer, msgspec.Struct):
        return answer
    found: dict[str, Any] = {}
    is_made = getattr(answer, "name", None) == MADE
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        if name == "error_code":
            found[name] = _comparable(answer, ErrorCode.of(value))
        elif name in IDENTITY or name.endswith("authorized_operations"):
            found[name] = value
        elif name in MANY_LATER:
            continue
        elif isinstance(value, list) and value and isinstance(value[0], msgspec.Struct) and not is_made:
            found[name] = sorted((errors_of(one) for one in value), key=str)
    return found


def _comparable(part: Any, error: ErrorCode) -> str:
    """Not about permission: a topic that is made on its first use is there at once, soon or later,
    and groups have no configuration here."""
    if getattr(part, "name", None) == MADE and error in IN_THE_MAKING:
        return "in the making"
    if getattr(part, "resource_type", None) == GROUP_CONFIG and error is ErrorCode.INVALID_REQUEST:
        return ErrorCode.NONE.name
    return error.name


def differences(case: str, told: dict[str, list[tuple[str, Any]]]) -> str:
    """Of what each cluster has told, by its name, from what Kafka has; empty where there are none.
    Of Kafka's answers each that ours gave is compared."""
    expected = dict(told["kafka"])
    wrong = [
        f"{name}: {request}\n  ours    {answer}\n  Kafka's {expected[request]}"
        for name in told
        for request, answer in told[name]
        if answer != expected[request]
    ]
    return "\n".join([case, *wrong]) if wrong else ""
