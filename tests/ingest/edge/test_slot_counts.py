"""What a segment holds of each slot, and what the bus knows of it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.meters import Arrived
from ingest.edge.slot_counts import SlotCounts
from ingest.spool.frame import Slot

SLOTS = st.tuples(
    st.sampled_from(["vehicle", "face"]), st.sampled_from("ab"), st.just(""), st.integers(0, 2)
)
# Messages come, the growth is told, some of it is acknowledged.
STEPS = st.lists(st.tuples(st.lists(SLOTS, max_size=8), st.lists(st.booleans(), max_size=6)))


def slot_of(told: Arrived) -> Slot:
    return told.kind, told.camera_ip, told.recognizer_ip, told.minute_ms


@given(STEPS)
def test_the_largest_number_told_of_a_slot_is_its_count_once_all_is_acknowledged(
    steps: list[tuple[list[Slot], list[bool]]],
) -> None:
    """Whatever was lost on the way, and in whatever order counting and telling went."""
    counts, messages, told = SlotCounts("edge", 7), Counter[Slot](), Counter[Slot]()
    for slots, acknowledged in steps:
        for slot in slots:
            counts.add(slot)
        messages.update(slots)
        for message, is_acknowledged in zip(counts.grown(), acknowledged, strict=False):
            told[slot_of(message)] = max(told[slot_of(message)], message.arrived)
            if is_acknowledged:
                counts.acknowledge(message)
        assert all(told[slot] <= messages[slot] for slot in told)
    for message in counts.grown():
        assert (message.edge, message.epoch) == ("edge", 7)
        told[slot_of(message)] = message.arrived
        counts.acknowledge(message)
    assert told == messages
    assert counts.grown() == []
