"""What readers refuse by its number alone: the same as Kafka's generated readers."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from bus.limits import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS
from bus.protocol import generated
from bus.protocol.generated import delete_topics, heartbeat, list_groups, metadata, vote
from bus.protocol.wire import ProtocolError, uvarint

AT, BEYOND = 0, 1


def strings(count: int) -> bytes:
    """MetadataRequest 0: names after a length of four bytes."""
    return count.to_bytes(4, "big") + bytes(2 * count)


def compact_strings(count: int) -> bytes:
    """ListGroupsRequest 4: states."""
    return uvarint(count + 1) + b"\1" * count + b"\0"


def structs(count: int) -> bytes:
    """DeleteTopicsRequest 6: a null name, an id, no tags; a time and no tags behind them."""
    return uvarint(count + 1) + bytes(18 * count) + bytes(5)


def tags(count: int) -> bytes:
    """Empty tagged fields, from a tag on that nobody knows."""
    return uvarint(count) + b"".join(uvarint(1000 + each) + b"\0" for each in range(count))


def unknown_tags(count: int) -> bytes:
    """HeartbeatRequest 4: four empty fields; tagged fields that nobody knows."""
    return b"\1" + bytes(4) + b"\1\0" + tags(count)


def unknown_beside_known_tags(count: int) -> bytes:
    """VoteResponse 2 has tagged fields of its own."""
    return bytes(2) + b"\1" + tags(count)


CASES: dict[str, tuple[Any, int, Any, int]] = {
    "Metadata": (metadata, 0, strings, MAX_ARRAY_ELEMENTS),
    "ListGroups": (list_groups, 4, compact_strings, MAX_ARRAY_ELEMENTS),
    "DeleteTopics": (delete_topics, 6, structs, MAX_ARRAY_ELEMENTS),
    "Heartbeat": (heartbeat, 4, unknown_tags, MAX_TAGGED_FIELDS),
    "VoteResponse": (vote, 2, unknown_beside_known_tags, MAX_TAGGED_FIELDS),
}


def decoder(name: str) -> Any:
    """Reads one of the cases."""
    module, version, _, _ = CASES[name]
    tables = "RESPONSE_DECODERS" if name.endswith("Response") else "REQUEST_DECODERS"
    return getattr(module, tables)[version]


@pytest.mark.parametrize("name", CASES)
def test_as_many_as_are_allowed_are_read_and_one_more_is_refused(name: str) -> None:
    _, _, frame, most = CASES[name]
    allowed = frame(most)
    assert decoder(name)(allowed, 0)[1] == len(allowed)
    with pytest.raises(ProtocolError, match="allowed"):
        decoder(name)(frame(most + 1), 0)


def test_every_array_and_every_section_of_tags_of_every_reader_is_bounded() -> None:
    """The generator writes the same lines for each; none is left out."""
    for path in Path(inspect.getfile(generated)).parent.glob("*.py"):
        source = path.read_text("utf-8")
        arrays = re.findall(r"if (.+):\n +raise array_too_long", source)
        assert all(line.endswith("or n > MAX_ARRAY_ELEMENTS") for line in arrays), path.name
        loops = source.count("for _ in range(count):")
        assert source.count("if count > MAX_TAGGED_FIELDS:") == loops, path.name


@pytest.mark.java
def test_kafkas_readers_have_the_same_limits(run_java: Any, jars_of_kafka_44: list[Path]) -> None:
    lines = []
    for name, (_, version, frame, most) in CASES.items():
        kind = name if name.endswith("Response") else f"{name}Request"
        for more in (AT, BEYOND):
            text = frame(most + more).hex()
            lines.append(f"org.apache.kafka.common.message.{kind}Data {version} {text}")
    answers = run_java("Reread.java", jars_of_kafka_44, stdin="\n".join(lines) + "\n").splitlines()
    assert [answer.startswith("failed") for answer in answers] == [False, True] * len(CASES)
    assert all("exceeds the maximum allowed" in answer for answer in answers[1::2]), answers[1::2]
