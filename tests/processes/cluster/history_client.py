"""Clients that record what they do and see: one producer or consumer per process.

    python -m tests.processes.cluster.history_client produce --bootstrap B --topic T --number 1 --file F
Runs until stdin ends. In: arguments. Out: a file of events (`tests.checker.history`), one per line.
Never: knowledge of the faults. Times are from the machine's monotonic clock, which all share.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.checker.history import Ack, Commit, Fail, HistoryEvent, Poll, SendEvent, to_line

OPS = 1_000_000_000  # numbers of one client; the next client's follow
PARTITIONS = 3
PAUSE_S = 0.01  # between records: the story is about faults, not about speed
PATIENCE_MS = 280_000  # a record fails only when the story fails anyway
COMMIT_EVERY_S = 0.5
ASK_TIMEOUT_S = 20.0
LOST_COMMIT_S = 90.0  # longer than any request of the library: it will not happen any longer
FINAL_FLUSH_S = 240.0


def now_ms() -> int:
    """Milliseconds of the clock that all clients of one machine share."""
    return time.monotonic_ns() // 1_000_000


def asked_to_stop() -> bool:
    """Whether stdin has ended."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


class Pen:
    """Appends events to the file, line by line, so that a reader sees whole ones."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115

    def write(self, event: HistoryEvent) -> None:
        self._file.write(to_line(event))


def produce(words: argparse.Namespace) -> None:
    """Produces unique values to all partitions in turn; idempotent unless `--plain`.

    A plain producer has one request in flight, so that its order is guaranteed, too.
    """
    pen, name = Pen(words.file), f"producer-{words.number}"
    settings: dict[str, Any] = {
        "bootstrap.servers": words.bootstrap,
        "acks": "all",
        "linger.ms": 2,
        "delivery.timeout.ms": PATIENCE_MS,
        "log_level": 2,
        "reconnect.backoff.max.ms": 1000,
    }
    settings |= (
        {"enable.idempotence": False, "max.in.flight": 1}
        if words.plain
        else {"enable.idempotence": True}
    )
    producer = Producer(settings)
    number = 0

    def delivered(op: int, error: Any, message: Any) -> None:
        if error is None:
            pen.write(Ack(at_ms=now_ms(), op=op, offset=message.offset()))
        else:
            pen.write(Fail(at_ms=now_ms(), op=op, error=str(error)))

    while not asked_to_stop():
        op, partition = words.number * OPS + number, number % PARTITIONS
        value = f"{name}.{number}"
        try:
            producer.produce(
                words.topic, value.encode(), partition=partition,
                on_delivery=lambda error, message, op=op: delivered(op, error, message),
            )  # fmt: skip
        except BufferError:
            producer.poll(PAUSE_S)
            continue
        pen.write(
            SendEvent(
                at_ms=now_ms(), op=op, producer=name, topic=words.topic, partition=partition,
                value=value, idempotent=not words.plain, ordered=not words.plain,
            )
        )  # fmt: skip
        number += 1
        producer.poll(PAUSE_S)
    sys.exit(1 if producer.flush(FINAL_FLUSH_S) else 0)


class HistoryConsumer:
    """A member of a group that records its polls and commits, assignment by assignment."""

    def __init__(self, words: argparse.Namespace) -> None:
        self.name = f"consumer-{words.number}"
        self._pen = Pen(words.file)
        self._words = words
        self._consumer = Consumer(
            {
                "bootstrap.servers": words.bootstrap,
                "group.id": words.group,
                "client.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                "on_commit": self._answered,
            }
        )
        self._assignments = 0
        self._ops: int = words.number * OPS
        self._positions: dict[int, int] = {}
        self._begun: dict[int, bool] = {}
        self._got: dict[int, list[tuple[int, str]]] = {}
        self._committed: dict[int, int] = {}
        self._asked: dict[tuple[int, int], int] = {}
        self._asked_s = 0.0

    def run(self) -> None:
        """Poll and commit until stdin ends."""
        self._consumer.subscribe(
            [self._words.topic], on_assign=self._assigned, on_revoke=self._revoked,
            on_lost=self._lost,
        )  # fmt: skip
        due = time.monotonic() + COMMIT_EVERY_S
        while not asked_to_stop():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._record_poll(message.partition(), message.offset(), message.value())
            if time.monotonic() >= due:
                self._commit()
                due = time.monotonic() + COMMIT_EVERY_S
        self._commit()
        deadline = time.monotonic() + ASK_TIMEOUT_S
        while self._asked and time.monotonic() < deadline:
            self._consumer.poll(0.1)
        os._exit(0)  # not `close`: it may wait for a broker that the library no longer connects to

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Starts at the committed offsets, or at the beginning; unknown ones are left to the
        library, and the first record then shows the position."""
        self._assignments += 1
        self._positions, self._begun, self._got = {}, {}, {}
        self._committed, self._asked = {}, {}
        try:
            committed = consumer.committed(partitions, timeout=ASK_TIMEOUT_S)
        except KafkaException:
            consumer.assign(partitions)
            return
        for each in committed:
            self._begun[each.partition] = each.offset < 0
            each.offset = max(0, int(each.offset))
            self._positions[each.partition] = each.offset
        consumer.assign(committed)

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self._commit()
        self._lost(consumer, _)

    def _lost(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._write()
        self._positions = {}

    def _record_poll(self, partition: int, offset: int, value: bytes) -> None:
        self._positions.setdefault(partition, offset)
        self._got.setdefault(partition, []).append((offset, value.decode()))

    def _write(self) -> None:
        """Writes the records received since the last call."""
        for partition, records in self._got.items():
            position, after = self._positions[partition], records[-1][0] + 1
            self._pen.write(
                Poll(
                    at_ms=now_ms(), consumer=self.name, topic=self._words.topic,
                    assignment=f"{self.name}/{self._assignments}", partition=partition,
                    position=position, next=after, records=records, group=self._words.group,
                    from_beginning=self._begun.get(partition, False),
                )
            )  # fmt: skip
            self._positions[partition] = after
        self._got = {}

    def _commit(self) -> None:
        self._write()
        if self._asked and time.monotonic() < self._asked_s + LOST_COMMIT_S:
            return  # one at a time: a late one must not overtake a newer one
        wanted = {p: o for p, o in self._positions.items() if o > self._committed.get(p, 0)}
        if not wanted:
            return
        self._asked, self._asked_s, places = {}, time.monotonic(), []
        for partition, offset in wanted.items():
            self._asked[partition, offset] = self._note_commit(partition, offset)
            places.append(TopicPartition(self._words.topic, partition, offset))
        # Not a blocking one: it has no timeout in the library, and a story must end even if the
        # library is at fault (it drops every broker when one answer lists none).
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=places, asynchronous=True)

    def _answered(self, error: Any, places: list[TopicPartition]) -> None:
        """Records which requested commits have succeeded; the others are unknown."""
        for each in places or ():
            op = self._asked.pop((each.partition, each.offset), None)
            if op is None or error is not None or each.error is not None:
                continue
            before = self._committed.get(each.partition, 0)
            self._committed[each.partition] = max(before, each.offset)
            self._note(op, each.partition, each.offset, "ok")

    def _note_commit(self, partition: int, offset: int) -> int:
        self._ops += 1
        self._note(self._ops, partition, offset, "asked")
        return self._ops

    def _note(self, op: int, partition: int, offset: int, outcome: str) -> None:
        self._pen.write(
            Commit(
                at_ms=now_ms(), op=op, group=self._words.group, topic=self._words.topic,
                partition=partition, offset=offset, outcome=outcome,
            )
        )  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run one client."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("produce", "consume"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--group", default="story")
    parser.add_argument("--plain", action="store_true")
    words = parser.parse_args(arguments)
    if words.kind == "produce":
        produce(words)
    else:
        HistoryConsumer(words).run()


if __name__ == "__main__":
    main(sys.argv[1:])
