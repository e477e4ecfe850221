"""What a reader met of a topic before it knew that it was made anew: shown once, counted once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import ClusterIdentity, TopicPartition
from monitor.live.recent_reads import RecentReads

PLACE, OTHER = TopicPartition("cars", 0), TopicPartition("faces", 0)


def look(number: int) -> ClusterIdentity:
    return ClusterIdentity(f"look-{number}", {}, ())


topics = st.lists(
    st.tuples(
        st.integers(1, 12),  # messages that stand in it
        st.integers(0, 12),  # of these, how many are read before it is known
        st.integers(0, 12),  # and afterwards, from its start
        st.booleans(),  # whether its ends are looked at then
        st.integers(0, 4),  # looks until the next is made
    ),
    min_size=1,
    max_size=5,
)


@given(topics)
def test_each_message_is_shown_once_and_those_left_of_the_former_one_are_not_counted(
    made: list[tuple[int, int, int, bool, int]],
) -> None:
    reads, position, looks = RecentReads(), 0, 0
    for number, (end, early, later, ends_asked, pause) in enumerate(made):
        at = position if position < end else 0  # what the consumer is reset to
        shown = set(range(at, min(end, at + early))) if number else set()
        for offset in sorted(shown):
            assert reads.is_first(PLACE, offset, number)
        if number:
            reads.on_identity(look(looks := looks + 1))
            reads.on_recreated(["cars"], float(number))
        position = min(end, later)
        for offset in range(position):
            assert reads.is_first(PLACE, offset, number) == (offset not in shown)
        is_at_end = position == end
        if is_at_end and ends_asked:
            reads.on_end_reached("cars")
        for _ in range(pause):
            reads.on_identity(look(looks := looks + 1))
        beyond = reads.read_beyond("cars", {PLACE: position})
        exact = sum(offset >= position for offset in shown)
        assert beyond >= exact
        if "cars" not in reads.reread_since:
            assert beyond == 0 == exact


def test_a_topic_made_anew_leaves_what_waits_of_another_one() -> None:
    reads = RecentReads()
    reads.is_first(OTHER, 3, 7)
    reads.on_recreated(["faces"], 1.0)
    reads.on_recreated(["cars"], 2.0)
    assert reads.reread_since == {"faces": 1.0, "cars": 2.0}
    assert not reads.is_first(OTHER, 3, 7)


def test_how_far_a_topic_was_read_does_not_come_from_the_one_before_it() -> None:
    reads = RecentReads()
    for offset in range(9):
        reads.is_first(PLACE, offset, 1)
    assert reads.furthest({PLACE: 0}) == {PLACE: 9}
    reads.on_recreated(["cars"], 1.0)
    reads.is_first(PLACE, 0, 2)
    assert reads.furthest({PLACE: 0}) == {PLACE: 1}
