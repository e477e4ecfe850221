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

from bus.client.admin import queries
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.model import TopicDescription, TopicPartition
from bus.client.wire.one_fetch import FetchFrom, fetched
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError
from bus.protocol.apis import ApiKey
from bus.protocol.wire import Buffer
from bus.records.read import read_all
from bus.settings import BusSettings
from dr_mirror.copy.plan.committed import READ_COMMITTED
from dr_mirror.copy.plan.fetch_session import ConsumerFetchSession

PARTITIONS = 10
PERIOD_S = 0.01
LATE_S = 240.0
"""Until everything is at B; the slower side takes a minute for a million."""
MAX_BYTES, MAX_WAIT_MS = 16 << 20, 500
NEW_TOPIC_S = 0.2
TEXT = b'{"plate_colour":"2","vehicle_class":"K33","lane":3,"direction":"east","id":"%s"}'


class RecordWatcher:
    """When the records of this run come by, at one cluster of one broker; by their numbers.

    It fetches in a session (KIP-227), as Java's consumer and Spark do: librdkafka's names every
    partition in every request, and at a hundred of them their reader would be what is measured.
    """

    def __init__(
        self, bootstrap: str, topic: str, run: bytes, count: int, *, partitions: int, is_new: bool
    ) -> None:
        """`is_new`: the topic may not be there yet."""
        self.seen_s = [0.0] * count
        self._left = count
        self._run = run
        self._bus = BusSettings(bootstrap_servers=bootstrap)
        self._topic = topic
        places = [TopicPartition(topic, n) for n in range(partitions)]
        self._begin = dict.fromkeys(places, 0) if is_new else end_offsets_of(self._bus, places)
        self.complete = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        session = ConsumerFetchSession(MAX_BYTES, READ_COMMITTED)
        with SyncClient.of(self._bus, "bench") as client:
            topic = self._described(client)
            for place, offset in self._begin.items():
                start = FetchFrom(self._topic, offset)
                session.fetch((topic.topic_id, place.partition), start)
            while self._left:
                request = session.next_request(max_bytes=MAX_BYTES, max_wait_ms=MAX_WAIT_MS)
                assert request is not None, "every partition is wanted again after each answer"
                answer = client.request_node(topic.partitions[0].leader, ApiKey.FETCH, request)
                seen_s = time.perf_counter()
                if session.handle_response(answer.error_code, answer.session_id):
                    for data in (one for named in answer.responses for one in named.partitions):
                        end = self._on_records(fetched(data.records), seen_s)
                        if end >= 0:
                            start = FetchFrom(self._topic, end)
                            session.fetch((topic.topic_id, data.partition_index), start)
        self.complete.set()

    def _described(self, client: SyncClient) -> TopicDescription:
        """Once it has all the partitions."""
        while True:
            try:
                [found] = queries.topics(client, [self._topic])
                if len(found.partitions) >= len(self._begin):
                    return found
            except BusError:  # the mirror has not made it yet
                pass
            time.sleep(NEW_TOPIC_S)

    def _on_records(self, records: Buffer, seen_s: float) -> int:
        """Their end; -1: there are none."""
        end = -1
        for header, record in read_all(records):
            end = header.end_offset
            key = bytes(record.key or b"")
            if key.startswith(self._run):
                number = int(key[len(self._run) :])
                if not self.seen_s[number]:
                    self.seen_s[number] = seen_s
                    self._left -= 1
        return end


def end_offsets_of(bus: BusSettings, places: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the records of this run begin at the earliest."""
    admin = Admin(bus, client_id="bench")
    try:
        return admin.end_offsets(places)
    finally:
        admin.close()


def records_in(bootstrap: str, topic: str) -> int:
    """In all partitions of the bench's topic."""
    places = [TopicPartition(topic, n) for n in range(PARTITIONS)]
    return sum(end_offsets_of(BusSettings(bootstrap_servers=bootstrap), places).values())


def values(rng: random.Random) -> list[bytes]:
    """Records of a third of a kilobyte that compress as ours do."""
    return [
        TEXT % rng.randbytes(16).hex().encode() + rng.randbytes(40).hex().encode()
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
        at_b = RecordWatcher(target, topic_at_b, run, count, partitions=partitions, is_new=is_new)
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
