"""What is kept for a second site: the core alone, and a spool over restarts and damage."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from ingest.spool import Delivered, Place, Spool, SpoolEntry, SpoolFull
from ingest.spool.places import decode_rows, encode_rows
from ingest.spool.retained_records import MAX_RUNS, RetainedRecords, is_beyond

MANY = 1 << 30
TOPICS = ("data.vehicle", "data.face")


class Bus:
    """Where records go: offsets per partition, and how far the second site has them."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.ends: dict[Place, int] = {}
        self.copied: dict[Place, int] = {}

    def deliver(self, sequence: int, topic: str | None = None) -> Delivered:
        place = topic or self._dice.choice(TOPICS), self._dice.randrange(3)
        offset = self.ends.get(place, 0) + self._dice.randrange(2)  # others write there, too
        self.ends[place] = offset + 1
        return Delivered(sequence, *place, offset)

    def copy(self) -> dict[Place, int]:
        """The mirror goes on a little; what it says of some partitions."""
        for place, end in self.ends.items():
            have = self.copied.get(place, 0)
            self.copied[place] = min(end, have + self._dice.randrange(1 + max(1, end - have)))
        return {place: end for place, end in self.copied.items() if self._dice.random() < 0.7}

    def is_copied(self, row: Delivered) -> bool:
        return row.offset < self.copied.get((row.topic, row.partition), 0)


def test_nothing_is_released_before_the_second_site_has_it_and_in_the_end_all_is(
    dice: random.Random,
):
    """Random deliveries and confirmations; memory stays bounded."""
    for _ in range(200):
        bus, kept = Bus(dice), RetainedRecords(0)
        rows: list[Delivered] = []
        for _ in range(dice.randrange(1, 40)):
            added = [bus.deliver(len(rows) + each) for each in range(dice.randrange(1, 6))]
            rows += added
            kept.on_delivered(len(rows), added)
            kept.on_confirmed(bus.copy())
            assert all(bus.is_copied(row) for row in rows[: kept.released])
        kept.on_confirmed(bus.ends)
        assert kept.released == len(rows)
        assert kept.uncovered == 0


def test_runs_are_bounded_and_still_release_nothing_early(dice: random.Random):
    """A mirror that stands while thousands of small deliveries come."""
    kept, bus = RetainedRecords(0), Bus(dice)
    rows = [bus.deliver(number) for number in range(4 * MAX_RUNS)]
    for row in rows:
        kept.on_delivered(row.sequence + 1, [row])
    assert len(kept._runs) <= MAX_RUNS
    for _ in range(15):
        kept.on_confirmed(bus.copy())
        assert all(bus.is_copied(row) for row in rows[: kept.released])
    kept.on_confirmed(bus.ends)
    assert kept.released == len(rows)


def test_what_was_dropped_counts_as_uncovered_until_the_mirror_has_it_also_after_a_restart(
    dice: random.Random,
):
    """RPO is not 0 exactly as long as something may be nowhere but at the first site."""
    for _ in range(100):
        bus, kept = Bus(dice), RetainedRecords(0)
        rows = [bus.deliver(number) for number in range(30)]
        for at in range(0, 30, 3):
            kept.on_delivered(at + 3, rows[at : at + 3])
        kept.on_confirmed(bus.copy())
        dropped = dice.randrange(1, 31)
        kept.on_dropped(dropped)
        assert kept.uncovered == max(0, dropped - kept.released)
        again = RetainedRecords(kept.released, kept.dropped, kept.dropped_ends)
        assert again.uncovered == kept.uncovered
        for _ in range(10):
            said = bus.copy()
            again.on_confirmed(said)
            if not again.uncovered:
                assert all(bus.is_copied(row) for row in rows[:dropped])
        again.on_confirmed(bus.ends)
        assert again.uncovered == 0


def test_a_topic_that_was_made_again_is_not_released_by_what_was_said_of_the_old_one():
    """Its offsets begin anew: what was said is void."""
    kept = RetainedRecords(0)
    kept.on_delivered(1, [Delivered(0, "t", 0, 99)])
    kept.on_confirmed({("t", 0): 100})
    assert kept.released == 1
    kept.on_delivered(2, [Delivered(1, "t", 0, 0)])
    assert kept.released == 1
    kept.on_confirmed({("t", 0): 1})
    assert kept.released == 2


