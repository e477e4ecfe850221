"""Positions of an ordinary target without transactions: written beside the records, in order."""

from __future__ import annotations

import asyncio
import random

import pytest

from bus.client.model import TopicPartition
from bus.errors import ErrorCode
from dr_mirror.produce.plan.append_batches import AppendBatches
from dr_mirror.produce.plan.positions import SourcePosition
from dr_mirror.produce.transaction_manager import TransactionFailed
from dr_mirror.produce.unsaved_positions import EVERY_S, Positions, UnsavedPositions

AT = TopicPartition("mirror-positions.A.internal", 0)
PLACES = [TopicPartition("data.vehicle", n) for n in range(3)]
MOST_BYTES = 1000


class StandingClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class HeldTarget:
    """Takes positions when it is let; `table` is what a mirror that starts then would read."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.refuses = False
        self.under_way = self.writes = 0
        self.table: dict[TopicPartition, int] = {}

    async def write(self, positions: Positions) -> AppendBatches:
        self.under_way += 1
        assert self.under_way == 1, "one write at a time"
        await self.may_answer.wait()
        self.under_way -= 1
        self.writes += 1
        written = AppendBatches(AT, [], 0, 0)
        if self.refuses:
            written.on_failed(ErrorCode.NOT_ENOUGH_REPLICAS, "")
        else:
            self.table.update({place: one.offset for place, one in positions.items()})
        return written


def position(offset: int) -> SourcePosition:
    return SourcePosition(offset, 0, "aa", "bb")


async def test_a_write_under_way_holds_up_no_record_until_much_is_unsaved() -> None:
    clock, target = StandingClock(), HeldTarget()
    unsaved = UnsavedPositions(clock.monotonic, MOST_BYTES, target.write)
    target.may_answer.clear()
    clock.now_s = EVERY_S
    for offset in range(1, 10):
        unsaved.reach(PLACES[0], position(offset), MOST_BYTES // 10)
        await asyncio.wait_for(unsaved.save_when_due(), 10)
        await asyncio.sleep(0)
    assert (target.under_way, target.table) == (1, {})
    unsaved.reach(PLACES[1], position(5), MOST_BYTES)
    waiting = asyncio.ensure_future(unsaved.save_when_due())
    await asyncio.sleep(0)
    assert not waiting.done()
    target.may_answer.set()
    await asyncio.wait_for(waiting, 10)
    assert target.table == {PLACES[0]: 9, PLACES[1]: 5}
    assert not unsaved
    assert target.writes == 2


async def test_a_refused_write_is_said_at_the_next_round_and_nothing_counts_as_written() -> None:
    clock, target = StandingClock(), HeldTarget()
    unsaved = UnsavedPositions(clock.monotonic, MOST_BYTES, target.write)
    target.refuses = True
    clock.now_s = EVERY_S
    unsaved.reach(PLACES[0], position(4), 1)
    await unsaved.save_when_due()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(TransactionFailed):
        await unsaved.save_when_due()
    assert unsaved.of(PLACES[0]) == position(4)
    target.refuses = False
    await unsaved.save({PLACES[1]: position(7)})
    assert target.table == {PLACES[0]: 4, PLACES[1]: 7}
    assert not unsaved


async def test_a_claimed_position_stays_though_an_older_one_was_reached() -> None:
    clock, target = StandingClock(), HeldTarget()
    unsaved = UnsavedPositions(clock.monotonic, MOST_BYTES, target.write)
    unsaved.reach(PLACES[0], position(90), 1)
    await unsaved.save({PLACES[0]: position(0)})  # its topic was made anew at the source
    clock.now_s = 10 * EVERY_S
    await unsaved.save_when_due()
    await unsaved.settle()
    assert target.table == {PLACES[0]: 0}


async def test_whatever_the_order_of_rounds_and_answers_the_newest_positions_are_said(
    dice: random.Random,
) -> None:
    for _ in range(50):
        clock, target = StandingClock(), HeldTarget()
        unsaved = UnsavedPositions(clock.monotonic, MOST_BYTES, target.write)
        reached: dict[TopicPartition, int] = {}
        for offset in range(1, 60):
            place = dice.choice(PLACES)
            reached[place] = offset
            unsaved.reach(place, position(offset), dice.randrange(MOST_BYTES // 4))
            clock.now_s += dice.random() * EVERY_S
            if dice.random() < 0.3:
                await (unsaved.save({}) if dice.random() < 0.3 else unsaved.settle())
            else:
                await unsaved.save_when_due()
            assert all(one <= reached[each] for each, one in target.table.items())
            if dice.random() < 0.5:
                await asyncio.sleep(0)
        await unsaved.save({})
        assert target.table == reached
