"""Keys and values of a batch's records, for who looks for the newest record of each key.

In: the unpacked bytes of records, how many there are. Out: a table of the newest value of each key.
Never: timestamps, offsets or headers of records, which are skipped unread: that is most of what
``read.read_records`` takes. Raises RecordsError and nothing else, for any bytes.
"""

from __future__ import annotations

from bus.errors import ErrorCode
from bus.records.batch import RecordsError
from bus.records.varint import zagzig

NewestValues = dict[bytes, bytes | None]
"""By key, in the order in which these records were written; None is a tombstone."""


def add_newest(newest: NewestValues, body: bytes, at: int, end: int, count: int) -> int:
    """Put ``count`` records, of which the first begins at ``at`` and the last ends at ``end`` or
    before it, into the table; where they end. Records without a key are left out.

    One function with two varints in it, because it is called for each record of a partition and
    a call takes as long as all the rest.
    """
    try:
        for _ in range(count):
            length, at = zagzig(body, at)
            stop = at + length
            if length < 0 or stop > end:
                raise _malformed(f"a record of {length} bytes")
            at += 1
            while body[at] > 0x7F:  # the timestamp
                at += 1
            at += 1
            while body[at] > 0x7F:  # the offset
                at += 1
            raw = body[at + 1]
            if raw < 0x80:
                length, at = (raw >> 1) ^ -(raw & 1), at + 2
            else:
                length, at = zagzig(body, at + 1)
            key_at = at
            if length > 0:
                at += length
            has_key, key_end = length >= 0, at
            raw = body[at]
            if raw < 0x80:
                length, at = (raw >> 1) ^ -(raw & 1), at + 1
            else:
                length, at = zagzig(body, at)
            value_end = at + length if length > 0 else at
            if value_end > stop:
                raise _malformed("a record does not end where it says")
            if has_key:
                key = body[key_at:key_end]
                newest.pop(key, None)  # it moves to the end
                newest[key] = body[at:value_end] if length >= 0 else None
            at = stop
    except IndexError:
        raise _malformed("a record is cut off") from None
    return at


def _malformed(detail: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, detail)
