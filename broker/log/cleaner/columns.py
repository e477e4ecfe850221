"""Headers of batches and positions of records as columns, read for a whole piece of a log at once.

In: bytes of batches. Out: arrays with one entry a batch, or one a record. Never: a record as an
object; an exception for what a batch holds: a batch whose records are not what the format says is
marked as not readable, and none of its records is among the columns.

What is refused here is what ``bus.records.read`` refuses, but for names of headers that are no
UTF-8: Apache Kafka reads those.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bus.limits import MAX_HEADERS_PER_RECORD, MAX_RECORDS_PER_BATCH, MAX_VARLONG_BYTES
from bus.records.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader

_FIELDS = (">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4")
_HEADER = np.dtype({"names": BatchHeader._fields, "formats": _FIELDS})

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Headers = NDArray[Any]

_LAST_SHIFT = 7 * (MAX_VARLONG_BYTES - 1)
"""Of the tenth byte of a varint one bit is left for 64 bits."""
MIN_TOGETHER = 8
"""Batches. A round over fewer takes longer than to walk through one after the other."""
_BIT_7, _BITS_0_TO_6 = np.uint8(0x80), np.uint8(0x7F)


def headers_at(buffer: Bytes, positions: Numbers) -> Headers:
    """The headers at these positions: a field of ``BatchHeader`` is a column."""
    rows = buffer[positions[:, None] + np.arange(HEADER_BYTES)]
    columns: Headers = rows.view(_HEADER)[:, 0]
    return columns


class RecordColumns(NamedTuple):
    """All records of the readable batches of a piece, in their order.

    ``batch``: the index of a record's batch. ``start``, ``end``: where it lies in the buffer, its
    length included. ``rest``: where what follows its timestamp begins. ``time_delta``,
    ``offset_delta``: from its batch's base. ``key``, ``key_size``: -1 as size if there is none.
    """

    batch: Numbers
    start: Numbers
    end: Numbers
    rest: Numbers
    time_delta: Numbers
    offset_delta: Numbers
    key: Numbers
    key_size: Numbers
    has_value: Flags

    def where(self, flags: Flags) -> RecordColumns:
        """Some of them."""
        kept: Any = (column[flags] for column in self)
        return RecordColumns(*kept)


class Bodies(NamedTuple):
    """Where the unpacked records of batches lie in a buffer, in the order of the batches; the begin
    is negative for a batch whose records cannot be had."""

    begins: Numbers
    ends: Numbers


def read_columns(
    buffer: Bytes, bodies: Bodies, headers: Headers
) -> tuple[RecordColumns, Flags]:
    """The records of batches, and which batches are not readable."""
    counts = headers["records_count"].astype(np.int64)
    batch, start, end, unreadable = _record_bounds(buffer, bodies, counts)
    records, is_wrong = _parsed(buffer, batch, start, end)
    is_wrong |= _is_out_of_order(batch, records.offset_delta, headers["last_offset_delta"])
    is_wrong |= _is_out_of_time(records.time_delta, headers[batch])
    if is_wrong.any():
        unreadable[batch[is_wrong]] = True
        records = records.where(~unreadable[batch])
    return records, unreadable


def _record_bounds(
    buffer: Bytes, bodies: Bodies, counts: Numbers
) -> tuple[Numbers, Numbers, Numbers, Flags]:
    """Batch, start and end of each record of the batches whose records are as many as they say;
    which batches are not of these. A batch's last record ends where its body does, or is wrong."""
    sizes = bodies.ends - bodies.begins
    unreadable = (bodies.begins < 0) | (counts < 0) | (counts > MAX_RECORDS_PER_BATCH)
    unreadable |= (counts == 0) != (sizes == 0)
    start = _record_starts(buffer, bodies, counts, unreadable)
    found = np.where(unreadable, 0, counts)
    end = np.roll(start, -1)
    ends_batch = np.cumsum(found) - 1
    end[ends_batch[found > 0]] = bodies.ends[found > 0]
    return np.repeat(np.arange(len(found)), found), start, end, unreadable


def _record_starts(
    buffer: Bytes, bodies: Bodies, counts: Numbers, unreadable: Flags
) -> Numbers:
    """Where the records of readable batches begin, in order; marks batches that end too early.

    Each record says where the next one begins. So there is a round for the second record of every
    batch, one for the third and so on; the few batches that have more are walked through.
    """
    going = np.flatnonzero(~unreadable & (counts > 0))
    at = bodies.begins[going]
    owners, starts = [going], [at]
    done, has_more = 1, counts[going] > 1
    going, at = going[has_more], at[has_more]
    while len(going) >= MIN_TOGETHER:
        at, is_wrong = _next_starts(buffer, at, bodies.ends[going])
        unreadable[going[is_wrong]] = True
        owners.append(going)
        starts.append(at)
        done += 1
        has_more = ~is_wrong & (counts[going] > done)
        going, at = going[has_more], at[has_more]
    for number, position in zip(going.tolist(), at.tolist(), strict=True):
        left = int(counts[number]) - done
        rest = _walk(buffer.data, position, int(bodies.ends[number]), left)
        unreadable[number] = len(rest) < left
        owners.append(np.full(len(rest), number))
        starts.append(np.array(rest, np.int64))
    start = np.concatenate(starts)[~unreadable[np.concatenate(owners)]]
    start.sort()  # bodies lie in the order of their batches
    return start


