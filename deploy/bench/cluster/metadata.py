"""Many partitions: how long they take to make, how long the answer about them takes.

In: a running cluster. Out: figures by name. Never: a wait without a bound.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from functools import partial

import psutil

from bus.client.wire.ports import addresses
from bus.client.wire.sync_client import SyncConnection
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from deploy.bench.cluster.cluster_probe import (
    CLIENT_ID,
    CREATE_TIMEOUT_MS,
    ClusterProbe,
    wait_until,
)
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import NODES, ClusterTarget
from deploy.errors import OperatorError

CREATE = "cluster-create"
METADATA, METADATA_AGAIN = "cluster-metadata", "cluster-metadata-again"
ANSWER_NAMES = (METADATA, METADATA_AGAIN)
ANSWERS = 10
SETTLE_S = 120.0  # ten thousand logs are still being made and flushed when their leaders are known
IDLE_SHARE = 0.05  # of a core, for a second: a node that has nothing left to do
ANSWER_TIMEOUT_MS = 60_000


def create_many(target: ClusterTarget, size: Size) -> float:
    """Seconds until a topic of 1,000 partitions of three copies has all its leaders."""
    probe = ClusterProbe(target.bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
    try:
        began = time.perf_counter()
        probe.create("thousand", size.partitions, 3)
        return time.perf_counter() - began
    finally:
        probe.close()


def answers(
    target: ClusterTarget, names: Sequence[str], size: Size
) -> Iterator[tuple[str, float]]:
    """Milliseconds from the question about all of 10,000 partitions until the whole answer is
    there, medians of ten on one connection: asked first after a change, and asked again, when a
    broker may have kept what it told before. Each answer is decoded when its time has been taken,
    to see that it names them all: what a client needs to decode it says nothing of the broker."""
    probe = ClusterProbe(target.bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
    connection = SyncConnection(
        addresses(target.bootstrap)[0], CLIENT_ID, request_timeout_ms=ANSWER_TIMEOUT_MS
    )
    first_ms, again_ms = [], []
    try:
        for number in range(size.many_topics):
            probe.create(f"many-{number}", size.partitions, 1)
        _wait_until_idle(target)
        for number in range(ANSWERS):
            change = f"change-{number}"
            probe.create(change, 1, 1)
            wait_until(partial(_knows, connection, change), f"the broker asked knows {change}")
            first_ms.append(_answer_ms(connection, size))
            again_ms.append(_answer_ms(connection, size))
    finally:
        connection.close()
        probe.close()
    for name, found_ms in ((METADATA, first_ms), (METADATA_AGAIN, again_ms)):
        if name in names:
            yield name, statistics.median(found_ms)


def _wait_until_idle(target: ClusterTarget) -> None:
    """Until no node works any more, within `SETTLE_S`: the figure is about answers."""
    nodes = [psutil.Process(target.pid(node_id)) for node_id in NODES]
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        before = [sum(node.cpu_times()[:2]) for node in nodes]
        time.sleep(1.0)
        used = [sum(node.cpu_times()[:2]) - was for node, was in zip(nodes, before, strict=True)]
        if max(used) <= IDLE_SHARE:
            return


def _knows(connection: SyncConnection, topic: str) -> bool:
    asked = [MetadataRequestTopic(name=topic)]
    question = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    return not connection.request(ApiKey.METADATA, question).topics[0].error_code


def _answer_ms(connection: SyncConnection, size: Size) -> float:
    question = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    began = time.perf_counter()
    frame = connection.request_frame(ApiKey.METADATA, question)
    taken_ms = (time.perf_counter() - began) * 1000
    found = sum(len(topic.partitions) for topic in connection.decode(frame).topics)
    if found < size.many_topics * size.partitions:
        raise OperatorError(f"the answer names {found} partitions only")
    return taken_ms
