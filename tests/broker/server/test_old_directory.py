"""Data directories of earlier one-node products, kept as they were written, open under every later
one.

In each: topic `kept` with ten records in two partitions written by an idempotent producer, group
`readers` at offset 3 of partition 0; stopped cleanly. `directory_of_the_first_issue.zip` is at
3.9-IV0, `directory_at_4_3.zip` at 4.3-IV0, the last level before the reference was Kafka 4.4.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bus.errors import ErrorCode
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.unregister_controller import UnregisterControllerRequest
from bus.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from deploy.servers.databus import RunningBroker, start_broker
from tests.broker.handlers.test_every_version import FrameSocket

FOLDER = Path(__file__).parent
WAIT_S = 60.0
FIRST, AT_4_3 = "directory_of_the_first_issue", "directory_at_4_3"
CLUSTER_IDS = {FIRST: "be6_DJc8Qm6PeQuNLjnTig", AT_4_3: "8gGZOU0TQ5C6Jq1Rfjxcng"}


@pytest.fixture
def directory(tmp_path: Path, kept: str) -> Path:
    """The unpacked directory, which contains `logs`."""
    with zipfile.ZipFile(FOLDER / f"{kept}.zip") as packed:
        packed.extractall(tmp_path)
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
@pytest.mark.parametrize("kept", CLUSTER_IDS)
def test_an_old_directory_opens_and_lives_on(directory: Path, kept: str) -> None:
    """Records, committed offsets, cluster id; written to again, and again after a kill."""
    old = [b"value %d" % number for number in range(10)]
    running = start_broker(directory)
    try:
        assert running.cluster_id == CLUSTER_IDS[kept]
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
    request = UpdateFeaturesRequest(feature_updates=keys)
    response = wire.ask(ApiKey.UPDATE_FEATURES, version, request)
    wire.close()
    return int(response.error_code)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kept", [FIRST])
def test_a_first_directory_is_upgraded_by_hand_and_survives_a_kill(directory: Path) -> None:
    """It stays at its level until then; eligible leader replicas need the newer records."""
    running = start_broker(directory)
    try:
        elr = ("eligible.leader.replicas.version", 1)
        assert update(running, elr) == ErrorCode.INVALID_UPDATE_VERSION
        assert update(running, ("metadata.version", 33)) == ErrorCode.NONE
        assert update(running, elr) == ErrorCode.NONE
        running.kill()
        running = running.restart()
        assert update(running, ("metadata.version", 32)) == ErrorCode.INVALID_UPDATE_VERSION
        assert len(records(running)) == 10
        assert committed(running) == 3
    finally:
        running.stop()


def unregister_controller(running: RunningBroker, controller_id: int) -> int:
    """The error."""
    wire = FrameSocket(running.bootstrap)
    request = UnregisterControllerRequest(controller_id)
    response = wire.ask(ApiKey.UNREGISTER_CONTROLLER, 0, request)
    wire.close()
    return int(response.error_code)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kept", [AT_4_3])
def test_a_directory_at_4_3_gets_what_4_4_brings_with_its_level(directory: Path) -> None:
    """And not before, though the program is the newer one from the first start on."""
    running = start_broker(directory)
    try:
        assert unregister_controller(running, 9) == ErrorCode.UNSUPPORTED_VERSION
        running.stop()
        running = running.restart()
        assert unregister_controller(running, 9) == ErrorCode.UNSUPPORTED_VERSION
        assert update(running, ("metadata.version", 33)) == ErrorCode.NONE
        assert unregister_controller(running, 9) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        running.kill()
        running = running.restart()
        assert unregister_controller(running, 9) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        assert update(running, ("metadata.version", 30)) == ErrorCode.INVALID_UPDATE_VERSION
        assert len(records(running)) == 10
    finally:
        running.stop()
