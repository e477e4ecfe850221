"""Our own broker, the real one; Kafka's own jars and a way to run a small Java file with them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bus.settings import BusSettings
from deploy.errors import Unavailable
from deploy.servers.databus import RunningBroker, start_broker
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars, zookeeper_era_jars

JAVA_FILES = Path(__file__).parent / "java"
JAVA_TIMEOUT_S = 100

RunJava = Callable[..., str]


@pytest.fixture(scope="session")
def jars_of_kafka_44() -> list[Path]:
    """All jars of Apache Kafka 4.4."""
    try:
        return kafka_jars()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")


@pytest.fixture(scope="session")
def jars_of_kafka_39() -> list[Path]:
    """kafka-clients 3.9, the last with keys 4-7."""
    try:
        return zookeeper_era_jars()
    except Unavailable as missing:
        pytest.skip(f"kafka-clients 3.9: {missing}")


@pytest.fixture(scope="session")
def run_java() -> RunJava:
    """Run a file of tests/bus/java with a class path; its standard output."""

    def run(file: str, jars: list[Path], *arguments: str, stdin: str = "") -> str:
        command = [str(ensure_java()), "-cp", ":".join(map(str, jars))]
        done = subprocess.run(
            [*command, str(JAVA_FILES / file), *arguments],
            input=stdin, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker process on a free port."""
    properties = {"group.initial.rebalance.delay.ms": "0"}
    broker = start_broker(tmp_path_factory.mktemp("broker"), properties)
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def bus(running_broker: RunningBroker) -> BusSettings:
    """Where it is."""
    return BusSettings(bootstrap_servers=running_broker.bootstrap)
