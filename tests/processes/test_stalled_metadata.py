"""A broker whose metadata log takes seconds to flush: requests independent of it do not wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.servers.databus import RunningBroker, start_broker
from tests.processes.slow_fsync import CannotTrace, check_strace, slow_fsync

pytestmark = pytest.mark.slow
TOPIC = "flow"
STALL_MS = 3000
ENOUGH = 5
"""Round trips during one creation of a topic; a loop that waits for the device makes one or two."""
PATIENCE_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    try:
        check_strace()
    except CannotTrace as why:
        pytest.skip(str(why))
    directory = tmp_path / "metadata"
    running = start_broker(tmp_path / "data", {"metadata.log.dir": str(directory)})
    try:
        yield running
    finally:
        running.stop()


def metadata_files(root: Path) -> list[Path]:
    """The files that Raft flushes: its log, the files beside it, its vote, and their
    directories."""
    directory = root / "__cluster_metadata-0"
    books = ("leader-epoch-checkpoint.tmp", "quorum-state.tmp")
    return [*directory.glob("*.log"), *(directory / name for name in books), directory]


def test_records_and_heartbeats_go_on_while_a_topic_waits_for_the_metadata_log(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Regression: the fsync of a decision ran on the broker's event loop, and for its three seconds
    no request was answered. Now only requests that need the decision wait."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    # A second connection: on one, answers keep the order of their requests.
    asker = AdminClient({"bootstrap.servers": broker.bootstrap})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "readers",
        "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
    })  # fmt: skip
    shares: list[int] = []
    consumer.subscribe([TOPIC], on_assign=lambda _, share: shares.append(len(share)))

    def round_trip(number: int) -> None:
        value = f"{number}".encode()
        producer.produce(TOPIC, value)
        assert producer.flush(PATIENCE_S) == 0
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.value() == value

    try:
        round_trip(0)
        with slow_fsync(broker.pid, STALL_MS, metadata_files(tmp_path / "metadata")):
            made = admin.create_topics([NewTopic("later", 1, 1)])["later"]
            trips = 0
            while not made.done():
                trips += 1
                round_trip(trips)
                assert TOPIC in asker.list_topics(timeout=PATIENCE_S).topics
            made.result(PATIENCE_S)
        assert trips >= ENOUGH
        assert shares == [1]  # no broker was considered dead
    finally:
        consumer.close()
