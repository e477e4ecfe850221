"""The one client program of the comparisons: librdkafka in a process of its own, the same words for
both brokers.

    python -m deploy.bench.load produce --bootstrap HOST:PORT --topic T --batch 1 --seconds 5
In: words. Out: one JSON line on stdout. Never: knowing which broker it talks to.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import select
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

FLUSH_TIMEOUT_S = 60
ADMIN_TIMEOUT_S = 30
PARTITIONS = 4
LIBRARY_DEFAULTS = 0
GAP_PAUSE_S = 0.005  # between the records of the longest-gap figures
IDLE_PAUSE_S = 0.01  # between the single records of the latency figure


def produce(words: argparse.Namespace) -> dict[str, Any]:
    """As many records as the broker acknowledges (acks=all) in the time, `--batch` to a batch."""
    producer = Producer(_producer_settings(words))
    value = os.urandom(words.record_bytes)
    dice = random.Random(7)
    sent, start = 0, time.perf_counter()
    deadline = start + words.seconds
    while time.perf_counter() < deadline and sent < words.limit:
        try:
            key = b"%08d" % dice.randrange(words.keys) if words.keys else None
            producer.produce(words.topic, value, key)
            sent += 1
        except BufferError:
            producer.poll(0.001)
    left = producer.flush(FLUSH_TIMEOUT_S)
    seconds = time.perf_counter() - start
    if left:
        raise SystemExit(f"{left} records were not acknowledged")
    return {
        "records": sent,
        "records_per_s": sent / seconds,
        "bytes_per_s": sent * words.record_bytes / seconds,
    }


def acknowledge(words: argparse.Namespace) -> dict[str, Any]:
    """One record at a time on an idle broker: from `produce` to the acknowledgement."""
    producer = Producer({**_producer_settings(words), "linger.ms": 0})
    value = os.urandom(words.record_bytes)
    times_ms: list[float] = []
    producer.produce(words.topic, value)
    producer.flush(FLUSH_TIMEOUT_S)  # connections and metadata are not what is measured
    deadline = time.perf_counter() + words.seconds
    while time.perf_counter() < deadline:
        begin = time.perf_counter()
        producer.produce(words.topic, value)
        while producer.flush(1):
            continue
        times_ms.append((time.perf_counter() - begin) * 1000)
        time.sleep(IDLE_PAUSE_S)
    return {"samples": len(times_ms), **percentiles(times_ms)}


def gap(words: argparse.Namespace) -> dict[str, Any]:
    """A record to partition 0 every few milliseconds until stdin ends: the longest time between two
    acknowledgements. Prints one line when the first came, so that the mishap may begin."""
    producer = Producer({**_producer_settings(words), "linger.ms": 0})
    value = os.urandom(words.record_bytes)
    acked_s: list[float] = []
    producer.produce(words.topic, value, partition=0)
    producer.flush(FLUSH_TIMEOUT_S)
    print(json.dumps({"acknowledged": True}), flush=True)
    lost, deadline = 0, time.perf_counter() + words.seconds

    def on_delivery(error: object, _: object) -> None:
        nonlocal lost
        if error is None:
            acked_s.append(time.perf_counter())
        else:
            lost += 1

    while time.perf_counter() < deadline and not select.select([sys.stdin], [], [], 0)[0]:
        with contextlib.suppress(BufferError):
            producer.produce(words.topic, value, partition=0, on_delivery=on_delivery)
        producer.poll(GAP_PAUSE_S)
    left = producer.flush(FLUSH_TIMEOUT_S)
    gaps = [later - earlier for earlier, later in itertools.pairwise(acked_s)]
    if not gaps or left:
        raise SystemExit(f"{len(acked_s)} acknowledgements came, {left} did not")
    return {"longest_s": max(gaps), "acknowledged": len(acked_s), "lost": lost}


def consume(words: argparse.Namespace) -> dict[str, Any]:
    """Everything the topic holds, from its beginning, by assignment."""
    consumer = Consumer(
        {
            "bootstrap.servers": words.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "fetch.message.max.bytes": 1 << 20,
            "queued.max.messages.kbytes": 1 << 16,
            "check.crcs": False,
        }
    )
    partitions = [TopicPartition(words.topic, n, 0) for n in range(words.partitions)]
    want = sum(consumer.get_watermark_offsets(p, timeout=ADMIN_TIMEOUT_S)[1] for p in partitions)
    consumer.assign(partitions)
    records = octets = 0
    start = time.perf_counter()
    limit = start + words.seconds * 10
    while records < want and time.perf_counter() < limit:
        for message in consumer.consume(5000, timeout=1):
            if message.error() is None:
                records += 1
                octets += len(message)
    seconds = time.perf_counter() - start
    consumer.close()
    if records < want:
        raise SystemExit(f"{records} of {want} records came")
    return {"records": records, "records_per_s": records / seconds, "bytes_per_s": octets / seconds}


def create(words: argparse.Namespace) -> dict[str, object]:
    """The topic all others use."""
    admin = AdminClient({"bootstrap.servers": words.bootstrap, "log_level": 0})
    config = dict(each.split("=", 1) for each in words.config)
    topic = NewTopic(words.topic, words.partitions, words.replication, config=config)
    made = admin.create_topics([topic])
    made[words.topic].result(ADMIN_TIMEOUT_S)
    return {"topic": words.topic}


def percentiles(values: list[float]) -> dict[str, float]:
    """Nearest-rank percentiles."""
    ordered = sorted(values)
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def _producer_settings(words: argparse.Namespace) -> dict[str, object]:
    common = {
        "bootstrap.servers": words.bootstrap,
        "log_level": 0,
        "acks": "all",
        "compression.type": "none",
    }
    if words.batch == LIBRARY_DEFAULTS:
        return {**common, "queue.buffering.max.kbytes": 1 << 17}
    return {
        **common,
        "batch.num.messages": words.batch,
        "batch.size": max(words.record_bytes + 1024, words.batch * words.record_bytes + 1024),
        "linger.ms": 0 if words.batch == 1 else 5,
        "queue.buffering.max.messages": 20_000 if words.batch == 1 else 200_000,
        "queue.buffering.max.kbytes": 1 << 17,
        "sticky.partitioning.linger.ms": 0 if words.batch == 1 else 10,
    }


PROGRAMS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "create": create,
    "produce": produce,
    "acknowledge": acknowledge,
    "consume": consume,
    "gap": gap,
}


def main(arguments: list[str]) -> None:
    """Run one program and print its one line."""
    parser = argparse.ArgumentParser(prog="deploy.bench.load")
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--limit", type=int, default=1 << 40)
    parser.add_argument("--batch", type=int, default=1, help="0: the library's own batches")
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--replication", type=int, default=1, help="-1: the brokers' default")
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--keys", type=int, default=0, help="so many keys, drawn; 0: no key")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
    words = parser.parse_args(arguments)
    print(json.dumps(PROGRAMS[words.program](words)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
