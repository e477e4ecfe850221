"""One record, read from a batch or to be put into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bus.records.batch import NO_TIMESTAMP, Buffer

IN_SEQUENCE = -1

RecordHeaders = Sequence[tuple[str, Buffer | None]]


class Record(NamedTuple):
    """A record with absolute timestamp and offset.

    `offset` is IN_SEQUENCE for a record that is not in a log yet: it follows its predecessor.
    """

    key: Buffer | None
    value: Buffer | None
    headers: RecordHeaders = ()
    timestamp_ms: int = NO_TIMESTAMP
    offset: int = IN_SEQUENCE
