"""Logs of real batches for the tests of the mirror's plans."""

from __future__ import annotations

import random

from bus.records.batch import assign
from bus.records.build import build_batch
from bus.records.record import Record


def a_batch(dice: random.Random, base_offset: int, records: int, epoch: int = 0) -> bytes:
    """One batch of `records` records of random size."""
    batch = build_batch(
        [
            Record(timestamp_ms=1000 + n, key=None, value=dice.randbytes(dice.randrange(60)), headers=())
            for n in range(records)
        ],
        base_offset=base_offset,
    )
    assign(batch, 0, base_offset, epoch)
    return bytes(batch)


def a_log(dice: random.Random, batches: int, start: int = 0, hole: float = 0.2) -> list[tuple[int, int, bytes]]:
    """(base offset, end offset, bytes) ascending, with holes between some."""
    log, at = [], start
    for _ in range(batches):
        if dice.random() < hole:
            at += dice.randrange(1, 9)
        records = dice.randrange(1, 5)
        log.append((at, at + records, a_batch(dice, at, records, dice.randrange(5))))
        at += records
    return log
