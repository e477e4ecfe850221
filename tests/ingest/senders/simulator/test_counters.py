"""`meter.sent` cells are cumulative, and a lost message heals."""

from __future__ import annotations

import random

from bus.contracts.register import Device
from ingest.senders.simulator.counters import REPEAT_AFTER_MS, SentCounters

CAMERA = Device(camera_ip="10.0.0.1", checkpoint_id="c", kind="vehicle", recognizer_ip="10.0.0.254")


def test_a_cell_is_due_until_its_telling_is_acknowledged() -> None:
    counters = SentCounters(epoch=5)
    counters.count(CAMERA, 60_000, 61_000)
    [lost] = counters.due(62_000)
    [again] = counters.due(63_000)
    assert lost == again
    assert (again.sent, again.epoch, again.producer) == (1, 5, "city/10.0.0.254")
    counters.mark_acknowledged([again])
    assert counters.due(64_000) == []


def test_a_finished_minute_is_told_once_more() -> None:
    counters = SentCounters(epoch=5)
    counters.count(CAMERA, 60_000, 61_000)
    counters.mark_acknowledged(counters.due(62_000))
    later = 61_000 + REPEAT_AFTER_MS
    assert [cell.sent for cell in counters.due(later)] == [1]
    counters.mark_acknowledged(counters.due(later))
    assert counters.due(later + 1) == []


def test_whatever_is_lost_the_newest_messages_add_up_to_what_was_counted() -> None:
    rng = random.Random(3)
    counters, counted = SentCounters(epoch=1), 0
    newest: dict[tuple[str, int], int] = {}
    now_ms = 0
    for _ in range(500):
        now_ms += rng.randrange(5_000)
        for _ in range(rng.randrange(5)):
            counters.count(CAMERA, now_ms // 60_000 * 60_000, now_ms)
            counted += 1
        arrived = [message for message in counters.due(now_ms) if rng.random() < 0.5]
        newest |= {(message.camera_ip, message.minute_ms): message.sent for message in arrived}
        counters.mark_acknowledged(arrived)
    last = counters.due(now_ms)
    newest |= {(message.camera_ip, message.minute_ms): message.sent for message in last}
    assert sum(newest.values()) == counted
