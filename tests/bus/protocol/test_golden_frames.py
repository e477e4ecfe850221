"""Exchanges recorded between unmodified clients and Apache Kafka: the oracle.

With 4.3.0, among them clients of which no registry has those releases any more; with 4.4.0, by
`tests/conformance/frame_recorder.py`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.registry import advertised_ranges
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_request, decode_response, encode_request, encode_response

DATA = Path(__file__).parent / "data"
EXCHANGES = {"kafka43": 1371, "kafka44": 293}
WITH_SURPLUS = {"kafka43": 4, "kafka44": 0}

SURPLUS_BYTES = {(3, 13): 3, (51, 0): 1}
"""librdkafka 2.16 sends bytes after the body of some of these requests, which Kafka ignores; we do
not write them. Nothing else differs in any frame."""

every_recording = pytest.mark.parametrize("recording", EXCHANGES)


def golden(recording: str) -> Iterator[dict[str, Any]]:
    """The recorded exchanges."""
    with gzip.open(DATA / f"{recording}_golden.jsonl.gz", "rt") as lines:
        yield from map(json.loads, lines)


@every_recording
def test_every_recorded_request_is_read_and_written_byte_for_byte(recording: str) -> None:
    surplus = []
    for entry in golden(recording):
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
    assert len(surplus) == WITH_SURPLUS[recording]
    assert all("librdkafka" in label or "confluent" in label for label in surplus), surplus


@every_recording
def test_every_recorded_response_is_read_and_written_byte_for_byte(recording: str) -> None:
    count = 0
    for entry in golden(recording):
        frame = bytes.fromhex(entry["response"])
        key, version = entry["api"], entry["version"]
        correlation_id, response = decode_response(key, version, memoryview(frame))
        written = b"".join(encode_response(key, version, correlation_id, response))
        assert written[4:] == frame, (entry["label"], key, version)
        assert int.from_bytes(written[:4], "big") == len(frame)
        count += 1
    assert count == EXCHANGES[recording]


def test_javas_client_of_4_4_names_the_node_and_the_cluster_that_it_means() -> None:
    """KIP-1242: neither to a bootstrap server, both to a node that it has learned."""
    meant = set()
    for entry in golden("kafka44"):
        if (entry["api"], entry["version"]) == (ApiKey.API_VERSIONS, 5):
            _, request = decode_request(memoryview(bytes.fromhex(entry["request"])))
            meant.add((request.cluster_id is None, request.node_id))
    assert meant == {(True, -1), (False, 1)}


def test_what_a_broker_of_ours_advertises_is_what_kafka_4_4_answered() -> None:
    """Version for version, of the APIs that are served here."""
    answers = [
        decode_response(ApiKey.API_VERSIONS, 5, memoryview(bytes.fromhex(entry["response"])))[1]
        for entry in golden("kafka44")
        if (entry["api"], entry["version"]) == (ApiKey.API_VERSIONS, 5)
    ]
    assert answers
    for answer in answers:
        theirs = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        ours = advertised_ranges()
        assert {key: theirs.get(key) for key in ours} == ours
