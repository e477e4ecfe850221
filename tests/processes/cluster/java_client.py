"""Kafka's own verifiable producer and consumer (Java), and their output as a history.

In: a cluster, a topic. Out: processes; events from the lines they print. Never: another meaning of
a line than Kafka's: a producer's success has value and offset, a consumer's record its position.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars
from tests.checker.history import Ack, AnyEvent, Fail, Poll, SendEvent
from tests.processes.cluster.history_client import OPS

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
PER_SECOND = 50
PATIENCE = "delivery.timeout.ms=280000\nretry.backoff.max.ms=1000\nreconnect.backoff.max.ms=1000\n"


def start_producer(
    folder: Path, bootstrap: str, topic: str, number: int
) -> subprocess.Popen[bytes]:
    """Starts a producer with Kafka's defaults, idempotent with acks=all; it ends on SIGTERM."""
    config = folder / f"java-{number}.properties"
    config.write_text(PATIENCE, encoding="ascii")
    words = ["--topic", topic, "--throughput", str(PER_SECOND), "--value-prefix", str(number)]
    words += ["--max-messages", "-1", "--acks", "-1", "--command-config", str(config)]
    return _start(folder / f"java-{number}.out", PRODUCER, bootstrap, words)


def start_consumer(
    folder: Path, bootstrap: str, topic: str, number: int
) -> subprocess.Popen[bytes]:
    """Starts a consumer in a separate group; it ends on SIGTERM."""
    words = ["--topic", topic, "--group-id", f"java-{number}", "--verbose"]
    words += ["--reset-policy", "earliest"]
    return _start(folder / f"java-{number}.out", CONSUMER, bootstrap, words)


def _start(out: Path, main: str, bootstrap: str, words: list[str]) -> subprocess.Popen[bytes]:
    command = [str(ensure_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-cp", class_path(kafka_jars()), main, "--bootstrap-server", bootstrap, *words]
    with open(out, "wb") as stdout, open(out.with_suffix(".err"), "wb") as stderr:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)


def events(out: Path, number: int, started_ms: int) -> Iterator[AnyEvent]:
    """The events in one client's output, in order, all with the time of its start."""
    reading = _Reading(number, started_ms)
    for line in out.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # killed in the middle of a line
        yield from reading.handle(said)
    yield from reading.rest()


class _Reading:
    """Converts the lines of one client to events.

    Invariant: `_records` are consecutive polls of the current assignment.
    """

    def __init__(self, number: int, started_ms: int) -> None:
        self._number = number
        self._at_ms = started_ms
        self._assignment = 0
        self._records: dict[tuple[str, int], list[tuple[int, str]]] = {}

    def handle(self, said: dict[str, Any]) -> Iterator[AnyEvent]:
        match said.get("name"):
            case "producer_send_success":
                yield from self._sent(said)
            case "producer_send_error":
                yield Fail(at_ms=self._at_ms, op=self._op(said["value"]), error=said["message"])
            case "record_data":
                where = said["topic"], said["partition"]
                self._records.setdefault(where, []).append((said["offset"], said["value"]))
            case "partitions_assigned" | "partitions_revoked":
                yield from self.rest()
                self._assignment += 1

    def rest(self) -> Iterator[AnyEvent]:
        """The records of the ended assignment, as one poll per partition."""
        for (topic, partition), records in self._records.items():
            yield Poll(
                at_ms=self._at_ms, consumer=f"java-{self._number}", topic=topic,
                assignment=f"java-{self._number}/{self._assignment}", partition=partition,
                position=records[0][0], next=records[-1][0] + 1, records=records,
                group=f"java-{self._number}",
            )  # fmt: skip
        self._records = {}

    def _sent(self, said: dict[str, Any]) -> Iterator[AnyEvent]:
        op = self._op(said["value"])
        yield SendEvent(
            at_ms=self._at_ms, op=op, producer=f"java-{self._number}", topic=said["topic"],
            partition=said["partition"], value=said["value"], idempotent=True, ordered=True,
        )  # fmt: skip
        yield Ack(at_ms=self._at_ms, op=op, offset=said["offset"])

    def _op(self, value: str) -> int:
        """`7.123`: the 123rd record of client 7."""
        return self._number * OPS + int(value.rpartition(".")[2])
