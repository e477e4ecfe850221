"""Verbs beside a broker that answers by halves: in a front before a real one."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from bus.client.kafka.admin import Admin
from bus.client.model import TopicPartition
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response, encode_response, request_header
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC, GROUP = "half", "readers"
_LENGTH = struct.Struct(">i")

Spoil = Callable[[int, Any], bool]
"""May change the answer to an API; False closes the connection instead."""


class Front:
    """A port before a broker: what it answers is spoilt on the way, and it leads back here."""

    def __init__(self, real: str, spoil: Spoil) -> None:
        self._real, self._spoil = real, spoil
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        host, _, port = self._real.rpartition(":")
        with (
            contextlib.suppress(OSError, EOFError),
            client,
            socket.create_connection((host, int(port))) as broker,
        ):
            while True:
                request = _frame(client)
                broker.sendall(_LENGTH.pack(len(request)) + request)
                answer = self._spoilt(request, _frame(broker))
                if answer is None:
                    return
                client.sendall(answer)

    def _spoilt(self, request: bytes, answer: bytes) -> bytes | None:
        header, _ = request_header(memoryview(request))
        key, version = header.api_key, header.api_version
        correlation_id, message = decode_response(key, version, memoryview(answer))
        if not self._spoil(key, message):
            return None
        if key == ApiKey.METADATA:
            self._lead_back(message.brokers)
        elif key == ApiKey.FIND_COORDINATOR:
            self._lead_back([message, *message.coordinators])  # the one place or the other
        else:
            return _LENGTH.pack(len(answer)) + answer
        return b"".join(map(bytes, encode_response(key, version, correlation_id, message)))

    def _lead_back(self, nodes: list[Any]) -> None:
        for node in nodes:
            node.host, node.port = "127.0.0.1", self.port


def _frame(stream: socket.socket) -> bytes:
    return _exactly(stream, _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0])


def _exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


@pytest.fixture(scope="module")
def read_by_a_group(bus: BusSettings) -> BusSettings:
    """A topic of three partitions, and a group that has committed in it."""
    admin = Admin(bus, client_id="half")
    admin.wait_until_up(60)
    admin.create_topic(TOPIC, 3)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bus.bootstrap_servers, "group.id": GROUP}
    )
    places = [confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in range(3)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    admin.close()
    return bus


@pytest.fixture
def reset(read_by_a_group: BusSettings) -> Iterator[Callable[[Spoil], str]]:
    """`groups reset` at a front, as a process: what it says when it fails as it should."""
    fronts: list[Front] = []

    def run(spoil: Spoil) -> str:
        front = Front(read_by_a_group.bootstrap_servers, spoil)
        fronts.append(front)
        words = ["--set", f"bus.bootstrap_servers=127.0.0.1:{front.port}", "groups", "reset", GROUP]
        done = subprocess.run(
            [sys.executable, "-m", "deploy", *words, "--to", "earliest", "--execute"],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stderr

    yield run
    for front in fronts:
        front.close()


def test_a_reset_beside_brokers_that_do_not_lead_yet_says_so(
    reset: Callable[[Spoil], str],
) -> None:
    """And commits nothing: an unknown offset was -1 once, and ended in a traceback."""

    def no_leaders(key: int, message: Any) -> bool:
        if key == ApiKey.METADATA:
            for partition in (p for topic in message.topics for p in topic.partitions):
                partition.leader_id, partition.error_code = -1, 5
        return True

    assert "LEADER_NOT_AVAILABLE" in reset(no_leaders)


@pytest.mark.parametrize(
    "key",
    [ApiKey.OFFSET_FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT],
    ids=["fetching", "listing", "committing"],
)
def test_a_reset_whose_broker_hangs_up_in_the_middle_says_what_to_do(
    reset: Callable[[Spoil], str], key: ApiKey
) -> None:
    """At any point; the client is closed before the interpreter is taken down."""
    error = reset(lambda asked, _: asked != key)
    code, remedy = error.strip().split("\n")
    expected = ("NETWORK_EXCEPTION", "REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "BROKER_NOT_AVAILABLE")
    assert code.startswith(expected)
    assert "`databus" in remedy


def test_a_client_that_is_closed_twice_stays_closed(bus: BusSettings) -> None:
    """And its calls say so rather than reach a handle that is gone."""
    admin = Admin(bus, client_id="closed")
    admin.close()
    admin.close()
    with pytest.raises(RuntimeError):
        admin.topic_names()
    with pytest.raises(RuntimeError):
        admin.end_offsets([TopicPartition("anything", 0)])
    with pytest.raises(RuntimeError):
        admin.committed("anybody")
