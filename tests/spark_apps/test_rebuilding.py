"""A window of the past is judged when it is whole again."""

from __future__ import annotations

from bus.client.model import TopicAndPartition
from spark_apps.batches.message import StreamMessage
from spark_apps.source.rebuilding import Rebuilding

A, B = ("meter.quality", 0), ("meter.quality", 1)
Offsets = dict[TopicAndPartition, int]


class Group:
    """Offsets of a topic, as the broker would give them."""

    def __init__(self, starts: Offsets, ends: Offsets) -> None:
        self.starts, self.ends = starts, ends
        self.was_read = False

    def read(self) -> Offsets:
        self.was_read = True
        return {A: 999}

    def since(self, moment_ms: int) -> tuple[Offsets, Offsets]:
        return dict(self.starts), dict(self.ends)


def rebuilding(starts: Offsets, ends: Offsets) -> Rebuilding:
    made = Rebuilding(Group(starts, ends))  # type: ignore[arg-type]
    assert made.starting_positions(0) == starts
    return made


def test_it_is_over_when_every_partition_has_reached_its_old_end() -> None:
    """In any number of batches; what came meanwhile is not waited for."""
    made = rebuilding({A: 5, B: 0}, {A: 9, B: 3})
    assert not made.is_over({A: 8})
    assert not made.is_over({A: 20})
    assert not made.is_over({B: 2})
    assert made.is_over({B: 3})
    assert made.is_over({B: 4})


def test_nothing_to_rebuild_is_over_at_once() -> None:
    """Partitions that are empty since that moment."""
    assert rebuilding({A: 7, B: 0}, {A: 7, B: 0}).is_over({})


def test_the_committed_position_does_not_say_where_it_begins() -> None:
    """It is read all the same: a commit then lowers none, and it says what was judged."""
    group = Group({A: 5}, {A: 9})
    made = Rebuilding(group)  # type: ignore[arg-type]
    assert made.starting_positions(0) == {A: 5}
    assert group.was_read
    assert made.was_done(StreamMessage(*A, 998, 0, None))
    assert not made.was_done(StreamMessage(*A, 999, 0, None))
    assert not made.was_done(StreamMessage(*B, 0, 0, None)), "never committed"
