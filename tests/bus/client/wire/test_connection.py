"""The sans-I/O side of a connection: cut anywhere, answered one after another, never fooled."""

from __future__ import annotations

import random

import pytest

from bus.client.wire.connection import ClientConnection, FrameAssembler, UnsupportedVersion
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import LENGTH, decode_request, encode_response
from bus.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from bus.protocol.generated.metadata import MetadataRequest, MetadataResponse
from bus.protocol.wire import ProtocolError


def joined(chunks: object) -> bytes:
    return b"".join(chunks)  # type: ignore[arg-type]


def ready(high: int = 13) -> ClientConnection:
    """A connection whose other side serves ApiVersions and Metadata."""
    made = ClientConnection("test")
    header, _ = decode_request(joined(made.handshake())[4:])
    keys = [
        ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
        ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=high),
    ]
    answer = encode_response(
        ApiKey.API_VERSIONS, header.api_version, header.correlation_id,
        ApiVersionsResponse(api_keys=keys),
    )
    (got,) = made.feed(joined(answer))
    assert made.on_handshake(got.message) is None
    return made


def test_frames_come_out_whole_however_the_stream_is_cut():
    """Small frames, frames larger than the shared buffer, any cut."""
    dice = random.Random(7)
    sizes = [1, 3, 70_000, 5, 65_532, 65_533, 200_000, 2]
    frames = [dice.randbytes(size) for size in sizes]
    stream = b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)
    for _ in range(30):
        assembler, found, at = FrameAssembler(), [], 0
        while at < len(stream):
            into = assembler.writable()
            size = min(len(into), dice.choice([1, 2, 5, 1000, 70_000]), len(stream) - at)
            into[:size] = stream[at : at + size]
            at += size
            found += [bytes(frame) for frame in assembler.received(size)]
        assert found == frames


@pytest.mark.parametrize("length", [0, -1, 1 << 30])
def test_a_length_that_cannot_be_is_refused(length: int):
    """A stream that is not Kafka's costs no memory."""
    with pytest.raises(ProtocolError):
        ClientConnection("test").feed(LENGTH.pack(length))


def test_a_request_goes_in_the_newest_version_both_know():
    """Theirs, ours, and the caller's limit."""
    made = ready(high=9)
    for limit, expected in ((None, 9), (4, 4), (12, 9)):
        _, chunks = made.send(ApiKey.METADATA, lambda _: MetadataRequest(topics=[]), limit)
        assert decode_request(joined(chunks)[4:])[0].api_version == expected


def test_an_api_that_is_not_served_is_refused_before_anything_is_sent():
    """The connection stays usable."""
    made = ready()
    with pytest.raises(UnsupportedVersion):
        made.send(ApiKey.VOTE, lambda _: None)
    assert made.in_flight == 0


def test_an_older_side_is_greeted_again_in_its_version():
    """KIP-511: the answer to an unknown version is version 0 and names the range."""
    made = ClientConnection("test")
    header, _ = decode_request(joined(made.handshake())[4:])
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)],
    )
    answer = encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, refusal)
    (got,) = made.feed(joined(answer))
    again = made.on_handshake(got.message)
    assert again is not None
    assert decode_request(joined(again)[4:])[0].api_version == 2


def test_answers_out_of_order_or_unasked_are_faults():
    """A peer that answers another request is not trusted with the next one."""
    made = ready()
    with pytest.raises(ProtocolError):
        made.feed(joined(encode_response(ApiKey.METADATA, 9, 1, MetadataResponse())))
    correlation_id, _ = made.send(ApiKey.METADATA, lambda _: MetadataRequest(topics=[]), 9)
    wrong = encode_response(ApiKey.METADATA, 9, correlation_id + 1, MetadataResponse())
    with pytest.raises(ProtocolError):
        made.feed(joined(wrong))
