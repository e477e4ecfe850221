"""Groups' commits while a switch has closed a topic to them, and the clients people have: they try
again, and the commit is there once the topic is open. librdkafka tells its program after three
tries, which tries again."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import subprocess
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.protocol.apis import ApiKey
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from bus.records.build import build_batch
from bus.records.record import Record
from deploy.servers.databus_cluster import RunningCluster
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars
from tests.broker.mirror.client import SET, create_mirrored, mirror, set_topic

BROKER_KIND = 4
KEY = "mirror.refuses.commits.epoch"
EPOCH_KEY = "mirror.site.epoch"
RECORDS = 5
REFUSALS = 5
"""So often a client has tried before the topic opens."""
WAIT_S = 60.0

CommitAll = Callable[[str, str, str], None]
"""(bootstrap, topic, group): reads all records as a member, and commits; raises if it gave up."""


def librdkafka(bootstrap: str, topic: str, group: str) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group,
                       "enable.auto.commit": False, "auto.offset.reset": "earliest"})  # fmt: skip
    try:
        reader.subscribe([topic])
        for _ in range(RECORDS):
            found = reader.poll(WAIT_S)
            assert found is not None
            assert found.error() is None
        while True:
            try:
                reader.commit(asynchronous=False)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
    finally:
        reader.close()


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    reader = kafka.KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group,
                                 enable_auto_commit=False, auto_offset_reset="earliest")  # fmt: skip
    try:
        for _ in range(RECORDS):
            next(reader)
        reader.commit()
    finally:
        reader.close(autocommit=False)


def aiokafka_client(bootstrap: str, topic: str, group: str) -> None:
    async def read() -> None:
        async with aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as reader:  # fmt: skip
            for _ in range(RECORDS):
                await reader.getone()
            await reader.commit()

    asyncio.run(read())


def java(bootstrap: str, topic: str, group: str) -> None:
    """Kafka's own consumer, which commits synchronously."""
    words = [str(ensure_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp",
             class_path(kafka_jars()), "org.apache.kafka.tools.VerifiableConsumer",
             "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group,
             "--max-messages", str(RECORDS), "--reset-policy", "earliest"]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=WAIT_S)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    commits = [one for one in said if one["name"] == "offsets_committed"]
    assert commits, done.stdout + done.stderr
    assert all(one["success"] for one in commits), commits


CLIENTS = [
    librdkafka, kafka_python, aiokafka_client, pytest.param(java, marks=pytest.mark.java),
]  # fmt: skip


def commits_asked(site: RunningCluster) -> int:
    """OffsetCommit requests so far, from the broker's own metrics."""
    port = site.node(1).metrics_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    api = r"^kafka_network_requestmetrics_requests_total{.*request=\"OffsetCommit\".*} (\S+)$"
    return int(sum(map(float, re.findall(api, text, re.M))))


@pytest.fixture
def closed_topic(link: SyncClient) -> Iterator[str]:
    """With records, read-only, and closed to commits."""
    name = f"commits-wait-{uuid.uuid4().hex[:8]}"
    create_mirrored(link, name)
    assert mirror(link, name).error_code == 0
    records = [Record(b"k", b"%d" % number) for number in range(RECORDS)]
    assert mirror(link, name, bytes(build_batch(records)), base_offset=0).error_code == 0
    epoch = _next_epoch(link)
    commands.alter_configs(link, {(BROKER_KIND, ""): [(EPOCH_KEY, SET, epoch.text)]})
    set_topic(link, name, {KEY: str(epoch.number)})
    yield name
    set_topic(link, name, {KEY: None})


def _next_epoch(link: SyncClient) -> SiteEpoch:
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(BROKER_KIND, "", [EPOCH_KEY])]
    )
    found = link.request(ApiKey.DESCRIBE_CONFIGS, asked).results[0].configs
    numbers = [int(re.findall(r"number=(\d+)", one.value or "number=0")[0]) for one in found]
    return SiteEpoch(max([0, *numbers]) + 1, EpochKind.PLANNED, "there", "here", 0, "o@h")


@pytest.mark.parametrize("commit_all", CLIENTS)
def test_a_commit_waits_in_the_client_until_the_topic_is_open(
    site: RunningCluster, link: SyncClient, closed_topic: str, commit_all: CommitAll
) -> None:
    """It is refused several times, nobody leaves the group for it, and then it is there."""
    group, before = f"g-{uuid.uuid4().hex[:8]}", commits_asked(site)
    outcome: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            commit_all(site.bootstrap, closed_topic, group)
            outcome.put(None)
        except Exception as error:
            outcome.put(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    deadline = time.monotonic() + WAIT_S
    while commits_asked(site) - before < REFUSALS:
        assert time.monotonic() < deadline, "the client does not try again"
        assert outcome.empty(), outcome.get()
        time.sleep(0.05)
    assert committed(site, closed_topic, group) < 0
    set_topic(link, closed_topic, {KEY: None})
    assert outcome.get(timeout=WAIT_S) is None
    thread.join(WAIT_S)
    assert committed(site, closed_topic, group) == RECORDS


def committed(site: RunningCluster, topic: str, group: str) -> int:
    asked = Consumer({"bootstrap.servers": site.bootstrap, "group.id": group})
    try:
        return int(asked.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset)
    finally:
        asked.close()
