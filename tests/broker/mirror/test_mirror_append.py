"""MirrorAppend over real sockets to a real broker, and what a mirrored topic refuses."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from bus.client.admin import commands, queries
from bus.client.wire.ports import addresses
from bus.client.wire.sync_client import SyncClient, SyncConnection
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.mirror_append import MirrorAppendRequest, MirrorAppendResponse
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.batch import assign
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from deploy.servers.databus_cluster import RunningCluster
from tests.broker.handlers.test_every_version import FrameSocket
from tests.broker.mirror.client import (
    THERE,
    create_mirrored,
    error_of,
    mirror,
    read_all,
    set_topic,
)

NOW_MS = time.time_ns() // 1_000_000
"""Retention deletes what is a week old."""

NODE = 1
BROKER_KIND = 4


@pytest.fixture
def topic(link: SyncClient) -> str:
    """A mirrored topic of its own."""
    name = f"mirrored-{uuid.uuid4().hex[:8]}"
    create_mirrored(link, name)
    return name


def at(offset: int, count: int = 1, **more: object) -> bytes:
    """A batch as the source has it; its leader epoch there is 0."""
    records = [Record(b"k", b"v%d" % (offset + i), timestamp_ms=NOW_MS) for i in range(count)]
    batch = build_batch(records, **more)  # type: ignore[arg-type]
    assign(batch, 0, offset, 0)
    return bytes(batch)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    batch = end_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
        timestamp_ms=NOW_MS,
    )  # fmt: skip
    assign(batch, 0, offset, 0)
    return bytes(batch)


def test_the_private_api_is_there_on_the_mirrors_listener_only(site: RunningCluster) -> None:
    """Another listener does not list it, and closes the connection of one who sends it."""
    for bootstrap, is_served in ((site.mirror_bootstrap, True), (site.bootstrap, False)):
        connection = SyncConnection(addresses(bootstrap)[0], "client")
        assert connection.supports(ApiKey.PRODUCE)
        assert connection.supports(ApiKey.MIRROR_APPEND) == is_served
        connection.close()
        wire = FrameSocket(bootstrap)
        wire.send(ApiKey.MIRROR_APPEND, 0, MirrorAppendRequest(source_cluster_id=THERE))
        if is_served:
            _, answer = decode_response(ApiKey.MIRROR_APPEND, 0, wire.receive())
            assert answer == MirrorAppendResponse()
        else:
            with pytest.raises(ConnectionError):
                wire.receive()
        wire.close()


def test_what_the_source_has_is_there_with_its_offsets(link: SyncClient, topic: str) -> None:
    """Idempotent and transactional batches, a marker, holes before, between and behind."""
    of = {"producer_id": 1 << 50, "producer_epoch": 0}
    sent = (
        at(7, 3, base_sequence=0, **of) + at(20, 2, base_sequence=3, is_transactional=True, **of)
        + marker(30, 1 << 50, commit=False)
    )  # fmt: skip
    claimed = mirror(link, topic)
    assert (claimed.error_code, claimed.log_end_offset, claimed.mirror_generation) == (0, 0, 1)
    result = mirror(link, topic, sent, base_offset=0, epoch=claimed.leader_epoch)
    assert error_of(result) is ErrorCode.NONE
    assert (result.log_end_offset, result.high_watermark) == (31, 31)
    assert read_all(link, topic, NODE, 0, 31) == sent


def test_a_read_committed_consumer_gets_what_it_would_get_at_the_source(
    site: RunningCluster, link: SyncClient, topic: str
) -> None:
    """Not what was aborted there, nor what is behind the begin of an open transaction, until a
    marker of the mirror's own ends it: the source is lost and will not."""
    ids = [1 << 50, 2 << 50, 3 << 50]
    of = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    sent = b"".join(
        (
            at(0), at(1, 2, producer_id=ids[0], **of), at(3, 2, producer_id=ids[1], **of),
            marker(5, ids[0], commit=False), marker(6, ids[1], commit=True), at(7),
            at(8, producer_id=ids[2], **of), at(9),
        )
    )  # fmt: skip
    mirror(link, topic)
    assert mirror(link, topic, sent, base_offset=0).error_code == 0
    consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": uuid.uuid4().hex,
                         "isolation.level": "read_committed", "enable.auto.commit": False,
                         "enable.partition.eof": True})  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert _up_to_the_end(consumer) == [b"v0", b"v3", b"v4", b"v7"]
    ended = mirror(link, topic, marker(10, ids[2], commit=False), base_offset=10)
    assert ended.error_code == 0
    assert _up_to_the_end(consumer) == [b"v9"]
    consumer.close()


def _up_to_the_end(consumer: Consumer) -> list[bytes | None]:
    """What comes before the end of what may be seen."""
    seen = []
    while (message := consumer.poll(30)) is not None and not message.error():
        seen.append(message.value())
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    return seen


