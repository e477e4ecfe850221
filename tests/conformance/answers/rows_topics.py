"""Topics and their partitions: what Kafka answers when they are created, grown, moved and
deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.answers.case import Ask, Deviation, ask, row
from tests.conformance.answers.steps import led, new_topic, seen

NO_SUCH_ID = bytes(15) + b"\7"
TOLD = ("name", "error_code", "error_message")


def wanted(name: str = "{topic}", partitions: int = 1, factor: int = 1, **more: Any) -> dict:
    """A topic as CreateTopics wants it."""
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


def create(*topics: dict[str, Any], version: int | None = 5, **more: Any) -> Ask:
    """CreateTopics; version 5, whose answer has no ids."""
    return ask("CreateTopics", version, topics=topics, **more)


def assigned(*partitions: tuple[int, Sequence[int]], **more: Any) -> Ask:
    """CreateTopics with manual assignment: (partition, its replicas)."""
    hands = [{"partition_index": index, "broker_ids": ids} for index, ids in partitions]
    return create({**wanted(partitions=-1, factor=-1, assignments=hands), **more})


def configured(**configs: str | None) -> Ask:
    """CreateTopics with configurations; underscores are dots."""
    entries = [{"name": key.replace("_", "."), "value": configs[key]} for key in configs]
    return create(wanted(configs=entries))


def grow(name: str, total: int, assignments: Any = None) -> Ask:
    """CreatePartitions of one topic."""
    hands = assignments and [{"broker_ids": one} for one in assignments]
    return ask("CreatePartitions", 3, topics=[{"name": name, "count": total, "assignments": hands}])


def move(name: str, index: int, replicas: Sequence[int] | None) -> Ask:
    """AlterPartitionReassignments of one partition; None cancels."""
    partition = {"partition_index": index, "replicas": replicas}
    return ask("AlterPartitionReassignments", 0, topics=[{"name": name, "partitions": [partition]}])


def cut(offset: int, index: int = 0) -> Ask:
    """DeleteRecords of one partition of `{topic}`."""
    partition = {"partition_index": index, "offset": offset}
    return ask("DeleteRecords", 2, topics=[{"name": "{topic}", "partitions": [partition]}])


TOPICS = [
    *row("K4", "a topic made has a null message", create(wanted(), version=None),
         versions=range(2, 8), only=TOLD),
    *row("K4", "so has one that is only tried", create(wanted(), validate_only=True)),
    *row("K4", "a topic not made has an empty list of configurations",
         create(wanted(), version=None), given=[new_topic(), led()], versions=[5, 6, 7]),
    *row("texts", "names of topics",
         *[create(wanted(name)) for name in ("", ".", "..", "a b", "ä", "x" * 249 + "y")]),
    *row("texts", "names that collide", create(wanted("{topic}_a")), create(wanted("{topic}.a")),
         given=[new_topic("{topic}.a")],
         only=TOLD),
    *row("texts", "partitions and replicas that cannot be",
         *[create(wanted(partitions=many)) for many in (0, -2)],
         *[create(wanted(factor=many)) for many in (0, -2, 2, 5)],
         create(wanted(partitions=10_001))),
    *row("4", "topics of Kafka's own making", create(wanted("__cluster_metadata")),
         create(wanted("__cluster_metadata"), validate_only=True)),
    *row("4", "a name twice", create(wanted(), wanted()), create(wanted(), wanted("{other}"),
         wanted()), may_differ=["order"], only=TOLD),
    *row("4", "assignments that cannot be", assigned((0, [1]), (0, [1])), assigned((0, [1, 1])),
         assigned((0, [])), assigned((1, [1])), assigned((0, [1]), (2, [1])), assigned((0, [99])),
         assigned((0, [1]), (1, [1, 99])), assigned((0, [-1])), assigned((0, [99, 1])),
         assigned((-1, [1])), assigned((0, [1]), num_partitions=1),
         assigned((0, [1]), replication_factor=1),
         assigned((0, [1]), num_partitions=1, replication_factor=1)),
    *row("texts", "an assignment by hand", assigned((0, [1]), (1, [1])), only=TOLD),
    *row("texts", "configurations that cannot be", configured(no_such_key="1"),
         configured(retention_ms="abc"), configured(retention_ms=None),
         configured(cleanup_policy="none"), configured(segment_bytes="1"),
         configured(min_insync_replicas="0"), configured(compression_gzip_level="10"),
         configured(compression_zstd_level="100"), configured(compression_lz4_level="0"),
         configured(compression_type="rar"), configured(min_cleanable_dirty_ratio="2"),
         configured(message_timestamp_type="never"), configured(retention_bytes="x"),
         configured(unclean_leader_election_enable="perhaps"), configured(retention_ms="-2"),
         configured(segment_index_bytes="1"), configured(max_message_bytes="-1"),
         configured(local_retention_ms="-3"), configured(segment_jitter_ms="-1"),
         configured(min_compaction_lag_ms="10", max_compaction_lag_ms="5"),
         configured(local_retention_ms="10", retention_ms="5"),
         configured(follower_replication_throttled_replicas="nonsense"),
         configured(internal_segment_bytes="1")),
    *row("K1", "tiered storage is refused before it is written",
         configured(remote_storage_enable="true"), configured(remote_storage_enable="false"),
         create(wanted("{other}", configs=[{"name": "remote.storage.enable", "value": "true"}]),
                validate_only=True), only=TOLD),
    *row("K1", "what only tiered storage has", configured(remote_log_copy_disable="true"),
         ask("CreateTopics", 5, topics=[wanted("{other}", configs=[
             {"name": "remote.log.delete.on.disable", "value": "true"}])]), only=TOLD),
    *row("K3", "a topic that is kept for ever", configured(cleanup_policy="")),
    *row("K5", "a deletion by name and id is refused, and nothing is deleted",
         ask("DeleteTopics", 6, topics=[{"name": "{topic}", "topic_id": NO_SUCH_ID}]),
         ask("DeleteTopics", 6, topics=[{"name": "{topic}", "topic_id": "{topic_id}"}]),
         seen(), given=[new_topic(), led()]),
    *row("5", "a deletion that names a topic twice is refused once",
         ask("DeleteTopics", 5, topic_names=["{topic}", "{topic}", "{other}"]),
         given=[new_topic(), new_topic("{other}")], may_differ=["order"]),
    *row("5", "a deletion that gives an id twice, or nothing, is refused",
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": "{topic_id}"}] * 2),
         ask("DeleteTopics", 6, topics=[{"name": None}, {"name": None}]),
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": NO_SUCH_ID}, {"name": "nil"}]),
         given=[new_topic(), led()], may_differ=["order"]),
    *row("5", "a deletion by the id and the name of one topic is refused",
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": "{topic_id}"},
                                        {"name": "{topic}"}]),
         seen(), given=[new_topic(), led()], may_differ=["order"]),
]  # fmt: skip

PARTITIONS = [
    *row("texts", "growth that cannot be", grow("nil", 2), grow("{topic}", 2), grow("{topic}", 1),
         grow("{topic}", 0), grow("{topic}", -1), grow("{topic}", 3, [[1], [1]]),
         grow("{topic}", 3, [[99]]), grow("{topic}", 3, [[1, 99]]), grow("{topic}", 3, [[]]),
         grow("{topic}", 3, [[1, 1]]), grow("{topic}", 3),
         given=[new_topic(partitions=2), led()]),
    *row("4", "growth of one topic twice",
         ask("CreatePartitions", 3, topics=[{"name": "{topic}", "count": 2}] * 2),
         ask("CreatePartitions", 3, topics=[{"name": "{topic}", "count": 2}] * 2
             + [{"name": "nil", "count": 2}]),
         given=[new_topic(), led()], may_differ=["order"]),
    *row("21", "moves that cannot be", move("{topic}", 0, None), move("{topic}", 0, [99]),
         move("{topic}", 0, []), move("{topic}", 0, [1, 1]), move("{topic}", 7, [1]),
         move("nil", 0, [1]), move("nil", 0, None), move("{topic}", 0, [-1]), move("{topic}", 0, [1]),
         given=[new_topic(), led()]),
    *row("21", "moves of nothing", ask("AlterPartitionReassignments", 0, topics=[]),
         ask("AlterPartitionReassignments", 0, topics=[{"name": "{topic}", "partitions": []}]),
         given=[new_topic(), led()]),
    *row("21", "moves under way: none", ask("ListPartitionReassignments", 0, topics=None),
         ask("ListPartitionReassignments", 0,
             topics=[{"name": "{topic}", "partition_indexes": [0, 7]},
                     {"name": "nil", "partition_indexes": [0]}]), given=[new_topic(), led()]),
    *row("16", "elections that need not or cannot be",
         *[ask("ElectLeaders", 2, election_type=kind,
               topic_partitions=[{"topic": "{topic}", "partitions": [0, 7]},
                                 {"topic": "nil", "partitions": [0]}]) for kind in (0, 1, 5, -1)],
         ask("ElectLeaders", 2, election_type=5, topic_partitions=None),
         given=[new_topic(), led()], may_differ=["order"]),
    *row("G4", "records cannot be deleted below the log's start or beyond its end",
         cut(-1001), cut(-2), cut(1), cut(0), cut(-1), cut(0, index=7),
         given=[new_topic(), led()]),
    *row("K3", "whose records cannot be deleted by offset", cut(0), cut(-1), cut(-2),
         given=[new_topic(cleanup_policy=""), led()]),
    *row("G4", "nor can those of a compacted topic", cut(0), cut(-1), cut(-2),
         given=[new_topic(cleanup_policy="compact"), led()]),
    *row("21", "producers of partitions that are not there",
         ask("DescribeProducers", 0, topics=[{"name": "{topic}", "partition_indexes": [0, 7]},
                                             {"name": "nil", "partition_indexes": [0]}]),
         given=[new_topic(), led()]),
    *row("21", "producers of topics that cannot be",
         *[ask("DescribeProducers", 0, topics=[{"name": name, "partition_indexes": [0]}])
           for name in ("", ".", "a b", "x" * 250)]),
    *row("9", "offsets of one partition asked twice",
         *[ask("ListOffsets", version, replica_id=-1, topics=[{"name": "{topic}", "partitions": [
             {"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]}])
           for version in (1, 7, 10)],
         ask("ListOffsets", 7, replica_id=-1, topics=[
             {"name": "{topic}", "partitions": [{"partition_index": 0, "timestamp": -1}]},
             {"name": "{topic}", "partitions": [{"partition_index": 0, "timestamp": -2}]}]),
         ask("ListOffsets", 7, replica_id=-1, topics=[{"name": "{topic}", "partitions": [
             {"partition_index": 0, "timestamp": -1}, {"partition_index": 7, "timestamp": -1}]}]),
         given=[new_topic(), led()], may_differ=["order"]),
]  # fmt: skip

VERSIONS = [
    *row("texts", "one refused topic in every version", create(wanted("a b"), version=None),
         create(wanted(partitions=0), version=None), create(wanted(), version=None,
         validate_only=True), versions=range(2, 8), may_differ=["order"]),
    *row("texts", "one deletion in every version",
         ask("DeleteTopics", None, topic_names=["{topic}", "nil"]),
         given=[new_topic(), led()], versions=range(1, 6), may_differ=["order"]),
    *row("texts", "one growth in every version",
         ask("CreatePartitions", None, topics=[{"name": "{topic}", "count": 2, "assignments": None}],
             validate_only=True),
         ask("CreatePartitions", None, topics=[{"name": "{topic}", "count": 2, "assignments": None},
                                               {"name": "nil", "count": 2, "assignments": None}]),
         given=[new_topic(), led()], versions=range(4), may_differ=["order"]),
    *row("texts", "one deletion of records in every version",
         ask("DeleteRecords", None, topics=[{"name": "{topic}", "partitions": [
             {"partition_index": 0, "offset": 5}, {"partition_index": 9, "offset": 0}]},
             {"name": "nil", "partitions": [{"partition_index": 0, "offset": 0}]}]),
         given=[new_topic(), led()], versions=range(3), may_differ=["order"]),
    *row("texts", "log directories", ask("AlterReplicaLogDirs", None, dirs=[
             {"path": "/nowhere", "topics": [{"name": "{topic}", "partitions": [0]},
                                            {"name": "nil", "partitions": [0]}]}]),
         ask("DescribeLogDirs", None, topics=[{"topic": "nil", "partitions": [0]}]),
         given=[new_topic(), led()], versions=[1, 2],
         only=["error_code", "error_message", "topic_name", "partition_index"],
         may_differ=["order"]),
    *row("texts", "elections in every version",
         ask("ElectLeaders", None, topic_partitions=[{"topic": "{topic}", "partitions": [0]},
                                                     {"topic": "nil", "partitions": [0]}]),
         given=[new_topic(), led()], versions=range(3), may_differ=["order"]),
]  # fmt: skip

ROWS: list[Deviation] = [*TOPICS, *PARTITIONS, *VERSIONS]
