"""What a reader hears of topics that are deleted, made anew, grown and cut at any moment."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bus.client.followed_topics import FORMER_TOPICS, GONE_POLLS, SEEN_S, FollowedTopics
from bus.client.model import ClusterIdentity

TOPIC = "data.vehicle"


def identity(topic_id: str = "", partitions: int = 1) -> ClusterIdentity:
    """A cluster with the topic, or without it."""
    if not topic_id:
        return ClusterIdentity("c", {}, ())
    places = tuple((TOPIC, number) for number in range(partitions))
    return ClusterIdentity("c", {TOPIC: topic_id}, places)


class ReaderAndTopic(RuleBasedStateMachine):
    """A topic that changes, looks at it, and a reader that goes on when it hears of a change."""

    @initialize(partitions=st.integers(1, 3))
    def begin(self, partitions: int) -> None:
        self.made = 1
        self.ends: list[int] | None = [0] * partitions
        self.seen: dict[str, dict[tuple[str, int], int]] = {}
        self.gone_looks = 0
        self.known = self.now()
        self.followed = FollowedTopics(self.known)
        self.positions: dict[tuple[str, int], int] = {}

    def now(self) -> ClusterIdentity:
        return identity(f"id-{self.made}", len(self.ends)) if self.ends else identity()

    @rule(number=st.integers(0, 2), count=st.integers(1, 9))
    def write(self, number: int, count: int) -> None:
        if self.ends:
            self.ends[number % len(self.ends)] += count

    @rule()
    def delete(self) -> None:
        self.ends = None

    @rule(partitions=st.integers(1, 3))
    def make_anew(self, partitions: int) -> None:
        self.made += 1
        self.ends = [0] * partitions

    @rule()
    def grow(self) -> None:
        if self.ends:
            self.ends.append(0)

    @rule()
    def read(self) -> None:
        """To the end, of the topic that the reader knows."""
        if self.ends and self.known.topic_ids == self.now().topic_ids:
            self.positions = {(TOPIC, n): end for n, end in enumerate(self.ends)}

    @rule(ends=st.booleans())
    def look(self, ends: bool) -> None:
        self.followed.observe(self.now(), 1.0)
        self.gone_looks = 0 if self.ends else self.gone_looks + 1
        if ends and self.ends:
            found = {(TOPIC, n): end for n, end in enumerate(self.ends)}
            self.followed.observe_ends(found, 1.0)
            self.seen[f"id-{self.made}"] = found

    @rule()
    def follow(self) -> None:
        """A reader hears of a change as soon as it was looked at, hears how much it has not read,
        and goes on."""
        was_looked_at = self.followed.identity.topic_ids == self.now().topic_ids
        before, now = self.known.topic_ids.get(TOPIC), self.now().topic_ids.get(TOPIC)
        heard = bool(self.followed.changed(self.known, [TOPIC]))
        if was_looked_at:
            assert heard == (now != before and (now is not None or self.gone_looks >= GONE_POLLS))
        if not heard:
            return
        if before is not None:
            counts, is_all = self.followed.unread(TOPIC, before, self.positions)
            is_known = before in self.followed._former[TOPIC]
            seen = self.seen.get(before, {}) if is_known else {}
            wanted = {p: end - self.positions.get(p, 0) for p, end in seen.items()}
            assert counts == {place: count for place, count in wanted.items() if count > 0}
            assert is_all == bool(seen), "an end that nobody has seen is no exact number"
        self.known, self.positions = self.followed.identity, {}
        assert not self.followed.changed(self.known, [TOPIC])

    @invariant()
    def is_bounded(self) -> None:
        if hasattr(self, "followed"):
            assert all(len(ids) <= FORMER_TOPICS for ids in self.followed._former.values())


TestReaderAndTopic = ReaderAndTopic.TestCase
TestReaderAndTopic.settings = settings(max_examples=60, deadline=None)


@given(st.floats(0, 4 * SEEN_S))
def test_an_end_that_was_seen_long_before_is_at_least(pause_s: float) -> None:
    """A reader that stood still cannot say how many came meanwhile."""
    followed = FollowedTopics(identity("a"))
    followed.observe_ends({(TOPIC, 0): 9}, 100.0)
    followed.observe(identity("b"), 100.0 + pause_s)
    unread = followed.unread(TOPIC, "a", {(TOPIC, 0): 4})
    assert unread.counts == {(TOPIC, 0): 5}
    assert unread.is_all == (100.0 + pause_s - 100.0 <= SEEN_S)


def test_one_look_without_a_topic_is_no_deletion() -> None:
    """A broker that has just started may not know it yet."""
    known = identity("a")
    followed = FollowedTopics(known)
    followed.observe(identity(), 1.0)
    assert not followed.changed(known, [TOPIC])
    followed.observe(known, 1.5)
    assert not followed.changed(known, [TOPIC])
    followed.observe(identity(), 2.0)
    assert not followed.changed(known, [TOPIC]), "not two looks one after the other"


@given(st.integers(0, 12), st.floats(90, 110))
def test_all_is_read_as_of_ends_that_were_asked_for_since(position: int, since_s: float) -> None:
    """Ends that are older, or of another topic of that name, prove nothing."""
    followed = FollowedTopics(identity("a"))
    positions = {(TOPIC, 0): position}
    assert not followed.is_read(TOPIC, "a", positions, since_s), "no ends were seen"
    followed.observe_ends({(TOPIC, 0): 9}, 100.0)
    assert followed.is_read(TOPIC, "a", positions, since_s) == (position >= 9 and since_s <= 100)
    assert not followed.is_read(TOPIC, "b", positions, since_s)
