"""A flipped bit in `__consumer_offsets` loses one commit, which is logged, and nothing else.

Committed offsets vanished without a line in any log: the checksum was not looked at.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker.coordinator.group.records import OFFSETS_TOPIC
from tests.broker.coordinator.offsets_broker import OffsetsBroker

GROUPS = 8


@pytest.mark.parametrize("part", range(4))
def test_a_flipped_bit_anywhere_loses_one_commit_at_most_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    """In header, checksum, key or value: the other groups keep their offsets, none gets a wrong
    one."""
    caplog.set_level(logging.ERROR)
    life = OffsetsBroker(str(tmp_path))
    for group in range(GROUPS):
        life.commit(group)
    whole = life.read()
    assert whole == {f"group-{group}": 100 + group for group in range(GROUPS)}
    data = life.path.read_bytes()
    for bit in range(part * 17, 8 * len(data), 4 * 17):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        life.path.write_bytes(flipped)
        life.partition.log.active_segment.forget_cursors()
        caplog.clear()
        found = life.read()
        assert found.items() <= whole.items(), bit
        assert len(found) >= GROUPS - 1, bit
        assert (f"{OFFSETS_TOPIC}-0 is damaged" in caplog.text) is (len(found) < GROUPS), bit


def test_whole_segments_behind_a_rotten_one_are_read(tmp_path: Path) -> None:
    """A header of nonsense in one does not end the reading."""
    life = OffsetsBroker(str(tmp_path))
    life.commit(0)
    first = life.path
    life.partition.log.roll(0)
    life.commit(1)
    first.write_bytes(b"\xff" * first.stat().st_size)
    life.partition.log.segments.first.forget_cursors()
    assert life.read() == {"group-1": 101}
