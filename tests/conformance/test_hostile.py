"""Bytes that no client sends: each closes its own connection and harms nothing else."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from broker.handlers.registry import SERVED, version_range
from broker.server.embedded import RunningBroker
from bus.protocol.apis import APIS
from bus.protocol.frames import encode_request


def connect(bootstrap: str) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def closes(connection: socket.socket) -> bool:
    """Whether the broker closes within the socket's time-out."""
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
def test_garbage_closes_the_connection_with_one_log_line(
    own_broker: RunningBroker, name: str
) -> None:
    """And the broker serves everybody else."""
    before = _closings(own_broker.log_path)
    connection = connect(own_broker.bootstrap)
    connection.sendall(HOSTILE[name])
    assert closes(connection)
    assert _closings(own_broker.log_path) == before + 1
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    assert admin.list_topics(timeout=10).brokers


def test_half_a_frame_is_waited_for_and_forgotten(own_broker: RunningBroker) -> None:
    """No answer, no log line; the broker goes on."""
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
    """Bits flipped and tails cut in requests that were right."""
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
