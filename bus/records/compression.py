"""The five codecs of record batches, whole buffers in, whole buffers out, bounded.

In: the bytes after a batch header. Out: bytes. Raises RecordsError on what does not unpack.
Never: unbounded output; every unpacker stops at MAX_DECOMPRESSED_BYTES.

snappy is framed as the Java library "xerial" does it (Java and kafka-python write that); unframed
snappy is read too, because librdkafka writes it. lz4 is the standard frame with independent blocks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from struct import error as StructError

import cramjam
import lz4.frame
import zstandard

from bus.errors import ErrorCode
from bus.limits import MAX_DECOMPRESSED_BYTES
from bus.records.batch import Buffer, RecordsError
from bus.records.codecs import Compression as Compression

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_LENGTH = Struct(">i")
_LZ4_HIGHEST = 12  # of liblz4; Kafka takes up to 17 and means the highest by them
_GZIP_WINDOW = 31  # zlib's number for "gzip wrapper, 32 KiB window"


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Pack `data`, at a level of gzip, lz4 or zstd or the codec's own. Raises RecordsError for an
    unknown codec."""
    if level is not None and codec in _AT_LEVEL:
        return _AT_LEVEL[codec](data, level)
    return _codec(_COMPRESSORS, codec)(data)


def decompress(codec: int, data: Buffer) -> bytes:
    """Unpack `data`. Raises RecordsError if it is damaged, unfinished or too large unpacked."""
    unpack = _codec(_DECOMPRESSORS, codec)
    try:
        unpacked = unpack(data)
    except (zlib.error, cramjam.DecompressionError, zstandard.ZstdError) as error:
        raise _damaged(str(error)) from None
    except (RuntimeError, StructError, EOFError, ValueError) as error:  # lz4 raises RuntimeError
        raise _damaged(str(error)) from None
    if len(unpacked) > MAX_DECOMPRESSED_BYTES:
        raise _too_large()
    return unpacked


def _codec(table: dict[int, Callable[[Buffer], bytes]], codec: int) -> Callable[[Buffer], bytes]:
    try:
        return table[codec]
    except KeyError:
        raise RecordsError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {codec}"
        ) from None


def _damaged(detail: str) -> RecordsError:
    return RecordsError(ErrorCode.CORRUPT_MESSAGE, f"records do not unpack: {detail}")


def _too_large() -> RecordsError:
    return RecordsError(
        ErrorCode.MESSAGE_TOO_LARGE, f"more than {MAX_DECOMPRESSED_BYTES} bytes unpacked"
    )


def _gzip(data: Buffer, level: int = -1) -> bytes:
    packer = zlib.compressobj(level, wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Buffer) -> bytes:
    unpacked = b""
    rest = bytes(data)
    while rest:  # gzip allows several members in a row
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        unpacked += member.decompress(rest, MAX_DECOMPRESSED_BYTES + 1 - len(unpacked))
        if len(unpacked) > MAX_DECOMPRESSED_BYTES:
            raise _too_large()
        if not member.eof:
            raise _damaged("gzip data end too early")
        rest = member.unused_data
    return unpacked


def _snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    chunks = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES])))
        chunks += (_LENGTH.pack(len(block)), block)
    return b"".join(chunks)


def _unsnappy(data: Buffer) -> bytes:
    packed = bytes(data)
    if not packed.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(packed, MAX_DECOMPRESSED_BYTES)
    at = len(_XERIAL_HEADER)
    blocks: list[bytes] = []
    room = MAX_DECOMPRESSED_BYTES
    while at < len(packed):
        (size,) = _LENGTH.unpack_from(packed, at)
        at += _LENGTH.size
        if not 0 < size <= len(packed) - at:
            raise _damaged(f"a snappy block of {size} bytes")
        blocks.append(_unsnappy_block(packed[at : at + size], room))
        room -= len(blocks[-1])
        at += size
    return b"".join(blocks)


def _unsnappy_block(block: bytes, room: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > room:
        raise _too_large()
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer, level: int = 0) -> bytes:
    packed: bytes = lz4.frame.compress(
        data,
        compression_level=min(level, _LZ4_HIGHEST),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _unlz4(data: Buffer) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    unpacked: bytes = frame.decompress(data, max_length=MAX_DECOMPRESSED_BYTES + 1)
    if len(unpacked) > MAX_DECOMPRESSED_BYTES:
        raise _too_large()
    if not frame.eof:
        raise _damaged("lz4 data end too early")
    return unpacked


def _zstd(data: Buffer, level: int = 3) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(data)


def _unzstd(data: Buffer) -> bytes:
    frame = zstandard.ZstdDecompressor().decompressobj()
    unpacked: list[bytes] = []
    room = MAX_DECOMPRESSED_BYTES
    for start in range(0, len(data), _ZSTD_STEP_BYTES):
        unpacked.append(frame.decompress(memoryview(data)[start : start + _ZSTD_STEP_BYTES]))
        room -= len(unpacked[-1])
        if room < 0:
            raise _too_large()
    if not frame.eof:
        raise _damaged("zstd data end too early")
    return b"".join(unpacked)


_ZSTD_STEP_BYTES = 1024  # a step of 1 KiB unpacks to some tens of MiB at the very worst

_COMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_AT_LEVEL: dict[int, Callable[[Buffer, int], bytes]] = {
    Compression.GZIP: _gzip,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
