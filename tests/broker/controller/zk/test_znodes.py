"""Znodes are byte for byte those of three brokers of Apache Kafka 3.9.1; older ones are read,
too."""

from __future__ import annotations

import pytest

from broker.controller.zk import znodes
from broker.metadata.image import Endpoint

BROKER = (
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":'
    '["PLAINTEXT://127.0.0.1:24091"],"rack":"r1","jmx_port":-1,"port":24091,"host":"127.0.0.1",'
    '"version":5,"timestamp":"1795267388932"}'
)
TOPIC = (
    '{"partitions":{"0":[1,2,3],"1":[2,3,1],"2":[3,1,2]},"topic_id":"b58UleWOSSusg9gwP1DCFQ",'
    '"adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
CONFIG = '{"version":1,"config":{"min.insync.replicas":"2","retention.ms":"86400000"}}'
CONTROLLER = (
    '{"version":2,"brokerid":1,"timestamp":"1795267389169","kraftControllerEpoch":-1}'
)
BLOCK = '{"version":1,"broker":3,"block_start":"1000","block_end":"1999"}'


def test_a_broker_is_written_as_kafka_writes_it_and_read_back() -> None:
    """Writes version 5 with the rack and the old host and port."""
    info = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "127.0.0.1", 24091),), "r1")
    assert znodes.encode_broker(info, 1795267388932).decode() == BROKER
    assert znodes.decode_broker(1, BROKER.encode()) == info


def test_a_broker_of_kafka_0_8_has_one_plaintext_listener() -> None:
    """Reads version 1 of the specification (G-04)."""
    text = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
    assert znodes.decode_broker(7, text).endpoints == (Endpoint("PLAINTEXT", "h", 9092),)


def test_an_ipv6_listener_survives_the_way_through_the_znode() -> None:
    """Only the text form of an address has brackets."""
    info = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "::1", 9092),))
    assert znodes.decode_broker(1, znodes.encode_broker(info, 1)) == info


def test_a_broker_s_incarnation_is_read_back_and_kafka_s_brokers_have_none() -> None:
    """A process keeps it when its session ends and it registers again."""
    ours = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),), incarnation_id=b"i" * 16)
    assert znodes.decode_broker(1, znodes.encode_broker(ours, 1)) == ours
    theirs = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),))
    text = znodes.encode_broker(theirs, 1)
    assert b"incarnation" not in text
    assert znodes.decode_broker(1, text).incarnation_id == bytes(16)
    with pytest.raises(znodes.ZnodeError):
        znodes.decode_broker(1, text.replace(b'"features"', b'"incarnation":"x","features"'))


def test_a_topic_is_written_as_kafka_writes_it_and_read_back() -> None:
    """Writes version 3 with the topic id."""
    info = znodes.decode_topic("vehicle", TOPIC.encode())
    assert info.partitions == {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
    assert znodes.encode_topic(info).decode() == TOPIC


def test_a_topic_of_an_old_tool_has_no_id() -> None:
    """Version 1 has none; the controller assigns one."""
    info = znodes.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}')
    assert info == znodes.TopicAssignment({0: (1,)})


@pytest.mark.parametrize("text", [
    b"", b"null", b"{", b"[]", b'{"partitions":3}', b'{"partitions":{"0":[]}}',
    b'{"partitions":{"1":[1]}}', b'{"partitions":{"0":["x"]}}',
    b'{"partitions":{"0":[1]},"topic_id":"short"}',
])  # fmt: skip
def test_what_is_no_topic_is_refused_with_its_path(text: bytes) -> None:
    """The parser raises only `ZnodeError`, for any content."""
    with pytest.raises(znodes.ZnodeError, match="/brokers/topics/t"):
        znodes.decode_topic("t", text)


def test_a_state_is_written_as_kafka_writes_it_and_read_back() -> None:
    """Writes version 1."""
    info = znodes.PartitionStateNode(leader=1, leader_epoch=0, isr=(1, 2, 3), controller_epoch=1)
    assert znodes.encode_state(info).decode() == STATE
    assert znodes.decode_state("s", STATE.encode()) == info


def test_configuration_controller_block_cluster_and_notes_are_kafkas() -> None:
    """Checks the remaining znodes of the recording."""
    values = {"min.insync.replicas": "2", "retention.ms": "86400000"}
    assert znodes.encode_config(values).decode() == CONFIG
    assert znodes.decode_config("c", CONFIG.encode()) == values
    assert znodes.encode_controller(1, 1795267389169).decode() == CONTROLLER
    assert znodes.decode_controller(CONTROLLER.encode()) == 1
    assert znodes.encode_producer_block(3, 2000).decode() == BLOCK
    assert znodes.decode_producer_block(BLOCK.encode()) == 2000
    assert znodes.encode_cluster_id("MYXkFygBQCG7zXhRhL08NA") == (
        b'{"version":"1","id":"MYXkFygBQCG7zXhRhL08NA"}'
    )
    assert znodes.encode_change("topics/vehicle") == (
        b'{"version":2,"entity_path":"topics/vehicle"}'
    )
    assert znodes.encode_features({}) == b'{"features":{},"version":2,"status":1}'


def test_notes_of_the_first_version_and_an_empty_block_are_understood() -> None:
    """These are found in an ensemble that older Kafka versions have used."""
    first = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert znodes.decode_change("n", first) == "topics/t"
    assert znodes.decode_producer_block(b"") == 0