def test_places_read_back_and_a_torn_or_damaged_tail_ends_them(dice: random.Random):
    """Every prefix and every flipped byte gives rows that were written, from the first on."""
    bus = Bus(dice)
    frames, rows = b"", list[Delivered]()
    for _ in range(5):
        added = [bus.deliver(len(rows) + each) for each in range(dice.randrange(1, 5))]
        rows, frames = rows + added, frames + encode_rows(added)
    assert decode_rows(frames) == (rows, len(frames))
    for cut in range(len(frames)):
        found, end = decode_rows(frames[:cut])
        assert found == rows[: len(found)]
        assert end <= cut
    for _ in range(300):
        damaged = bytearray(frames)
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        found, _ = decode_rows(bytes(damaged))
        assert found == rows[: len(found)]
    decode_rows(dice.randbytes(300))


def entry(number: int) -> SpoolEntry:
    return SpoolEntry(
        topic=TOPICS[number % 2], key=None, value=b"%d" % number + b"x" * 80, timestamp_ms=number,
        headers=[("record-id", b"%d" % number)], tally="vehicle/accepted",
    )  # fmt: skip


def open_spool(folder: Path, retained_max_bytes: int = MANY, max_bytes: int = MANY) -> Spool:
    return Spool(
        folder, max_bytes=max_bytes, segment_bytes=1500, retained_max_bytes=retained_max_bytes
    )


def resent(spool: Spool, held: dict[Place, int]) -> list[int]:
    """The sequences that a move would send again."""
    reader, found = spool.retained_reader(held), list[int]()
    while not reader.exhausted:
        for queued in reader.read(7):
            assert queued.entry == entry(queued.sequence)
            found.append(queued.sequence)
    reader.close()
    return found


async def forward(spool: Spool, bus: Bus, most: int, rows: dict[int, Delivered]) -> None:
    """Deliver the next messages, as the forwarder does."""
    queued = spool.read(most)
    added = [bus.deliver(one.sequence, one.entry.topic) for one in queued]
    rows.update({row.sequence: row for row in added})
    if queued:
        spool.acknowledge(queued[-1].sequence + 1, added)


async def test_a_move_sends_exactly_what_the_other_site_lacks_over_restarts_and_torn_places(
    tmp_path: Path, dice: random.Random
):
    """Whatever was acknowledged and is not at the second site is read again, in sequence."""
    for world in range(5):
        folder, bus, rows, count = tmp_path / str(world), Bus(dice), dict[int, Delivered](), 0
        spool = open_spool(folder)
        for _ in range(dice.randrange(5, 40)):
            await spool.append([entry(count + each) for each in range(3)])
            count += 3
            await forward(spool, bus, dice.randrange(1, 9), rows)
            spool.confirm(bus.copy())
            if dice.random() < 0.2:
                spool.close()
                tear(folder, dice)
                spool = open_spool(folder)
        for _ in range(count):
            await forward(spool, bus, 5, rows)
        assert spool.drained_sequence == count
        held = dict(bus.copied)
        assert resent(spool, held) == [each for each in range(count) if is_beyond(rows[each], held)]
        spool.confirm(bus.ends)
        spool.acknowledge(count)
        assert spool.retained_messages == spool.uncovered_messages == 0
        spool.close()


def tear(folder: Path, dice: random.Random) -> None:
    """A power cut: the end of the newest places is not on the disk."""
    paths = sorted(folder.glob("*.places"))
    if paths and dice.random() < 0.5:
        data = paths[-1].read_bytes()
        paths[-1].write_bytes(data[: dice.randrange(len(data) + 1)])


