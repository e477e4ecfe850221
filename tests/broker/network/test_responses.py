"""Responses leave in the order of their requests."""

from __future__ import annotations

import os
import random

from broker.network.responses import ResponsePipeline


def test_whatever_order_slots_are_filled_in_chunks_leave_in_order() -> None:
    """Each exactly once."""
    seed = int(os.environ.get("DATABUS_SEED", "1"))
    dice = random.Random(seed)
    for _ in range(100):
        queue = ResponsePipeline(lambda: None)
        slots = [queue.open() for _ in range(dice.randrange(1, 20))]
        order = list(range(len(slots)))
        dice.shuffle(order)
        left: list[bytes | bytearray | memoryview] = []
        for index in order:
            slots[index].set([bytes([index])])
            left += queue.pop_ready()
        assert left == [bytes([index]) for index in range(len(slots))], f"seed {seed}"
        assert len(queue) == 0


def test_a_request_without_response_does_not_hold_the_others_back() -> None:
    """acks=0 fills its slot with nothing."""
    queue = ResponsePipeline(lambda: None)
    silent, spoken = queue.open(), queue.open()
    spoken.set([b"x"])
    assert queue.pop_ready() == []
    silent.set([])
    assert queue.pop_ready() == [b"x"]


def test_a_slot_is_filled_once() -> None:
    """A time-out and an answer may meet; the first one counts."""
    filled = []
    queue = ResponsePipeline(lambda: filled.append(1))
    slot = queue.open()
    slot.set([b"a"])
    slot.set([b"b"])
    assert queue.pop_ready() == [b"a"]
    assert filled == [1]