def test_a_request_that_does_not_follow_on_the_log_is_told_where_it_ends(
    link: SyncClient, topic: str
) -> None:
    """The same batch again, one before it is there, a damaged one: the log stays as it is."""
    mirror(link, topic)
    assert mirror(link, topic, at(0, 5), base_offset=0).error_code == 0
    for records, base in ((at(0, 5), 0), (at(9), 9), (at(4), 4)):
        result = mirror(link, topic, records, base_offset=base)
        assert error_of(result) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (result.log_start_offset, result.log_end_offset, result.high_watermark) == (0, 5, 5)
    for records, code in (
        (at(5)[:-1], ErrorCode.CORRUPT_MESSAGE),
        (at(5)[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (at(6) + at(5), ErrorCode.INVALID_RECORD),
        (at(4), ErrorCode.INVALID_RECORD),
    ):
        result = mirror(link, topic, records, base_offset=5)
        assert (error_of(result), result.log_end_offset) == (code, 5)
        assert result.error_message


def test_only_the_newest_generation_that_has_claimed_may_append(
    link: SyncClient, topic: str
) -> None:
    """An older one is fenced, a newer one has to claim first."""
    assert error_of(mirror(link, topic, at(0), base_offset=0)) is ErrorCode.STALE_MEMBER_EPOCH
    mirror(link, topic, generation=5)
    assert mirror(link, topic, at(0), base_offset=0, generation=5).error_code == 0
    newer = mirror(link, topic, at(1), base_offset=1, generation=6)
    assert error_of(newer) is ErrorCode.STALE_MEMBER_EPOCH
    assert mirror(link, topic, generation=6).mirror_generation == 6
    for records in (at(1), None):
        older = mirror(link, topic, records, base_offset=1, generation=5)
        assert error_of(older) is ErrorCode.FENCED_MEMBER_EPOCH
        assert older.mirror_generation == 6
    assert mirror(link, topic, at(1), base_offset=1, generation=6).error_code == 0
    set_topic(link, topic, {"mirror.generation": "8"})
    fenced = mirror(link, topic, at(2), base_offset=2, generation=6)
    assert error_of(fenced) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error_of(mirror(link, topic, generation=7)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error_of(mirror(link, topic, generation=-1)) is ErrorCode.INVALID_REQUEST
    assert mirror(link, topic, generation=8).error_code == 0


def test_records_that_were_read_under_another_leader_are_refused(
    link: SyncClient, topic: str
) -> None:
    epoch = mirror(link, topic).leader_epoch
    for other, code in (
        (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (epoch - 1, ErrorCode.FENCED_LEADER_EPOCH),
    ):
        if other >= 0:
            assert error_of(mirror(link, topic, at(0), base_offset=0, epoch=other)) is code
    assert mirror(link, topic, at(0), base_offset=0, epoch=epoch).error_code == 0


def test_another_cluster_or_a_topic_that_is_not_mirrored_is_refused(
    link: SyncClient, topic: str
) -> None:
    for name, source in ((topic, "a-third-cluster"), ("plain", THERE)):
        if name == "plain":
            commands.create_topic(link, name, partitions=1, replication_factor=1)
        result = mirror(link, name, source=source)
        assert error_of(result) is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert result.error_message


def test_a_mirrored_topic_takes_nothing_from_anybody_else(
    site: RunningCluster, link: SyncClient, topic: str
) -> None:
    """Produce over any listener, DeleteRecords and DeleteTopics; all of it works once the topic is
    none any more, where the mirror is refused."""
    mirror(link, topic)
    mirror(link, topic, at(0, 3), base_offset=0)
    with SyncClient(site.bootstrap, "client") as ordinary:
        for client in (ordinary, link):
            assert _produce(client, topic) == ErrorCode.NOT_ENOUGH_REPLICAS
            assert _delete_records(client, topic, 1) == ErrorCode.POLICY_VIOLATION
            with pytest.raises(BusError) as caught:
                commands.delete_topic(client, topic)
            assert caught.value.code is ErrorCode.POLICY_VIOLATION
        set_topic(ordinary, topic, {"mirror.source.cluster.id": None})
        assert _produce(ordinary, topic) == ErrorCode.NONE
        refused = mirror(link, topic, at(4), base_offset=4)
        assert error_of(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert refused.log_end_offset == 4
        assert _delete_records(ordinary, topic, 1) == ErrorCode.NONE
        commands.delete_topic(ordinary, topic)


def _produce(client: SyncClient, topic: str) -> int:
    def body(version: int) -> ProduceRequest:
        found = queries.topics(client, [topic])[0]
        data = PartitionProduceData(records=bytes(build_batch([Record(b"k", b"v")])))
        return ProduceRequest(
            acks=-1, timeout_ms=10_000,
            topic_data=[TopicProduceData(topic, _uuid(found.topic_id), [data])],
        )  # fmt: skip

    answer = client.request_node(NODE, ApiKey.PRODUCE, body)
    result = answer.responses[0].partition_responses[0]
    if result.error_code:
        assert "mirrored from cluster" in result.error_message
    return int(result.error_code)


def _uuid(topic_id: object) -> bytes:
    return topic_id if isinstance(topic_id, bytes) else bytes.fromhex(str(topic_id))


def _delete_records(client: SyncClient, topic: str, offset: int) -> int:
    asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    answer = client.request_node(
        NODE, ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], 10_000)
    )
    return int(answer.topics[0].partitions[0].error_code)


def test_the_log_begins_where_the_sources_does(link: SyncClient, topic: str) -> None:
    """A new one, one whose oldest records the source has deleted, and one of which it has deleted
    everything and more; never before it began already."""
    begun = mirror(link, topic, start=1000)
    assert (begun.error_code, begun.log_start_offset, begun.log_end_offset) == (0, 1000, 1000)
    sent = at(1000, 10) + at(1010, 10)
    assert mirror(link, topic, sent, base_offset=1000, start=500).log_start_offset == 1000
    deleted = mirror(link, topic, start=1010)
    assert (deleted.log_start_offset, deleted.log_end_offset) == (1010, 1020)
    assert read_all(link, topic, NODE, 1010, 1020) == at(1010, 10)
    both = mirror(link, topic, at(1020, 5), base_offset=1020, start=1022)
    assert (both.log_start_offset, both.log_end_offset) == (1022, 1025)
    emptied = mirror(link, topic, start=5000)
    assert (emptied.log_start_offset, emptied.log_end_offset) == (5000, 5000)
    assert emptied.high_watermark == 5000
    assert mirror(link, topic, at(5003), base_offset=5000).log_end_offset == 5004
    assert read_all(link, topic, NODE, 5000, 5004) == at(5003)


def test_a_topic_of_the_cluster_itself_cannot_be_mirrored(link: SyncClient) -> None:
    with pytest.raises(BusError) as caught:
        create_mirrored(link, "__transaction_state")
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_describe_configs_shows_the_keys_of_a_mirror(link: SyncClient, topic: str) -> None:
    """A topic's where they are set, and the site's number, which two sites must not share."""
    shown = {one.name: one.value for one in queries.configs(link, 2, topic)}
    assert shown["mirror.source.cluster.id"] == THERE
    shown = {one.name: one.value for one in queries.configs(link, BROKER_KIND, str(NODE))}
    assert (shown["site.number"], shown["mirror.listener.name"]) == ("7", "MIRROR")


def test_no_request_of_random_bytes_harms_the_broker(
    link: SyncClient, topic: str, dice: random.Random
) -> None:
    """Every answer is typed, and the log is what was appended before."""
    mirror(link, topic)
    mirror(link, topic, at(0, 5), base_offset=0)
    good = bytearray(at(5, 2) + at(9))
    for _ in range(100):
        data = bytearray(good) if dice.random() < 0.7 else bytearray(dice.randbytes(150))
        for _ in range(dice.randrange(1, 4)):
            data[dice.choice([dice.randrange(len(data)), dice.randrange(61)])] = dice.randrange(256)
        result = mirror(link, topic, bytes(data[: dice.randrange(1, len(data))]), base_offset=5)
        assert error_of(result) is not ErrorCode.UNKNOWN_SERVER_ERROR
        if not result.error_code:  # a byte outside the CRC: an offset that still rises, an epoch
            create_again = f"{topic}-{uuid.uuid4().hex[:8]}"
            create_mirrored(link, create_again)
            topic = create_again
            mirror(link, topic)
            mirror(link, topic, at(0, 5), base_offset=0)
    assert mirror(link, topic, bytes(good), base_offset=5).log_end_offset == 10
    assert read_all(link, topic, NODE, 0, 10) == at(0, 5) + bytes(good)


def test_a_first_use_does_not_create_a_topic_that_the_mirror_will(
    site: RunningCluster, link: SyncClient
) -> None:
    """`mirror.reserved.topics`; the mirror creates it, and other names are created as ever."""
    with SyncClient(site.bootstrap, "client") as client:
        for name, code in (
            ("data.vehicle", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("meter.sent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("meter.sent.more", ErrorCode.NONE),
        ):
            asked = MetadataRequest([MetadataRequestTopic(name=name)], True)
            assert client.request(ApiKey.METADATA, asked).topics[0].error_code == code, name
    create_mirrored(link, "data.vehicle")
    assert mirror(link, "data.vehicle").error_code == 0


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss (Debian: iproute2)")
def test_the_connections_of_a_broker_have_the_buffers_of_its_settings(site: RunningCluster) -> None:
    """As the system shows them: twice what was asked for."""
    wire = FrameSocket(site.bootstrap)
    _, port = wire.socket.getsockname()
    shown = subprocess.run(
        ["ss", "-tmnH", "dport", "=", f":{port}"], capture_output=True, text=True, check=True
    ).stdout
    assert "rb400000" in shown, shown
    assert "tb600000" in shown, shown
    wire.close()