def _next_starts(buffer: Bytes, at: Numbers, ends: Numbers) -> tuple[Numbers, Flags]:
    """Where the records behind those at ``at`` begin, and which ones do not begin in their
    bodies."""
    is_wrong = np.zeros(len(at), np.bool_)
    length, at = _varints(buffer, at, is_wrong)
    is_wrong |= (length < 0) | (length >= ends - at)
    return at + length, is_wrong


def _walk(data: memoryview, at: int, end: int, count: int) -> list[int]:
    """Where ``count`` records behind the one at ``at`` begin; fewer if they leave the body."""
    starts: list[int] = []
    for _ in range(count):
        length = data[at]
        at += 1
        if length > 0x7F:
            second = data[at]  # there is padding after the last body
            at += 1
            if second < 0x80:
                length = length & 0x7F | second << 7
            else:
                length, at = _long_length(data, length, at - 1)
        at += length >> 1
        if length & 1 or at >= end:
            break
        starts.append(at)
    return starts


def _long_length(data: memoryview, first: int, at: int) -> tuple[int, int]:
    """The rest of a varint of more than one byte; what is none is a length beyond every body."""
    raw, shift = first & 0x7F, 7
    while shift < 7 * MAX_VARLONG_BYTES and at < len(data):
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
        shift += 7
    return 2 * len(data), at


def _parsed(
    buffer: Bytes, batch: Numbers, start: Numbers, end: Numbers
) -> tuple[RecordColumns, Flags]:
    """The fields of the records, and which records are wrong. Where one is, positions are kept
    inside of it, and what is read there means nothing."""
    is_wrong = np.zeros(len(start), np.bool_)
    length, attributes = _varints(buffer, start, is_wrong)
    is_wrong |= (length < 0) | (length != end - attributes)
    time_delta, rest = _varints(buffer, attributes + 1, is_wrong)
    offset_delta, at = _varints(buffer, rest, is_wrong)
    key_size, key = _varints(buffer, at, is_wrong)
    at = _skipped(key, key_size, end, is_wrong)
    value_size, at = _varints(buffer, at, is_wrong)
    at = _skipped(at, value_size, end, is_wrong)
    headers, at = _varints(buffer, at, is_wrong)
    if headers.any():
        at = _headers_skipped(buffer, at, headers, end, is_wrong)
    is_wrong |= at != end
    key_size = np.maximum(key_size, -1)
    columns = (batch, start, end, rest, time_delta, offset_delta, key, key_size, value_size >= 0)
    return RecordColumns(*columns), is_wrong


def _varints(buffer: Bytes, at: Numbers, is_wrong: Flags) -> tuple[Numbers, Numbers]:
    """The signed varints at these positions and the positions after them."""
    byte = buffer.take(at, mode="clip")
    raw = (byte & _BITS_0_TO_6).astype(np.uint64)
    at = at + 1
    longer = np.flatnonzero(byte & _BIT_7)
    shift = 7
    while len(longer) and shift < 7 * MAX_VARLONG_BYTES:
        byte = buffer.take(at[longer], mode="clip")
        raw[longer] |= (byte & _BITS_0_TO_6).astype(np.uint64) << np.uint64(shift)
        at[longer] += 1
        if shift == _LAST_SHIFT:
            is_wrong[longer[byte > 1]] = True
        longer = longer[byte & _BIT_7 != 0]
        shift += 7
    is_wrong[longer] = True
    sign = -(raw & np.uint64(1)).astype(np.int64)
    return (raw >> np.uint64(1)).astype(np.int64) ^ sign, at


def _skipped(at: Numbers, size: Numbers, end: Numbers, is_wrong: Flags) -> Numbers:
    """The positions after fields of these sizes, of which a negative one is a field's that is
    null."""
    size = np.maximum(size, 0)
    is_long = size > end - at
    is_wrong |= is_long
    return at + np.where(is_long, 0, size)


def _headers_skipped(
    buffer: Bytes, at: Numbers, counts: Numbers, end: Numbers, is_wrong: Flags
) -> Numbers:
    """The positions after the headers: a round for the first header of each record, one for the
    second, and so on."""
    is_wrong |= (counts < 0) | (counts > MAX_HEADERS_PER_RECORD)
    at = at.copy()
    left = np.flatnonzero((counts > 0) & ~is_wrong)
    for number in range(1, MAX_HEADERS_PER_RECORD + 1):
        if not len(left):
            break
        stop, wrong = end[left], np.zeros(len(left), np.bool_)
        size, position = _varints(buffer, at[left], wrong)
        wrong |= size < 0
        position = _skipped(position, size, stop, wrong)
        size, position = _varints(buffer, position, wrong)
        at[left] = _skipped(position, size, stop, wrong)
        is_wrong[left[wrong]] = True
        left = left[~wrong & (counts[left] > number)]
    return at


def _is_out_of_order(batch: Numbers, delta: Numbers, last_deltas: Numbers) -> Flags:
    """Which records have an offset outside of their batch, or not after the one before."""
    before = np.roll(delta, 1)
    before[np.flatnonzero(batch[1:] != batch[:-1]) + 1] = -1
    before[:1] = -1
    wrong: Flags = (delta <= before) | (delta > last_deltas[batch])
    return wrong


def _is_out_of_time(delta: Numbers, headers: Headers) -> Flags:
    """Which records have a timestamp of more than 64 bits."""
    base = headers["base_timestamp"].astype(np.int64)
    time = base + delta  # which wraps
    overflows: Flags = (base ^ time) & (delta ^ time) < 0
    has_own_times: Flags = headers["attributes"] & LOG_APPEND_TIME == 0
    return overflows & has_own_times
