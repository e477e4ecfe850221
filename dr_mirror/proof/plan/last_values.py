"""The last value of each key of a compacted topic, to compare two sites by. Pure.

In: batches of one partition from its log start on, in their order. Out: per key the offset and the
digest of its last committed value; what differs of two sites. Never: a key that only the cleaner of
one site has dealt with called different.

The source may have removed what is superseded behind the offset that both sites have, and
tombstones after `delete.retention.ms`; so a key that the source has written again behind that
offset is not compared, and a tombstone is as good as nothing. A tombstone that the source removed
before it was copied is a difference: the target would keep the value for ever. A transaction counts
when its commit marker comes; what is open or was aborted does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from bus.errors import ErrorCode
from bus.protocol.wire import Buffer
from bus.records.batch import RecordsError, iter_batches
from bus.records.control import ControlType, control_type
from bus.records.read import read_records
from dr_mirror.proof.plan.digests import BatchDifference

DIGEST_BYTES = 16
MAX_KEYS = 200_000
"""Of one side in memory at once, about 60 MB; a topic with more keys is read in several passes,
each of which takes a share of the keys."""
MAX_OPEN_RECORDS = 200_000
"""Of transactions without a marker yet."""
MAX_NAMED = 20
DIFFERS, ONLY_SOURCE, ONLY_TARGET = (
    "the last value of a key differs",
    "only the source has a value of this key",
    "only the target has a value of this key",
)


@dataclass(frozen=True, slots=True)
class LastValue:
    """`digest` is empty for a tombstone."""

    offset: int
    digest: bytes


@dataclass(slots=True)
class LastValues:
    """One side. Invariant: `values` has the last committed value below `end` of every key of this
    share, `later` the keys that were written again at or behind `end`."""

    end: int
    share: int = 0
    shares: int = 1
    values: dict[bytes, LastValue] = field(default_factory=dict)
    later: set[bytes] = field(default_factory=set)
    _open: dict[int, list[tuple[bytes, LastValue]]] = field(default_factory=dict)
    _open_records: int = 0

    def add(self, records: Buffer, position: int) -> int:
        """The whole batches that end behind `position`; the next position. Raises RecordsError."""
        view = memoryview(records)
        for at, header in iter_batches(view):
            if header.end_offset <= position:
                continue
            batch = view[at : at + header.size_bytes]
            if header.is_control:
                self._on_marker(header.producer_id, header.base_offset, batch)
            else:
                for record in read_records(batch):
                    if record.offset >= position and record.key is not None:
                        found = LastValue(record.offset, _digest(record.value))
                        self._on_record(
                            _hash(record.key), found,
                            header.producer_id if header.is_transactional else -1,
                        )  # fmt: skip
            position = header.end_offset
        return position

    def _on_record(self, key: bytes, found: LastValue, producer_id: int) -> None:
        if int.from_bytes(key[:4]) % self.shares != self.share:
            return
        if producer_id < 0:
            self._commit(key, found)
            return
        self._open_records += 1
        if self._open_records > MAX_OPEN_RECORDS:
            raise RecordsError(ErrorCode.INVALID_RECORD, "too many records of open transactions")
        self._open.setdefault(producer_id, []).append((key, found))

    def _on_marker(self, producer_id: int, offset: int, batch: memoryview) -> None:
        kinds = {control_type(record.key) for record in read_records(batch)}
        waiting = self._open.pop(producer_id, [])
        self._open_records -= len(waiting)
        if ControlType.COMMIT in kinds:
            for key, found in waiting:
                if offset >= self.end:  # below it the transaction is still open
                    self.later.add(key)
                else:
                    self._commit(key, found)

    def _commit(self, key: bytes, found: LastValue) -> None:
        if found.offset >= self.end:
            self.later.add(key)
            return
        known = self.values.get(key)
        if known is None or known.offset < found.offset:
            self.values[key] = found
        if len(self.values) + len(self.later) > 2 * MAX_KEYS:
            raise RecordsError(ErrorCode.INVALID_RECORD, "too many keys")


def differing_keys(source: LastValues, target: LastValues) -> list[BatchDifference]:
    """One offset for each key that differs, ascending, the first `MAX_NAMED`."""
    found: list[BatchDifference] = []
    for key in source.values.keys() | target.values.keys():
        if key in source.later:
            continue
        one, other = source.values.get(key), target.values.get(key)
        theirs, ours = one.digest if one else b"", other.digest if other else b""
        if theirs == ours:
            continue
        offset = max(each.offset for each in (one, other) if each is not None)
        detail = ONLY_SOURCE if not ours else ONLY_TARGET if not theirs else DIFFERS
        found.append(BatchDifference(offset, offset + 1, detail))
    return sorted(found, key=lambda each: each.first_offset)[:MAX_NAMED]


def shares_of(offsets: int) -> int:
    """In how many passes a partition of so many offsets is read, as if each had a key of its
    own."""
    return max(-(-offsets // MAX_KEYS), 1)


def _hash(data: Buffer) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def _digest(value: Buffer | None) -> bytes:
    return b"" if value is None else _hash(value)
