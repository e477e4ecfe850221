"""1,371 exchanges recorded between unmodified clients and Apache Kafka 4.3.0: the oracle."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bus.protocol.frames import decode_request, decode_response, encode_request, encode_response

GOLDEN = Path(__file__).parent / "data" / "kafka43_golden.jsonl.gz"

SURPLUS_BYTES = {(3, 13): 3, (51, 0): 1}
"""librdkafka 2.16 sends bytes after the body of some of these requests, which Kafka ignores; we do
not write them. Nothing else differs in any frame."""


def golden() -> Iterator[dict[str, Any]]:
    """The recorded exchanges."""
    with gzip.open(GOLDEN, "rt") as lines:
        yield from map(json.loads, lines)


def test_every_recorded_request_is_read_and_written_byte_for_byte() -> None:
    surplus = []
    for entry in golden():
        frame = bytes.fromhex(entry["request"])
        header, request = decode_request(memoryview(frame))
        assert (header.api_key, header.api_version) == (entry["api"], entry["version"])
        chunks = encode_request(
            header.api_key, header.api_version, header.correlation_id, header.client_id, request
        )
        written = b"".join(chunks)[4:]
        if written != frame:
            assert frame.startswith(written)
            assert len(frame) - len(written) == SURPLUS_BYTES[header[:2]], entry["label"]
            surplus.append(entry["label"])
    assert len(surplus) == 4
    assert all("librdkafka" in label or "confluent" in label for label in surplus), surplus


def test_every_recorded_response_is_read_and_written_byte_for_byte() -> None:
    count = 0
    for entry in golden():
        frame = bytes.fromhex(entry["response"])
        key, version = entry["api"], entry["version"]
        correlation_id, response = decode_response(key, version, memoryview(frame))
        written = b"".join(encode_response(key, version, correlation_id, response))
        assert written[4:] == frame, (entry["label"], key, version)
        assert int.from_bytes(written[:4], "big") == len(frame)
        count += 1
    assert count == 1371
