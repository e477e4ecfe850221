"""What operators ask of the controller, over a real socket to a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from bus.errors import ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated import (
    alter_client_quotas,
    alter_partition_reassignments,
    create_acls,
    create_topics,
    describe_acls,
    describe_client_quotas,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    metadata,
    unregister_broker,
    update_features,
)
from deploy.servers.databus import RunningBroker
from tests.broker.handlers.test_every_version import FrameSocket

Ask = Callable[[int, Any], Any]


@pytest.fixture
def ask(shared_broker: RunningBroker) -> Any:
    """One request in its newest version, its response."""
    wire = FrameSocket(shared_broker.bootstrap)

    def asked(key: int, request: Any) -> Any:
        return wire.ask(key, APIS[key].latest, request)

    yield asked
    wire.close()


@pytest.fixture
def topic(ask: Ask) -> str:
    """A topic of one partition."""
    name = f"operators-{uuid.uuid4().hex[:8]}"
    wanted = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    assert ask(ApiKey.CREATE_TOPICS, request).topics[0].error_code == 0
    return name


def test_an_election_that_is_not_needed_is_said_to_be_so(ask: Ask, topic: str) -> None:
    """Named it is an error, among all it is left out."""
    named = [elect_leaders.TopicPartitions(topic=topic, partitions=[0, 9])]
    response = ask(ApiKey.ELECT_LEADERS, elect_leaders.ElectLeadersRequest(topic_partitions=named))
    errors = [one.error_code for one in response.replica_election_results[0].partition_result]
    assert errors == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    every = ask(ApiKey.ELECT_LEADERS, elect_leaders.ElectLeadersRequest(topic_partitions=None))
    assert every.replica_election_results == []


def test_a_question_for_neither_a_name_nor_an_id_costs_the_others_nothing(
    ask: Ask, topic: str
) -> None:
    """Kafka fails the whole request; here the topics named beside it were left out."""
    asked = [metadata.MetadataRequestTopic(name=name) for name in (None, topic)]
    response = ask(ApiKey.METADATA, metadata.MetadataRequest(topics=asked))
    assert [(one.name, one.error_code) for one in response.topics] == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (topic, ErrorCode.NONE),
    ]


def test_replicas_cannot_be_moved_to_brokers_that_are_not_there(ask: Ask, topic: str) -> None:
    """And what does not move cannot be cancelled."""
    partitions = [
        alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=replicas)
        for replicas in ([99], None)
    ]
    errors = []
    for partition in partitions:
        moved = alter_partition_reassignments.ReassignableTopic(name=topic, partitions=[partition])
        request = alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[moved])
        response = ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
        errors.append(response.responses[0].partitions[0].error_code)
    assert errors == [
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ]
    every = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
    assert ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, every).topics == []


def test_quotas_are_kept_and_told(ask: Ask) -> None:
    """An entity changes as a whole or not at all."""
    user = f"ann-{uuid.uuid4().hex[:8]}"
    entity = [alter_client_quotas.EntityDataInRequest(entity_type="user", entity_name=user)]
    ops = [
        alter_client_quotas.OpData(key="producer_byte_rate", value=4096.0),
        alter_client_quotas.OpData(key="request_percentage", value=50.0),
    ]
    good = alter_client_quotas.EntryDataInRequest(entity=entity, ops=ops)
    bad = alter_client_quotas.EntryDataInRequest(
        entity=entity, ops=[*ops, alter_client_quotas.OpData(key="nonsense", value=1.0)]
    )
    for entry, error in ((bad, ErrorCode.INVALID_REQUEST), (good, ErrorCode.NONE)):
        altered = alter_client_quotas.AlterClientQuotasRequest(entries=[entry])
        assert ask(ApiKey.ALTER_CLIENT_QUOTAS, altered).entries[0].error_code == error
    part = describe_client_quotas.ComponentData(entity_type="user", match_type=0, match=user)
    request = describe_client_quotas.DescribeClientQuotasRequest(components=[part], strict=True)
    found = ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request).entries
    assert {one.key: one.value for one in found[0].values} == {
        "producer_byte_rate": 4096.0,
        "request_percentage": 50.0,
    }


def test_without_an_authorizer_there_are_no_rules_of_access(ask: Ask) -> None:
    """As in Kafka: nothing is stored that would not be enforced."""
    rule = create_acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:ann", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    made = ask(ApiKey.CREATE_ACLS, create_acls.CreateAclsRequest(creations=[rule]))
    assert made.results[0].error_code == ErrorCode.SECURITY_DISABLED
    every = describe_acls.DescribeAclsRequest(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    assert ask(ApiKey.DESCRIBE_ACLS, every).error_code == ErrorCode.SECURITY_DISABLED


def test_features_change_together_or_not_at_all(ask: Ask) -> None:
    """One error for all from version 2 on."""
    for name, level, error in (
        ("metadata.version", 34, ErrorCode.INVALID_UPDATE_VERSION),
        ("transaction.version", 2, ErrorCode.INVALID_UPDATE_VERSION),
        ("metadata.version", 33, ErrorCode.NONE),
    ):
        update = update_features.FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=1
        )
        request = update_features.UpdateFeaturesRequest(
            feature_updates=[update], validate_only=True
        )
        assert ask(ApiKey.UPDATE_FEATURES, request).error_code == error


def test_an_unknown_broker_cannot_be_forgotten(ask: Ask) -> None:
    """It has its own error."""
    request = unregister_broker.UnregisterBrokerRequest(broker_id=77)
    response = ask(ApiKey.UNREGISTER_BROKER, request)
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_quorum_of_one_tells_no_address_where_nobody_listens(ask: Ask) -> None:
    """A broker that is its own controller has no port for others. Regression: it returned port
    0."""
    partition = describe_quorum.PartitionDataInRequest(partition_index=0)
    topic = describe_quorum.TopicDataInRequest(
        topic_name="__cluster_metadata", partitions=[partition]
    )
    answer = ask(ApiKey.DESCRIBE_QUORUM, describe_quorum.DescribeQuorumRequest(topics=[topic]))
    assert answer.topics[0].partitions[0].error_code == 0
    assert [node.node_id for node in answer.nodes] == [1]
    assert all(end.port > 0 for node in answer.nodes for end in node.listeners)
