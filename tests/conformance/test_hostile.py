"""Bytes that no client sends: each closes its own connection and affects nothing else."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker.handlers.registry import SERVED, version_range
from bus.protocol.apis import APIS
from bus.protocol.frames import encode_request
from deploy.bench.hostile_client import connect_unread, fetches
from deploy.servers.databus import RunningBroker


def connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def closes(connection: socket.socket) -> bool:
    """Whether the broker closes the connection within the socket's timeout."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


HOSTILE = {
    "random bytes": random.Random(5).randbytes(1000),
    "a negative length": b"\xff\xff\xff\xfe",
    "an oversized frame": (1 << 30).to_bytes(4, "big"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303"),
    "an empty frame": bytes(4),
    "a frame of one byte": b"\0\0\0\1x",
    "an unknown API": b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\7\xff\xff",
    "an unknown version": b"\0\0\0\x0a\0\3\x7f\xff\0\0\0\7\xff\xff",
    "a truncated request": b"\0\0\0\x0c\0\3\0\x0c\0\0\0\7\xff\xff\0\x7f",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_garbage_closes_the_connection_with_at_most_one_log_line(
    own_broker: RunningBroker, name: str
) -> None:
    """The broker goes on serving all others."""
    before = _closings(own_broker.log_path)
    connection = connect(own_broker.bootstrap)
    connection.sendall(HOSTILE[name])
    assert closes(connection)
    assert _closings(own_broker.log_path) <= before + 1
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    assert admin.list_topics(timeout=10).brokers


def test_many_bad_frames_are_few_log_lines(own_broker: RunningBroker) -> None:
    """The first is logged, the others are counted. Regression: one line for each filled the log."""
    before = _closings(own_broker.log_path)
    for _ in range(200):
        connection = connect(own_broker.bootstrap)
        connection.sendall(HOSTILE["HTTP"])
        assert closes(connection)
        connection.close()
    assert _closings(own_broker.log_path) >= 1
    assert _closings(own_broker.log_path) <= before + 3


UNREAD_CONNECTIONS, UNREAD_FETCHES = 12, 16
MOST_GROWTH_BYTES = 150_000_000
"""Growth of a broker's memory; these fetches request fifteen times as much."""


def test_answers_that_nobody_reads_neither_fill_the_memory_nor_stop_others(
    own_broker: RunningBroker,
) -> None:
    """Regression: all fetches of a connection were answered into memory, gigabytes, and others
    waited for ten seconds. `./databus bench cluster --only unread` is the large version."""
    topic = f"unread-{random.getrandbits(32):x}"
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "batch.size": 900_000})
    for number in range(12_000):
        producer.produce(topic, bytes(1024), partition=0)
        if not number % 1000:
            producer.poll(0)
    assert producer.flush(30) == 0
    process = psutil.Process(own_broker.process.pid)
    before, most = process.memory_info().rss, 0
    held = []
    for _ in range(UNREAD_CONNECTIONS):
        host, _, port = own_broker.bootstrap.rpartition(":")
        connection = connect_unread(host, int(port))
        connection.sendall(fetches(UNREAD_FETCHES, topic, 0))
        held.append(connection)
        assert admin.list_topics(timeout=30).brokers
        most = max(most, process.memory_info().rss - before)
    for _ in range(20):
        producer.produce(topic, b"others go on")
        assert producer.flush(30) == 0
        most = max(most, process.memory_info().rss - before)
    assert most < MOST_GROWTH_BYTES
    for connection in held:
        connection.close()


def test_half_a_frame_is_waited_for_and_forgotten(own_broker: RunningBroker) -> None:
    """It gets no answer and no log line; the broker continues."""
    before = _closings(own_broker.log_path)
    for _ in range(20):
        connection = connect(own_broker.bootstrap)
        connection.sendall((90_000_000).to_bytes(4, "big") + b"half")
        connection.close()
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    assert admin.list_topics(timeout=10).brokers
    assert _closings(own_broker.log_path) == before


def test_mutilated_requests_of_every_api_never_stop_the_broker(
    own_broker: RunningBroker, dice: random.Random, seed: int
) -> None:
    """Valid requests are sent with flipped bits and truncated ends."""
    for key in SERVED:
        low, high = version_range(key)
        version = dice.randint(low, high)
        request = getattr(APIS[key].module, f"{APIS[key].name}Request")()
        frame = bytearray(b"".join(encode_request(key, version, 1, "x", request))[4:])
        for _ in range(dice.randrange(1, 4)):
            frame[dice.randrange(8, len(frame))] = dice.randrange(256)
        cut = bytes(frame[: dice.randrange(8, len(frame) + 1)])
        connection = connect(own_broker.bootstrap)
        connection.sendall(len(cut).to_bytes(4, "big") + cut)
        connection.settimeout(0.02)
        with contextlib.suppress(TimeoutError):
            connection.recv(100)
        connection.close()
    assert own_broker.process.poll() is None, f"seed {seed}"
    assert "Traceback" not in own_broker.log_path.read_text(), f"seed {seed}"


def _closings(path: Path) -> int:
    return path.read_text().count("closing connection")