async def test_kept_messages_do_not_refuse_senders_and_the_oldest_go_at_their_own_bound(
    tmp_path: Path, dice: random.Random
):
    """The mirror stands: the spool takes on, and says how many are nowhere else."""
    bus, rows = Bus(dice), dict[int, Delivered]()
    spool = open_spool(tmp_path, retained_max_bytes=20_000, max_bytes=12_000)
    for number in range(0, 600, 12):
        await spool.append([entry(number + each) for each in range(12)])
        await forward(spool, bus, 12, rows)
        assert spool.retained_bytes <= 20_000
    assert spool.uncovered_messages + spool.retained_messages == 600
    assert spool.uncovered_messages > 300
    first = 600 - spool.retained_messages
    assert resent(spool, {}) == list(range(first, 600))
    uncovered = spool.uncovered_messages
    spool.close()
    spool = open_spool(tmp_path, retained_max_bytes=20_000, max_bytes=12_000)
    assert spool.uncovered_messages == uncovered
    spool.confirm(bus.ends)
    assert spool.uncovered_messages == 0
    with pytest.raises(SpoolFull):
        for number in range(0, 600, 12):
            await spool.append([entry(number + each) for each in range(12)])
    spool.close()


async def test_after_a_move_nothing_of_before_is_kept_and_what_comes_is(
    tmp_path: Path, dice: random.Random
):
    """Also after a restart, and counting begins again with what is there."""
    bus, rows = Bus(dice), dict[int, Delivered]()
    spool = open_spool(tmp_path)
    counting = spool.slot_reader()
    await spool.append([entry(number) for number in range(50)])
    await forward(spool, bus, 50, rows)
    spool.keep_from(50)
    spool.release_retained()
    spool.keep_from(50)  # said by a counter that has not heard of the move
    spool.acknowledge(50)
    assert (spool.retained_messages, resent(spool, {})) == (0, [])
    again = spool.slot_reader()
    assert again.sequence == 0
    for each in (counting, again):
        each.close()
    await spool.append([entry(number) for number in range(50, 60)])
    await forward(spool, Bus(dice), 50, rows)
    spool.close()
    spool = open_spool(tmp_path)
    assert (spool.retained_messages, resent(spool, {})) == (10, list(range(50, 60)))
    spool.close()


async def test_a_segment_waits_until_the_second_site_has_its_counts_too(
    tmp_path: Path, dice: random.Random
):
    """Counts are on the bus, and the mirror has not copied them yet."""
    bus, rows = Bus(dice), dict[int, Delivered]()
    spool = open_spool(tmp_path)
    spool.slot_reader().close()
    for number in range(0, 60, 12):
        await spool.append([entry(number + each) for each in range(12)])
        await forward(spool, bus, 12, rows)
    spool.confirm(bus.ends)
    firsts = sorted(int(path.stem) for path in tmp_path.glob("*.spool"))
    spool.keep_from(firsts[1], {("meter.arrived", 0): 5})
    spool.keep_from(firsts[2], {("meter.arrived", 0): 9})
    for confirmed, left in ((4, firsts), (5, firsts[1:]), (9, firsts[2:])):
        spool.confirm({("meter.arrived", 0): confirmed})
        spool._delete_needless()
        assert sorted(int(path.stem) for path in tmp_path.glob("*.spool")) == left
    spool.close()


async def test_a_spool_that_kept_nothing_begins_with_what_comes(
    tmp_path: Path, dice: random.Random
):
    """Also one that kept before, was set not to, and keeps again."""
    rows = dict[int, Delivered]()
    for round_number, retained_max_bytes in enumerate((0, MANY, 0, MANY)):
        spool = open_spool(tmp_path, retained_max_bytes=retained_max_bytes)
        assert spool.drained_sequence == 5 * round_number
        await spool.append([entry(5 * round_number + each) for each in range(5)])
        await forward(spool, Bus(dice), 5, rows)
        assert len(resent(spool, {})) == (5 if retained_max_bytes else 0)
        spool.close()
    assert_no_places_without_segment(tmp_path.iterdir())


def assert_no_places_without_segment(paths: Iterable[Path]) -> None:
    names = {path.name for path in paths}
    assert all(f"{Path(name).stem}.spool" in names for name in names if name.endswith(".places"))
