"""Every API in every version it is served in, over a real socket to a real broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from broker.handlers.registry import advertised_ranges, version_range
from bus.errors import ErrorCode
from bus.protocol.apis import APIS
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.api_versions import ApiVersionsRequest
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from deploy.servers.databus import RunningBroker

REQUEST_OF = {key: APIS[key].name + "Request" for key in advertised_ranges()}
CASES = [
    (key, version)
    for key in advertised_ranges()
    for version in range(version_range(key)[0], version_range(key)[1] + 1)
]


class FrameSocket:
    """A client that speaks frames."""

    def __init__(self, bootstrap: str, source: str = "") -> None:
        """`source`: the address it speaks from, where that matters."""
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection(
            (host, int(port)), timeout=60, source_address=(source, 0) if source else None
        )

    def send(self, key: int, version: int, request: object, correlation_id: int = 7) -> None:
        self.socket.sendall(b"".join(encode_request(key, version, correlation_id, "t", request)))

    def receive(self) -> bytes:
        length = int.from_bytes(self._exactly(4), "big")
        return self._exactly(length)

    def ask(self, key: int, version: int, request: object) -> Any:
        """The response. Raises ConnectionError."""
        self.send(key, version, request)
        return decode_response(key, version, self.receive())[1]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def wire(shared_broker: RunningBroker) -> Iterator[FrameSocket]:
    client = FrameSocket(shared_broker.bootstrap)
    yield client
    client.close()


@pytest.mark.parametrize(("key", "version"), CASES)
def test_a_default_request_of_every_version_gets_an_answer_of_that_version(
    wire: FrameSocket, key: int, version: int
) -> None:
    """The answer decodes in the requested version and has the same correlation id."""
    request = getattr(APIS[key].module, REQUEST_OF[key])()
    if key == 0:
        request.acks = -1
    wire.send(key, version, request, correlation_id=1000 + version)
    correlation_id, _ = decode_response(key, version, wire.receive())
    assert correlation_id == 1000 + version


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(wire: FrameSocket) -> None:
    """KIP-511: error 35 and the range, for any request."""
    frame = bytearray(b"".join(encode_request(18, 3, 5, "t", ApiVersionsRequest())))
    frame[6:8] = (99).to_bytes(2, "big")
    wire.socket.sendall(frame)
    correlation_id, response = decode_response(18, 0, wire.receive())
    assert correlation_id == 5
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.min_version, key.max_version) for key in response.api_keys] == [(0, 5)]


def test_produce_is_advertised_from_version_0(wire: FrameSocket) -> None:
    """KAFKA-18659: librdkafka stops compressing otherwise; version 0 itself is refused."""
    named = {"client_software_name": "t", "client_software_version": "1"}
    wire.send(18, 4, ApiVersionsRequest(**named))
    _, response = decode_response(18, 4, wire.receive())
    ranges = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
    assert ranges[0] == (0, 13)
    assert "transaction.version" not in {key.name for key in response.finalized_features}


def test_bytes_behind_a_request_are_ignored(wire: FrameSocket) -> None:
    """librdkafka sends three after some Metadata requests; Kafka ignores them."""
    frame = b"".join(encode_request(3, 12, 9, "t", MetadataRequest(topics=[])))
    longer = frame[4:] + b"\0\0\0"
    wire.socket.sendall(len(longer).to_bytes(4, "big") + longer)
    correlation_id, _ = decode_response(3, 12, wire.receive())
    assert correlation_id == 9


def test_acks_0_gets_no_response_and_the_next_request_is_answered(wire: FrameSocket) -> None:
    """The first answer on the connection is the second request's."""
    _create(wire, "acks-0")
    wire.send(0, 9, _produce("acks-0", acks=0), 2)
    wire.send(3, 12, MetadataRequest(topics=[]), 3)
    correlation_id, _ = decode_response(3, 12, wire.receive())
    assert correlation_id == 3


def test_pipelined_requests_are_answered_in_order_even_if_one_waits(wire: FrameSocket) -> None:
    """A waiting fetch delays only later requests on its connection."""
    _create(wire, "ordered")
    fetch = APIS[1].module
    waiting = fetch.FetchRequest(
        max_wait_ms=300,
        min_bytes=1,
        topics=[
            fetch.FetchTopic(
                topic="ordered",
                partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=1000)],
            )
        ],
    )
    wire.send(1, 11, waiting, 1)
    wire.send(3, 12, MetadataRequest(topics=[]), 2)
    assert [int.from_bytes(wire.receive()[:4], "big") for _ in range(2)] == [1, 2]


def test_a_fetch_inside_a_batch_gives_the_whole_batch(wire: FrameSocket) -> None:
    """Skipping it made records unreachable in other brokers."""
    _create(wire, "inside")
    wire.send(0, 9, _produce("inside", acks=-1, records=5))
    wire.receive()
    fetch = APIS[1].module
    asked = fetch.FetchRequest(
        max_wait_ms=0,
        topics=[
            fetch.FetchTopic(
                topic="inside",
                partitions=[
                    fetch.FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1)
                ],
            )
        ],
    )
    wire.send(1, 11, asked)
    _, response = decode_response(1, 11, wire.receive())
    data = response.responses[0].partitions[0]
    assert int.from_bytes(bytes(data.records[:8]), "big") == 0
    assert data.high_watermark == 5


def _produce(topic: str, *, acks: int, records: int = 1) -> ProduceRequest:
    batch = build_batch([Record(None, b"v", timestamp_ms=1) for _ in range(records)])
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def _create(wire: FrameSocket, topic: str) -> None:
    asked = APIS[3].module.MetadataRequestTopic(name=topic)
    wire.send(3, 9, MetadataRequest(topics=[asked], allow_auto_topic_creation=True), 99)
    _, response = decode_response(3, 9, wire.receive())
    assert response.topics[0].error_code == 0
