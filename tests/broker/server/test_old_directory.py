"""A data directory of the one-node product, kept as it was written, opens under every later one.

`directory_of_the_first_issue.zip`: topic `kept` with ten records in two partitions written by an
idempotent producer, group `readers` at offset 3 of partition 0; stopped cleanly.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bus.errors import ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import decode_response
from bus.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from deploy.testservers.databus import RunningBroker, start_broker
from tests.broker.handlers.test_every_version import FrameSocket

KEPT = Path(__file__).parent / "directory_of_the_first_issue.zip"
WAIT_S = 60.0
CLUSTER_ID = "be6_DJc8Qm6PeQuNLjnTig"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The unpacked directory, which contains `logs`."""
    with zipfile.ZipFile(KEPT) as kept:
        kept.extractall(tmp_path)
    return tmp_path


def records(running: RunningBroker) -> list[bytes]:
    """Every value of the topic, sorted."""
    reader = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "other"})
    reader.assign([TopicPartition("kept", index, 0) for index in (0, 1)])
    found: list[bytes] = []
    ends = [reader.get_watermark_offsets(TopicPartition("kept", i), timeout=WAIT_S) for i in (0, 1)]
    while len(found) < sum(high for _, high in ends):
        message = reader.poll(WAIT_S)
        assert message is not None, found
        assert message.error() is None, message.error()
        found.append(message.value() or b"")
    reader.close()
    return sorted(found)


def committed(running: RunningBroker) -> int:
    """The old group's committed offsets."""
    reader = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "readers"})
    [place] = reader.committed([TopicPartition("kept", 0)], timeout=WAIT_S)
    reader.close()
    return int(place.offset)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_directory_of_the_first_issue_opens_and_lives_on(directory: Path) -> None:
    """Records, committed offsets, cluster id; written to again, and again after a kill."""
    old = [b"value %d" % number for number in range(10)]
    running = start_broker(directory)
    try:
        assert running.cluster_id == CLUSTER_ID
        assert records(running) == old
        assert committed(running) == 3
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce("kept", b"value new", partition=1)
        assert producer.flush(WAIT_S) == 0
        running.kill()
        running = running.restart()
        assert records(running) == [*old, b"value new"]
    finally:
        running.stop()


def update(running: RunningBroker, *features: tuple[str, int]) -> int:
    """Raise feature levels as kafka-features does; the error."""
    wire = FrameSocket(running.bootstrap)
    version = APIS[ApiKey.UPDATE_FEATURES].latest
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
        for name, level in features
    ]
    wire.send(ApiKey.UPDATE_FEATURES, version, UpdateFeaturesRequest(feature_updates=keys))
    response = decode_response(ApiKey.UPDATE_FEATURES, version, wire.receive())[1]
    wire.close()
    return int(response.error_code)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_old_directory_is_upgraded_by_hand_and_survives_a_kill(directory: Path) -> None:
    """It stays at its level until then; eligible leader replicas need the newer records."""
    running = start_broker(directory)
    try:
        elr = ("eligible.leader.replicas.version", 1)
        assert update(running, elr) == ErrorCode.INVALID_UPDATE_VERSION
        assert update(running, ("metadata.version", 30)) == ErrorCode.NONE
        assert update(running, elr) == ErrorCode.NONE
        running.kill()
        running = running.restart()
        assert update(running, ("metadata.version", 29)) == ErrorCode.INVALID_UPDATE_VERSION
        assert len(records(running)) == 10
        assert committed(running) == 3
    finally:
        running.stop()
