"""A read-only topic and the clients people have: they keep the record, and try until their own
time-out, without flooding the broker with requests for metadata."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from bus.client.wire.sync_client import SyncClient
from deploy.servers.databus_cluster import RunningCluster
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars
from tests.broker.mirror.client import create_mirrored, mirror, read_all, set_topic

REFUSALS = 4
"""So often a client has tried before the topic opens."""

WAIT_S = 60.0
SHORT_MS = 1500
MOST_METADATA = 3
"""A client asks once or twice at its start, and once more at a time of its own; after other errors
it asks before every try."""

Send = Callable[[str, str, int], int]
"""(bootstrap, topic, time-out in ms) -> offset; raises if the client gave up."""


def librdkafka(bootstrap: str, topic: str, timeout_ms: int) -> int:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms, "linger.ms": 0}
    )
    answers: queue.SimpleQueue[tuple[object, int]] = queue.SimpleQueue()
    producer.produce(
        topic, b"librdkafka", on_delivery=lambda error, sent: answers.put((error, sent.offset()))
    )
    producer.flush(WAIT_S)
    error, offset = answers.get(timeout=1)
    if error is not None:
        raise TimeoutError(str(error))
    return offset


def kafka_python(bootstrap: str, topic: str, timeout_ms: int) -> int:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, delivery_timeout_ms=timeout_ms,
        request_timeout_ms=1000,
    )  # fmt: skip
    try:
        return int(producer.send(topic, b"kafka-python").get(WAIT_S).offset)
    finally:
        producer.close(1)


def aiokafka(bootstrap: str, topic: str, timeout_ms: int) -> int:
    async def send() -> int:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, request_timeout_ms=timeout_ms
        ) as producer:
            return int((await producer.send_and_wait(topic, b"aiokafka")).offset)

    return asyncio.run(send())


def java(bootstrap: str, topic: str, timeout_ms: int) -> int:
    """Kafka's own producer, with its defaults: idempotent, acks=all, retries without a bound (the
    tool itself says 0)."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as settings:
        settings.write(f"delivery.timeout.ms={timeout_ms}\nrequest.timeout.ms=1000\n")
        settings.write(f"retries={(1 << 31) - 1}\n")
        settings.flush()
        words = [str(ensure_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp",
                 class_path(kafka_jars()), "org.apache.kafka.tools.VerifiableProducer",
                 "--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1",
                 "--command-config", settings.name]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=WAIT_S)
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if said["name"] == "producer_send_success":
            return int(said["offset"])
        if said["name"] == "producer_send_error":
            raise TimeoutError(said["message"])
    raise AssertionError(done.stdout + done.stderr)


@dataclass
class Requests:
    """How many requests of an API the broker has had, from its own metrics."""

    port: int

    def count(self, api: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as page:
            text = page.read().decode()
        found = re.findall(
            rf'^kafka_network_requestmetrics_requests_total{{.*request="{api}".*}} (\S+)$', text, re.M
        )
        return int(sum(map(float, found)))


CLIENTS = [
    librdkafka, kafka_python, aiokafka, pytest.param(java, marks=pytest.mark.java),
]  # fmt: skip


@pytest.fixture
def topic(link: SyncClient) -> str:
    """A mirrored topic that is empty."""
    name = f"waits-{uuid.uuid4().hex[:8]}"
    create_mirrored(link, name)
    mirror(link, name)
    return name


@pytest.mark.parametrize("send", CLIENTS)
def test_a_record_waits_in_the_client_until_the_topic_is_open(
    site: RunningCluster, link: SyncClient, topic: str, send: Send
) -> None:
    """It arrives once, after several refusals, and the broker had no storm of requests."""
    requests = Requests(site.node(1).metrics_port)
    before = {api: requests.count(api) for api in ("Produce", "Metadata")}
    outcome: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put(send(site.bootstrap, topic, int(WAIT_S * 1000)))
        except Exception as error:
            outcome.put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + WAIT_S
    while requests.count("Produce") - before["Produce"] < REFUSALS:
        assert time.monotonic() < deadline, "the client does not try again"
        assert outcome.empty(), outcome.get()
        time.sleep(0.05)
    tries = requests.count("Produce") - before["Produce"]
    asked = requests.count("Metadata") - before["Metadata"]
    set_topic(link, topic, {"mirror.source.cluster.id": None})
    assert outcome.get(timeout=WAIT_S) == 0
    thread.join(WAIT_S)
    assert asked <= MOST_METADATA < tries
    assert read_all(link, topic, 1, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("send", CLIENTS)
def test_a_client_gives_up_when_its_own_time_is_over(
    site: RunningCluster, topic: str, send: Send
) -> None:
    """Not before, and with an error: nothing is dropped silently."""
    began = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)tim|expir|NotEnoughReplicas|in-sync"):
        send(site.bootstrap, topic, SHORT_MS)
    assert time.monotonic() - began > SHORT_MS / 1000 * 0.9
