"""Kafka's own command-line tools (4.4), unmodified, and its dump tool on our files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.servers.databus import RunningBroker
from deploy.servers.kafka import run_tool

NewTopic = Callable[..., str]
Tool = Callable[..., str]
ON_KAFKA = os.environ.get("DATABUS_CONFORMANCE") == "kafka"
pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def tool(bootstrap: str, tmp_path: Path) -> Tool:
    """Runs a tool against the broker; returns its output, with which the test fails on an error."""

    def run(name: str, *arguments: str, stdin: bytes = b"", here: bool = False) -> str:
        words = list(arguments) if here else ["--bootstrap-server", bootstrap, *arguments]
        result = run_tool(name, words, folder=tmp_path, stdin=stdin, timeout_s=90)
        text = result.stdout.decode() + result.stderr.decode()
        assert result.returncode == 0, text
        return text

    return run


def test_topics_are_created_described_altered_and_deleted(tool: Tool, group_id: str) -> None:
    """kafka-topics."""
    topic = f"tool-{group_id}"
    tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3",
         "--config", "cleanup.policy=compact")
    described = tool("kafka-topics", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "cleanup.policy=compact" in described
    tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "4")
    assert topic in tool("kafka-topics", "--list")
    tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", "--list")


def test_console_producer_consumer_and_consumer_groups(
    tool: Tool, new_topic: NewTopic, group_id: str
) -> None:
    """They use the Java client's newest protocol versions, with topic ids."""
    topic = new_topic()
    tool("kafka-console-producer", "--topic", topic, stdin=b"one\ntwo\nthree\n")
    read = tool("kafka-console-consumer", "--topic", topic, "--from-beginning",
                "--max-messages", "3", "--group", group_id, "--timeout-ms", "30000")
    assert {"one", "two", "three"} <= set(read.split("\n"))
    described = tool("kafka-consumer-groups", "--describe", "--group", group_id)
    row = next(line.split() for line in described.splitlines() if line.startswith(group_id))
    assert row[1:6] == [topic, "0", "3", "3", "0"]
    reset = tool("kafka-consumer-groups", "--reset-offsets", "--group", group_id, "--topic",
                 topic, "--to-earliest", "--execute")
    assert topic in reset
    tool("kafka-consumer-groups", "--delete", "--group", group_id)
    assert group_id not in tool("kafka-consumer-groups", "--list")


def test_offsets_and_configurations(tool: Tool, bootstrap: str, new_topic: NewTopic) -> None:
    """kafka-get-offsets by time; kafka-configs on topics and brokers."""
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        producer.produce(topic, b"x", timestamp=1000 + number)
    producer.flush(20)
    assert f"{topic}:0:5" in tool("kafka-get-offsets", "--topic", topic)
    assert f"{topic}:0:3" in tool("kafka-get-offsets", "--topic", topic, "--time", "1003")
    tool("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", topic,
         "--add-config", "retention.ms=12345")
    assert "retention.ms=12345" in tool(
        "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic
    )
    assert "log.retention.hours=168" in tool(
        "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
    )


@pytest.mark.skipif(ON_KAFKA, reason="looks at our own files")
def test_the_dump_tool_reads_every_kind_of_our_log_files(
    tool: Tool, own_broker: RunningBroker, new_topic: NewTopic, group_id: str
) -> None:
    """Covers segments with their indexes, committed offsets and the metadata log."""
    topic = new_topic()
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "compression.type": "zstd"})
    for number in range(1000):
        producer.produce(topic, b"value %d" % number, key=b"key")
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": own_broker.bootstrap, "group.id": group_id})
    consumer.commit(offsets=[TopicPartition(topic, 0, 500)], asynchronous=False)
    consumer.close()
    logs = own_broker.data_dir / "logs"
    segment = logs / f"{topic}-0" / "00000000000000000000.log"
    text = _dump(tool, segment, "--print-data-log", "--deep-iteration")
    assert "payload: value 999" in text
    assert "isvalid: false" not in text
    metadata = logs / "__cluster_metadata-0" / "00000000000000000000.log"
    text = _dump(tool, metadata, "--cluster-metadata-decoder")
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic}"' in text
    assert "LeaderChange" in text
    dumped = [
        _dump(tool, path, "--offsets-decoder")
        for path in logs.glob("__consumer_offsets-*/*.log")
        if group_id.encode() in path.read_bytes()
    ]
    assert any('"offset":500' in text for text in dumped)


def _dump(tool: Tool, path: Path, *flags: str) -> str:
    return tool("kafka-dump-log", *flags, "--files", str(path), here=True)
