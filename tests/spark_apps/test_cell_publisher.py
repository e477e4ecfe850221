"""The newest state of each touched cell goes out, once."""

from __future__ import annotations

import msgspec

from bus.contracts.meters import LatencyCell, QualityCell
from spark_apps.publish.cell_publisher import CellPublisher


class SentMessages:
    """Remembers what it is given; `EventPublisher` sends it."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, msgspec.Struct]] = []

    def send(self, topic: str, key: str, message: msgspec.Struct) -> None:
        self.messages.append((topic, key, message))


def latency(count: int, camera: str = "c") -> LatencyCell:
    return LatencyCell(
        kind="vehicle", district_id="d", camera_ip=camera, minute_ms=60_000, buckets={1: count}
    )


def quality(valid: int, minute_ms: int = 60_000) -> QualityCell:
    return QualityCell(
        kind="vehicle", camera_ip="c", recognizer_ip="r", minute_ms=minute_ms, sent=0,
        arrived=valid, valid=valid, rejected={},
    )  # fmt: skip


def test_of_a_cell_touched_by_many_batches_the_last_state_is_published_once() -> None:
    """Cells of other devices and minutes are others."""
    sent = SentMessages()
    cells = CellPublisher(sent)  # type: ignore[arg-type]
    for number in range(1, 50):
        cells.touch([latency(number), latency(1, "other")], [quality(number)])
    cells.touch([], [quality(7, 120_000)])
    cells.publish()
    assert sorted((topic, key) for topic, key, _ in sent.messages) == [
        ("meter.latency", "vehicle:60000"), ("meter.latency", "vehicle:60000"),
        ("meter.quality", "c:120000"), ("meter.quality", "c:60000"),
    ]  # fmt: skip
    assert latency(49) in [message for _, _, message in sent.messages]
    assert quality(49) in [message for _, _, message in sent.messages]
    cells.publish()
    assert len(sent.messages) == 4


def test_it_is_due_at_once_and_then_after_a_while() -> None:
    """A first cell is not held back; those behind it wait for the next time."""
    sent = SentMessages()
    cells = CellPublisher(sent)  # type: ignore[arg-type]
    cells.touch([latency(1)], [])
    cells.publish_due()
    cells.touch([latency(2)], [])
    cells.publish_due()
    assert [message for _, _, message in sent.messages] == [latency(1)]
