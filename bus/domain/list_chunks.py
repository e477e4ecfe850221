"""Chunks of a list's lines as they stand on `state.lists`: MessagePack in one zstd frame. Pure.

In: lines, or a chunk's value and what its record says of it. Out: values and their hashes; lines,
or `ListChunkError`. Never: more memory for a value than a chunk may have; lines of a value whose
hash is another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import zstandard

from bus.contracts.plate_lists import FaceChunk, FaceLine, ListChunk, ListLine, NamedChunk

CHUNK_LINES = 10_000
MAX_VALUE_BYTES = 768 * 1024
"""Of a chunk as it is sent: a broker takes a record of 1 MiB."""
MAX_CONTENT_BYTES = 16 << 20  # 10,000 lines with all the text that they may have
LEVEL = 3  # half the time of 6, and 4 % more bytes

Chunk = TypeVar("Chunk", ListChunk, FaceChunk)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ListChunk).decode
_decode_faces = msgspec.msgpack.Decoder(FaceChunk).decode
MAX_FACE_BYTES = 640 * 1024
"""Of a chunk of a gallery before it is compressed: floats hardly get smaller."""
_FACE_LINE_BYTES = 40
"""Of a line beside its texts and its feature."""


class ListChunkError(ValueError):
    """A chunk that cannot be what its list's record names."""


class ChunkValue(NamedTuple):
    """What is sent, and how a record names it."""

    named: NamedChunk
    value: bytes


def chunk_value(number: int, lines: Sequence[ListLine], removed: Sequence[str] = ()) -> ChunkValue:
    """One chunk."""
    return _chunk_of(number, ListChunk(list(lines), list(removed)))


def face_chunk_value(
    number: int, lines: Sequence[FaceLine], removed: Sequence[str] = ()
) -> ChunkValue:
    """One chunk of a gallery."""
    return _chunk_of(number, FaceChunk(list(lines), list(removed)))


def _chunk_of(number: int, chunk: ListChunk | FaceChunk) -> ChunkValue:
    content = _encode(chunk)
    value = zstandard.ZstdCompressor(level=LEVEL).compress(content)
    lines = len(chunk.lines) + len(chunk.removed)
    return ChunkValue(NamedChunk(number, lines, sha256_of(value)), value)


def face_chunks(lines: Iterable[FaceLine]) -> Iterator[ChunkValue]:
    """Of a gallery's base, one after the other as its lines come."""
    waiting: list[FaceLine] = []
    number = size = 0
    for line in lines:
        own = _FACE_LINE_BYTES + len(line.feature) + 4 * len(line.entry) + 4 * len(line.note)
        if waiting and size + own > MAX_FACE_BYTES:
            yield face_chunk_value(number, waiting)
            number, size, waiting = number + 1, 0, []
        waiting.append(line)
        size += own
    if waiting:
        yield face_chunk_value(number, waiting)


def base_chunks(lines: Iterable[ListLine]) -> Iterator[ChunkValue]:
    """Of a base, one after the other as its lines come; fewer lines in those whose notes are so
    long that a broker would refuse them."""
    waiting: list[ListLine] = []
    number = 0
    for line in lines:
        waiting.append(line)
        if len(waiting) == CHUNK_LINES:
            for one in _split(number, waiting):
                yield one
                number += 1
            waiting = []
    if waiting:
        yield from _split(number, waiting)


def _split(number: int, lines: list[ListLine]) -> list[ChunkValue]:
    found = chunk_value(number, lines)
    if len(found.value) <= MAX_VALUE_BYTES or len(lines) == 1:
        return [found]
    half = len(lines) // 2
    first = _split(number, lines[:half])
    return [*first, *_split(number + len(first), lines[half:])]


def sha256_of(value: bytes) -> str:
    """As a record names it."""
    return hashlib.sha256(value).hexdigest()


def read_chunk(named: NamedChunk, value: bytes) -> ListChunk:
    """Raises `ListChunkError`."""
    return _checked(named, _read(named, value, _decode))


def read_face_chunk(named: NamedChunk, value: bytes) -> FaceChunk:
    """Of a gallery. Raises `ListChunkError`."""
    return _checked(named, _read(named, value, _decode_faces))


def _read(named: NamedChunk, value: bytes, decode: Callable[[bytes], Chunk]) -> Chunk:
    if sha256_of(value) != named.sha256:
        raise ListChunkError(f"chunk {named.number} is not the one that the list names")
    try:
        size = zstandard.get_frame_parameters(value).content_size
        if not 0 < size <= MAX_CONTENT_BYTES:
            raise ListChunkError(f"chunk {named.number} would have {size} bytes")
        return decode(zstandard.ZstdDecompressor().decompress(value))
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ListChunkError(f"chunk {named.number} is not readable: {error}") from error


def _checked(named: NamedChunk, chunk: Chunk) -> Chunk:
    if len(chunk.lines) + len(chunk.removed) != named.lines:
        raise ListChunkError(f"chunk {named.number} has not the {named.lines} lines of its name")
    return chunk
