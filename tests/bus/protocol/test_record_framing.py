"""The framing of persisted messages inside records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from bus.errors import ErrorCode
from bus.protocol.generated import group_records, metadata_records, transaction_records
from bus.protocol.record_framing import (
    decode_key,
    decode_metadata_record,
    decode_versioned,
    encode_key,
    encode_metadata_record,
    encode_versioned,
    version_of,
)
from bus.protocol.wire import ProtocolError


def metadata_values(codecs: list[Any], maker: Any) -> list[tuple[Any, int, bytes]]:
    """Every metadata record in every version: record, version, value."""
    values = []
    for codec in codecs:
        if codec.message.kind == "record" and codec.module is metadata_records:
            for version in codec.decoders:
                record = maker.message(codec, version)
                values.append((record, version, encode_metadata_record(record, version)))
    return values


def test_every_metadata_record_is_framed_and_read(codecs: list[Any], maker: Any) -> None:
    values = metadata_values(codecs, maker)
    assert len(values) > 26
    for record, version, value in values:
        assert decode_metadata_record(value) == (record, version)


@pytest.mark.java
def test_kafka_reads_our_metadata_records(
    codecs: list[Any], maker: Any, run_java: Any, jars_of_kafka_44: list[Path]
) -> None:
    values = metadata_values(codecs, maker)
    stdin = "".join(value.hex() + "\n" for _, _, value in values)
    answers = run_java("MetadataFrames.java", jars_of_kafka_44, stdin=stdin).splitlines()
    assert answers == [f"{type(record).__name__} {value.hex()}" for record, _, value in values]


def test_keys_carry_their_type_and_values_their_version() -> None:
    key = group_records.OffsetCommitKey("readers", "data.vehicle", 3)
    framed = encode_key(1, key, group_records.OFFSET_COMMIT_KEY_ENCODERS)
    assert framed == b"\x00\x01\x00\x07readers\x00\x0cdata.vehicle\x00\x00\x00\x03"
    assert decode_key(framed, group_records.KEYS) == (key, 1)
    value = group_records.OffsetCommitValue(offset=17, leader_epoch=2, metadata="m")
    framed = encode_versioned(value, 3, group_records.OFFSET_COMMIT_VALUE_ENCODERS)
    assert version_of(framed) == 3
    assert decode_versioned(framed, group_records.OFFSET_COMMIT_VALUE_DECODERS) == (value, 3)


def test_a_type_or_version_of_a_later_kafka_is_named_as_such() -> None:
    later = [
        lambda: decode_metadata_record(b"\x01\x7f\x00"),
        lambda: decode_metadata_record(b"\x02\x02\x00"),
        lambda: decode_metadata_record(b"\x01\x02\x63"),
        lambda: decode_key(b"\x00\x63", group_records.KEYS),
        lambda: decode_versioned(b"\x00\x63", transaction_records.TRANSACTION_LOG_VALUE_DECODERS),
    ]
    for decode in later:
        with pytest.raises(ProtocolError) as raised:
            decode()
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_garbage_raises_only_a_protocol_error(
    codecs: list[Any], maker: Any, dice: random.Random
) -> None:
    for _, _, value in metadata_values(codecs, maker):
        for _ in range(5):
            broken = bytearray(value)
            broken[dice.randrange(len(broken))] = dice.randrange(256)
            _try(decode_metadata_record, bytes(broken[: dice.randrange(len(broken) + 1)]))
    for _ in range(500):
        noise = b"\x00" + dice.randbytes(dice.randrange(30))
        _try(lambda noise=noise: decode_key(noise, group_records.KEYS))
        _try(
            lambda noise=noise: decode_versioned(noise, group_records.GROUP_METADATA_VALUE_DECODERS)
        )


def _try(decode: Any, *arguments: Any) -> None:
    try:
        decode(*arguments)
    except ProtocolError:
        return
