"""What is sent at A and read at B, for both mirrors the same.

    python -m deploy.bench.mirror.mirror_load rate A:PORT B:PORT data.vehicle A.data.vehicle 1000 30

`backlog`: so many records as fast as they go, until all are at B. `rate` and `warm`: so many a
second for so many seconds; the added delay of a record is when a consumer at B has it less when one
at A has it. `produce`: the same sent, and nobody looks; seconds 0: as fast as they go. One more
word: into so many partitions, from the first one on.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
import time

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.settings import BusSettings

PARTITIONS = 10
PERIOD_S = 0.01
LATE_S = 240.0
"""Until everything is at B; the slower side takes a minute for a million."""
TEXT = b'{"plate_colour":"2","vehicle_class":"K33","lane":3,"direction":"east","id":"%s"}'


class RecordWatcher:
    """When the records of this run come by, at one cluster; by their numbers."""

    def __init__(
        self, bootstrap: str, topic: str, run: bytes, count: int, *, partitions: int, is_new: bool
    ) -> None:
        """`is_new`: the topic may not be there yet."""
        self.seen_s = [0.0] * count
        self._left = count
        self._run = run
        self._bus = BusSettings(bootstrap_servers=bootstrap)
        places = [TopicPartition(topic, n) for n in range(partitions)]
        self._begin = dict.fromkeys(places, 0) if is_new else end_offsets_of(self._bus, places)
        self.complete = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with Consumer(self._bus, client_id="bench") as consumer:
            consumer.assign(self._begin)
            while self._left:
                # The first as soon as it is there: a call for many waits until there are many.
                first = consumer.poll_messages(1, 0.1)
                for message in [*first, *consumer.poll_messages(5000, 0)]:
                    key = message.key() if message.error() is None else None
                    if key is not None and key.startswith(self._run):
                        self._on_record(int(key[len(self._run) :]))
        self.complete.set()

    def _on_record(self, number: int) -> None:
        if not self.seen_s[number]:
            self.seen_s[number] = time.perf_counter()
            self._left -= 1


def end_offsets_of(bus: BusSettings, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the records of this run begin at the earliest."""
    admin = Admin(bus, client_id="bench")
    try:
        return admin.end_offsets(places)
    finally:
        admin.close()


def values(dice: random.Random) -> list[bytes]:
    """Records of a third of a kilobyte that compress as ours do."""
    return [
        TEXT % dice.randbytes(16).hex().encode() + dice.randbytes(40).hex().encode()
        + b'"picture":"http://10.1.2.3:8650/pictures/2026/11/25/09/"' + b" " * 60
        for _ in range(1000)
    ]  # fmt: skip


def main(words: list[str]) -> dict[str, float]:
    """Send and wait."""
    what, source, target, topic, topic_at_b = words[:5]
    rate, seconds = int(words[5]), int(words[6])
    partitions = int(words[7]) if len(words) > 7 else PARTITIONS
    count = rate * seconds or rate
    run = f"{what}-{time.time_ns()}-".encode()
    at_a = at_b = None
    is_new = what == "warm"
    if what != "produce":
        at_b = RecordWatcher(
            target, topic_at_b, run, count, partitions=partitions, is_new=is_new
        )
    if what in ("rate", "warm"):
        at_a = RecordWatcher(source, topic, run, count, partitions=partitions, is_new=is_new)
    producer = Producer(
        BusSettings(bootstrap_servers=source), client_id="bench",
        overrides={"compression.type": "zstd"},
    )  # fmt: skip
    pool, begin = values(random.Random(7)), time.perf_counter()
    for number in range(count):
        if seconds and number % max(int(rate * PERIOD_S), 1) == 0:
            time.sleep(max(begin + number / rate - time.perf_counter(), 0))
        producer.send(
            topic, pool[number % len(pool)], key=run + b"%d" % number, partition=number % partitions
        )
    producer.flush()
    for watcher in filter(None, (at_a, at_b)):
        if not watcher.complete.wait(LATE_S):
            raise SystemExit(f"{sum(map(bool, watcher.seen_s))} of {count} records came")
    found = {"seconds": time.perf_counter() - begin}
    if at_a is not None and at_b is not None:
        added = [(b - a) * 1000 for a, b in zip(at_a.seen_s, at_b.seen_s, strict=True)]
        found["p50_ms"] = statistics.median(added)
        found["p99_ms"] = statistics.quantiles(added, n=100)[98]
    producer.close()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])), flush=True)
