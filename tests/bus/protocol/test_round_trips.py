"""Every message in every version, with random content: written, read; cut and garbled too."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from bus.protocol.frames import decode_request, decode_response, request_header
from bus.protocol.generate import sources, stale
from bus.protocol.wire import ProtocolError

VALUES_PER_VERSION = 5
GARBLED_PER_VERSION = 6


def test_the_committed_codec_is_what_the_tables_say() -> None:
    assert stale(sources()) == [], "run `python -m bus.protocol.generate`"


def test_what_was_written_is_read_in_every_version(codecs: list[Any], maker: Any) -> None:
    for codec in codecs:
        for version, decode in codec.decoders.items():
            for _ in range(VALUES_PER_VERSION):
                message = maker.message(codec, version)
                written = codec.encode(message, version)
                where = f"{codec.message.name} {version}"
                assert decode(written, 0) == (message, len(written)), where
                assert decode(memoryview(b"?" + written), 1)[0] == message, where


def test_defaults_can_be_written_and_read(codecs: list[Any]) -> None:
    for codec in codecs:
        empty = getattr(codec.module, codec.message.name)()
        for version, decode in codec.decoders.items():
            written = codec.encode(empty, version)
            assert codec.encode(decode(written, 0)[0], version) == written


def test_every_cut_raises_only_a_protocol_error(codecs: list[Any], maker: Any) -> None:
    for codec in codecs:
        for version, decode in codec.decoders.items():
            written = codec.encode(maker.message(codec, version), version)
            for _ in range(min(GARBLED_PER_VERSION, len(written))):
                cut = written[: maker.dice.randrange(len(written))]
                with pytest.raises(ProtocolError):
                    decode(cut, 0)


def test_garbage_raises_only_a_protocol_error(codecs: list[Any], maker: Any) -> None:
    for codec in codecs:
        for version, decode in codec.decoders.items():
            written = bytearray(codec.encode(maker.message(codec, version), version))
            for _ in range(GARBLED_PER_VERSION):
                _try(decode, garbled(maker.dice, written), 0)


def test_garbage_frames_raise_only_a_protocol_error(dice: random.Random) -> None:
    for _ in range(3000):
        frame = dice.randbytes(dice.randrange(60))
        key, version = dice.randrange(95), dice.randrange(20)
        head = key.to_bytes(2, "big") + version.to_bytes(2, "big")
        for buf in (frame, head + frame):
            _try(decode_request, buf)
            _try(request_header, buf)
        _try(decode_response, key, version, frame)


def garbled(dice: random.Random, sound: bytearray) -> bytes:
    """A copy with some bytes replaced; large lengths are likely among them."""
    broken = bytearray(sound) or bytearray(1)
    for _ in range(dice.randrange(1, 4)):
        broken[dice.randrange(len(broken))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(broken)


def _try(parse: Any, *arguments: Any) -> None:
    with contextlib.suppress(ProtocolError):
        parse(*arguments)
