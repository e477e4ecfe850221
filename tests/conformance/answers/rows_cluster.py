"""Metadata, the cluster, its features, quotas and ACLs: what Kafka answers."""

from __future__ import annotations

from typing import Any

from tests.conformance.answers.case import Ask, Deviation, ask, row
from tests.conformance.answers.steps import led, new_topic

NO_SUCH_ID = bytes(15) + b"\7"


def metadata(*topics: dict[str, Any], version: int | None = None, **more: Any) -> Ask:
    """Metadata of topics, without creating any."""
    return ask("Metadata", version, topics=topics, allow_auto_topic_creation=False, **more)


def partitions_of(*names: str, **more: Any) -> Ask:
    """DescribeTopicPartitions."""
    return ask("DescribeTopicPartitions", 0, topics=[{"name": name} for name in names], **more)


def quota(entity: list[tuple[str, str | None]], *ops: tuple[str, float, bool], **more: Any) -> Ask:
    """AlterClientQuotas of one entity: (key, value, remove)."""
    return ask("AlterClientQuotas", 1, entries=[{
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [{"key": key, "value": value, "remove": remove} for key, value, remove in ops],
    }], **more)  # fmt: skip


def quotas(*components: tuple[str, int, str | None], strict: bool = False) -> Ask:
    """DescribeClientQuotas: (entity type, how to match, name)."""
    return ask("DescribeClientQuotas", 1, strict=strict, components=[
        {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
    ])  # fmt: skip


def feature(name: str, level: int, version: int, kind: int = 1, **more: Any) -> Ask:
    """UpdateFeatures of one feature; before version 1 `kind` is whether it may be lowered."""
    how = {"upgrade_type": kind} if version else {"allow_downgrade": kind > 1}
    update = {"feature": name, "max_version_level": level, **how}
    return ask("UpdateFeatures", version, feature_updates=[update], **more)


def addressed(cluster_id: str | None, node_id: int, **more: Any) -> Ask:
    """ApiVersions 5 of a client that means this node of this cluster (KIP-1242)."""
    named = {"client_software_name": "rows", "client_software_version": "1", **more}
    return ask("ApiVersions", 5, cluster_id=cluster_id, node_id=node_id, **named)


RATE = ("producer_byte_rate", 1000.0, False)

KNOWN_CLUSTER = Ask("DescribeCluster", 2, keep={"cluster": "cluster_id"})

NEW_IN_44 = [
    *row("4.4", "a client that means another node or another cluster",
         addressed("{cluster}", 7), addressed("nil", 1), addressed("nil", 7), addressed("", 1),
         addressed("{cluster}", -2), given=[KNOWN_CLUSTER]),
    *row("4.4", "a client that names the node or the cluster alone",
         addressed("{cluster}", -1), addressed(None, 1), addressed("nil", -1), addressed(None, -2),
         addressed("nil", 7, client_software_name="-"), given=[KNOWN_CLUSTER]),
    *row("4.4", "a client that means this node, or says nothing",
         addressed("{cluster}", 1), addressed(None, -1), given=[KNOWN_CLUSTER],
         may_differ=["served"]),
    *row("4.4", "controllers that are not there", ask("UnregisterController", 0, controller_id=77),
         ask("UnregisterController", 0, controller_id=-1)),
]  # fmt: skip

METADATA = [
    *row("7", "names that are no topic's", metadata({"name": ""}, {"name": "a b"}, {"name": "{nil}"},
         {"name": "."}), versions=[4, 9, 12], may_differ=["order"]),
    *row("7", "a name with an id", metadata({"name": "{topic}", "topic_id": "{topic_id}"}),
         metadata({"name": "{topic}", "topic_id": NO_SUCH_ID}), given=[new_topic(), led()],
         versions=[10, 11, 12, 13]),
    *row("7", "one by name and one by id", metadata({"name": None, "topic_id": "{topic_id}"},
         {"name": "{topic}"}), metadata({"name": None, "topic_id": "{topic_id}"}),
         metadata({"name": None, "topic_id": NO_SUCH_ID}),
         given=[new_topic(), led()], versions=[10, 11, 12, 13], may_differ=["order"]),
    *row("7", "the same name twice", metadata({"name": "{topic}"}, {"name": "{topic}"}),
         metadata({"name": "{nil}"}, {"name": "{nil}"}),
         given=[new_topic(), led()], versions=[4, 9, 12]),
    *row("7", "the same id twice", metadata(*[{"name": None, "topic_id": "{topic_id}"}] * 2),
         metadata(*[{"name": None, "topic_id": NO_SUCH_ID}] * 2),
         given=[new_topic(), led()], versions=[12, 13]),
    *row("8", "topics that are not there, page by page", partitions_of("nil"), partitions_of("a b"),
         partitions_of("{topic}", "nil", "{topic}"),
         partitions_of("{topic}", cursor={"topic_name": "{topic}", "partition_index": -1}),
         partitions_of("{topic}", cursor={"topic_name": "{topic}", "partition_index": 7}),
         partitions_of("{topic}", cursor={"topic_name": "zzz", "partition_index": 0}),
         partitions_of("{topic}", cursor={"topic_name": "", "partition_index": 0}),
         partitions_of("{topic}", response_partition_limit=0),
         partitions_of("{topic}", response_partition_limit=-1),
         partitions_of("{topic}", response_partition_limit=1), given=[new_topic(partitions=2), led()]),
]  # fmt: skip

CLUSTER = [
    *row("17", "features that cannot be", *[step for version in (0, 1, 2) for step in (
             feature("nil", 1, version), feature("", 1, version),
             feature("metadata.version", -1, version),
             feature("metadata.version", 25, version), feature("kraft.version", 9, version))],
         *[feature("metadata.version", 25, version, 2) for version in (1, 2)],
         feature("metadata.version", 25, 1, 9)),
    *row("17", "a feature that is known, at levels that are not", *[
             feature("eligible.leader.replicas.version", level, version, kind, validate_only=True)
             for level in (-1, 0, 99) for version, kind in ((1, 1), (1, 2), (2, 3))]),
    *row("17", "a feature twice, or none", ask("UpdateFeatures", 1, feature_updates=[
             {"feature": "nil", "max_version_level": 1, "upgrade_type": 1}] * 2),
         ask("UpdateFeatures", 1, feature_updates=[]),
         ask("UpdateFeatures", 2, feature_updates=[])),
    *row("18", "quotas of what is none", quotas(("galaxy", 0, "x")), quotas(("", 0, "x")),
         quotas(("user", 9, "x")), quotas(("user", 0, None)), quotas(("user", 1, "x")),
         quotas(("user", 0, "x"), ("user", 0, "y")), quotas(("ip", 0, "1.2.3.4"), ("user", 2, None)),
         quotas(("user", 0, "nobody"), strict=True), quotas(("user", 0, ""))),
    *row("texts", "quotas that cannot be", *[quota([("user", "x")], op, validate_only=True) for op in (
             RATE, ("nil", 1.0, False), ("producer_byte_rate", 0.0, False),
             ("producer_byte_rate", -1.0, False), ("producer_byte_rate", 1.5, False),
             ("producer_byte_rate", 1e30, False), ("producer_byte_rate", float("inf"), False),
             ("nil", float("inf"), False), ("producer_byte_rate", float("-inf"), False),
             ("producer_byte_rate", float("nan"), False), ("request_percentage", float("inf"), False),
             ("request_percentage", 0.5, False), ("request_percentage", -1.0, False),
             ("connection_creation_rate", 1.0, False), ("nil", 1.0, True),
             ("controller_mutation_rate", 0.5, False), ("", 1.0, False))],
         *[quota(entity, RATE, validate_only=True) for entity in (
             [], [("galaxy", "x")], [("user", "")], [("", "x")],
             [("user", "x"), ("ip", "1.2.3.4")], [("ip", "1.2.3.4")], [("client-id", "")])],
         *[quota([("ip", name)], ("connection_creation_rate", 1.0, False), validate_only=True)
           for name in ("1.2.3.4", "not an address", "unknown", None, "")],
         quota([("ip", "1.2.3.4")], ("connection_creation_rate", 1.5, False), validate_only=True),
         quota([("user", "x")], RATE, RATE, validate_only=True),
         ask("AlterClientQuotas", 1, validate_only=True, entries=[
             {"entity": [{"entity_type": "user", "entity_name": "x"}],
              "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]}] * 2)),
    *row("19", "the cluster at the wrong endpoints", *[
             ask("DescribeCluster", version, **more) for version in (1, 2) for more in (
                 {"endpoint_type": 2}, {"endpoint_type": 9}, {"endpoint_type": 0})],
         ask("DescribeCluster", 0), ask("DescribeCluster", 1)),
    *row("20", "quorums that are none", *[ask("DescribeQuorum", None, topics=topics) for topics in (
             [], [{"topic_name": "nil", "partitions": [{"partition_index": 0}]}],
             [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 7}]}],
             [{"topic_name": "__cluster_metadata", "partitions": []}])], versions=[0, 1, 2]),
    *row("C9", "rights where nobody asks for any",
         ask("CreateAcls", 3, creations=[{"resource_type": 2, "resource_name": "x",
             "resource_pattern_type": 3, "principal": "User:a", "host": "*", "operation": 3,
             "permission_type": 3}]),
         ask("DescribeAcls", 3, resource_type_filter=1, pattern_type_filter=1, operation=1,
             permission_type=1),
         ask("DeleteAcls", 3, filters=[{"resource_type_filter": 1, "pattern_type_filter": 1,
             "operation": 1, "permission_type": 1}]),
         ask("CreateAcls", 3, creations=[])),
    *row("21", "credentials of nobody",
         ask("DescribeUserScramCredentials", 0, users=[{"name": "nobody"}]),
         ask("DescribeUserScramCredentials", 0, users=None),
         ask("DescribeUserScramCredentials", 0, users=[{"name": ""}]),
         ask("DescribeUserScramCredentials", 0, users=[{"name": "x"}, {"name": "x"}])),
    *row("texts", "brokers that are not there", ask("UnregisterBroker", 0, broker_id=77),
         ask("UnregisterBroker", 0, broker_id=-1)),
]  # fmt: skip

VERSIONS = [
    *row("texts", "a topic and one that is not there, in every version",
         metadata({"name": "{topic}"}, {"name": "{nil}"}), given=[new_topic(), led()],
         versions=range(4, 14), may_differ=["order"]),
    *row("texts", "no topics at all", ask("Metadata", None, topics=[]),
         versions=range(1, 14)),
    *row("texts", "operations that are allowed", metadata(
             {"name": "{topic}"}, include_cluster_authorized_operations=True,
             include_topic_authorized_operations=True), given=[new_topic(), led()],
         versions=[8, 9, 10]),
    *row("texts", "operations on topics that are not there", metadata(
             {"name": "{nil}"}, {"name": "a b"}, {"name": ""},
             include_topic_authorized_operations=True),
         versions=[8, 9, 10, 11, 12, 13], may_differ=["order"]),
    *row("texts", "operations on a topic by an id that is not there", metadata(
             {"name": None, "topic_id": NO_SUCH_ID}, include_topic_authorized_operations=True),
         versions=[12, 13]),
    *row("texts", "operations on the cluster that are allowed",
         ask("DescribeCluster", None, include_cluster_authorized_operations=True),
         versions=[0, 1, 2]),
    *row("texts", "rights in older versions", ask("CreateAcls", None, creations=[{
             "resource_type": 2, "resource_name": "x", "principal": "User:a", "host": "*",
             "operation": 3, "permission_type": 3}]),
         ask("DescribeAcls", None, resource_type_filter=1, operation=1, permission_type=1),
         ask("DeleteAcls", None, filters=[{"resource_type_filter": 1, "operation": 1,
             "permission_type": 1}]), versions=[1, 2]),
    *row("texts", "quotas in older versions",
         ask("DescribeClientQuotas", 0, components=[{"entity_type": "galaxy"}]),
         ask("AlterClientQuotas", 0, validate_only=True, entries=[{"entity": [], "ops": []}])),
]  # fmt: skip

ROWS: list[Deviation] = [*METADATA, *CLUSTER, *VERSIONS, *NEW_IN_44]
