"""Many partitions: how long they take to make, how long the answer about them takes.

In: a running cluster. Out: figures by name. Never: a wait without a bound.
"""

from __future__ import annotations

import statistics
import time

from bus.client.nodes import NodeConnection, addresses
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from deploy.bench.cluster.probes import CLIENT_ID, CREATE_TIMEOUT_MS, Probe
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import ClusterTarget
from deploy.errors import OperatorError

CREATE, METADATA = "cluster-create", "cluster-metadata"
ANSWERS = 10
ANSWER_TIMEOUT_MS = 60_000


def create_many(target: ClusterTarget, size: Size) -> float:
    """Seconds until a topic of 1,000 partitions of three copies has all its leaders."""
    probe = Probe(target.bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
    try:
        began = time.perf_counter()
        probe.create("thousand", size.partitions, 3)
        return time.perf_counter() - began
    finally:
        probe.close()


def metadata_answer(target: ClusterTarget, size: Size) -> float:
    """Milliseconds from the question about all of 10,000 partitions until the whole answer is
    there, the median of ten on one connection, so a broker may keep from the first what it tells
    in the others. Each is decoded when its time has been taken, to see that it names them all:
    what a client needs to decode it says nothing of the broker."""
    probe = Probe(target.bootstrap, request_timeout_ms=CREATE_TIMEOUT_MS)
    try:
        for number in range(size.many_topics):
            probe.create(f"many-{number}", size.partitions, 1)
    finally:
        probe.close()
    connection = NodeConnection(
        addresses(target.bootstrap)[0], CLIENT_ID, request_timeout_ms=ANSWER_TIMEOUT_MS
    )
    question = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    times_ms = []
    for _ in range(ANSWERS):
        began = time.perf_counter()
        frame = connection.ask_frame(ApiKey.METADATA, question)
        times_ms.append((time.perf_counter() - began) * 1000)
        answer = connection.understand(frame)
        found = sum(len(topic.partitions) for topic in answer.topics)
        if found < size.many_topics * size.partitions:
            raise OperatorError(f"the answer names {found} partitions only")
    connection.close()
    return statistics.median(times_ms)
