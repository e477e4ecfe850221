"""The broker for unmodified clients: ours, or Apache Kafka 4.4 as the reference.

`DATABUS_CONFORMANCE=kafka` runs the same tests on Apache Kafka; a test that passes there and fails
here shows a bug of ours. `DATABUS_RECORD_FRAMES=FILE` beside it records what the clients and
Apache Kafka say to each other (`frame_recorder`).
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.kafka import start_kafka
from tests.conformance.frame_recorder import FrameRecorder

MEMORY = Path("/dev/shm")
ON_KAFKA = os.environ.get("DATABUS_CONFORMANCE") == "kafka"
RECORDED_TO = os.environ.get("DATABUS_RECORD_FRAMES", "") if ON_KAFKA else ""
_numbers = itertools.count(1)


def _broker(**settings: str) -> Iterator[RunningBroker]:
    """Our broker, with its data in memory if possible."""
    root = tempfile.mkdtemp(prefix="databus-", dir=MEMORY if MEMORY.is_dir() else None)
    keys = {"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "0"}
    running = start_broker(
        root, keys | {name.replace("_", "."): value for name, value in settings.items()}
    )
    yield running
    running.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def own_broker() -> Iterator[RunningBroker]:
    """Our broker with its defaults."""
    yield from _broker()


@pytest.fixture(scope="session")
def validating_broker() -> Iterator[RunningBroker]:
    """Our broker with validation of produced records."""
    yield from _broker(produce_records_validation_enable="true")


@pytest.fixture(scope="session")
def recorded_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a recorder in front of an Apache Kafka that says it is there."""
    recorder = FrameRecorder(Path(RECORDED_TO))
    folder = tmp_path_factory.mktemp("recorded-kafka")
    said = {"advertised.listeners": f"PLAINTEXT://{recorder.address}"}
    with start_kafka(folder, settings=said, heap="512m") as server:
        recorder.target = ("127.0.0.1", server.port)
        yield recorder.address
    recorder.close()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker under test."""
    if RECORDED_TO:
        return str(request.getfixturevalue("recorded_kafka"))
    if ON_KAFKA:
        return str(request.getfixturevalue("apache_kafka").address)
    running: RunningBroker = request.getfixturevalue("own_broker")
    return running.bootstrap


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """confluent-kafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def new_topic(admin: AdminClient) -> Callable[..., str]:
    """Creates a topic with a unique name."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{os.getpid()}-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        wanted = NewTopic(name, partitions, 1, config=settings)
        admin.create_topics([wanted])[name].result(20)
        return name

    return make


@pytest.fixture
def group_id() -> str:
    """A unique group id."""
    return f"group-{os.getpid()}-{next(_numbers)}"
