"""Where an application begins."""

from __future__ import annotations

import json

from bus.client.model import ClusterIdentity
from ingest.store.port import Position
from ingest.store.positions import replaced_topics, valid_positions
from spark_apps.source.positions import (
    positions,
    resolve_positions,
    starting_offsets,
)

CLUSTER = ClusterIdentity("c1", {"data.face": "t1"}, (("data.face", 0), ("data.face", 1)))
PARTITIONS = CLUSTER.partitions


def stored(cluster_id: str = "c1", topic_id: str = "t1") -> Position:
    return Position(application="ingest", cluster_id=cluster_id, topic="data.face",
                    topic_id=topic_id, partition=0, end_offset=42)  # fmt: skip


def test_positions_of_this_cluster_and_topic_are_valid() -> None:
    """The usual start."""
    assert valid_positions([stored()], CLUSTER) == {("data.face", 0): 42}


def test_a_topic_made_anew_and_another_cluster_begin_at_the_beginning() -> None:
    """An offset of another log means nothing here."""
    assert valid_positions([stored(topic_id="old"), stored(cluster_id="other")], CLUSTER) == {}
    assert replaced_topics([stored(topic_id="old")], CLUSTER) == {"data.face"}
    assert replaced_topics([stored(), stored(topic_id="x", cluster_id="other")], CLUSTER) == set()


def test_a_partition_never_read_begins_at_the_earliest_record() -> None:
    """The first start reads everything there is."""
    starts, lost = resolve_positions({("data.face", 0): 42}, PARTITIONS, {("data.face", 1): 7})
    assert (starts, lost) == ({("data.face", 0): 42, ("data.face", 1): 7}, {})


def test_records_cut_by_retention_are_counted() -> None:
    """Loss is reported, never silent."""
    starts, lost = resolve_positions({("data.face", 0): 42}, PARTITIONS, {("data.face", 0): 50})
    assert starts["data.face", 0] == 50
    assert lost == {("data.face", 0): 8}


def test_starting_offsets_are_sparks_json() -> None:
    """By topic, then by the partition's number as text."""
    text = starting_offsets({("data.face", 0): 42, ("data.face", 1): 7})
    assert json.loads(text) == {"data.face": {"0": 42, "1": 7}}


def test_what_a_batch_covers_is_stored_with_the_ids() -> None:
    """The start offset lets the store prove that nothing is counted twice."""
    (found,) = positions("ingest", CLUSTER, {("data.face", 0): (40, 42)})
    assert (found.start_offset, found.end_offset, found.topic_id) == (40, 42, "t1")
