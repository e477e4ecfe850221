"""What the session of a reader sends, in every order of appends, requests and responses."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.replica.fetch.session_cache import (
    CachedPartition,
    CachedPartitionKey,
    FetchContext,
    FetchSessionCache,
)
from broker.replica.partition import Isolation
from bus.client.wire.fetch_session import INITIAL_EPOCH
from bus.errors import ErrorCode

NAMES = "abcd"
CONSUMER = (-1, -1)


class AppendedPartition:
    """A partition with nothing but offsets."""

    def __init__(self) -> None:
        self.end = self.start = 0
        self.watchers: dict[CachedPartition, None] = {}

    def end_for(self, isolation: Isolation) -> int:
        return self.end

    def mark(self) -> None:
        for entry in self.watchers:
            assert entry.session is not None
            entry.session.dirty[entry] = None


class SessionWorld:
    """A broker's partitions, one reader with a session, and what the reader knows: per partition its
    offset, the watermark and the log start."""

    def __init__(self) -> None:
        self.partitions = {name: AppendedPartition() for name in NAMES}
        self.cache = FetchSessionCache(10, iter(range(1, 1000)).__next__)
        self.known: dict[str, tuple[int, int, int]] = {}
        context = self.cache.begin(0, INITIAL_EPOCH, CONSUMER, self.named(NAMES), 0)
        assert context.session is not None
        self.session = context.session
        self.send(context, len(NAMES))

    def named(self, names: str) -> list[tuple[CachedPartitionKey, CachedPartition]]:
        found = []
        for name in names:
            entry = CachedPartition(name, b"", 0)
            entry.fetch_offset = self.known.get(name, (0, -1, -1))[0]
            partition: Any = self.partitions[name]
            entry.attach(partition, ErrorCode.NONE)
            found.append(((name, 0), entry))
        return found

    def fetch(self, names: str = "", forgotten: str = "", room: int = 1) -> list[str]:
        """One incremental request: what its response has, with records of `room` partitions."""
        session = self.cache.resume(self.session.id, self.session.epoch, 0)
        assert session is self.session
        for name in forgotten:
            session.forget((name, 0))
            self.known.pop(name, None)
        moved = "".join(
            name for name in NAMES
            if (name, 0) in session.entries
            and session.entries[name, 0].fetch_offset != self.known[name][0]
        )  # fmt: skip
        named = session.update(self.named("".join(sorted({*names, *moved}))))
        return self.send(FetchContext(named, session, is_incremental=True), room)

    def send(self, context: FetchContext, room: int) -> list[str]:
        """As the handler reads: records for as many as there is room for, the rest without."""
        sent = []
        for entry in context.candidates():
            partition = self.partitions[entry.topic]
            has_records = room > 0 and entry.fetch_offset < partition.end
            if not has_records and context.is_left_out(
                entry, partition.end, partition.start, Isolation.LOG_END
            ):
                continue
            room -= has_records
            offset = partition.end if has_records else entry.fetch_offset
            self.known[entry.topic] = (offset, partition.end, partition.start)
            sent.append((entry, has_records))
        context.on_response()
        for entry, has_records in sent:
            partition = self.partitions[entry.topic]
            context.on_sent(
                entry, partition.end, partition.start, has_records=has_records, is_diverging=False
            )
        return [entry.topic for entry, _ in sent]

    def truth(self) -> dict[str, tuple[int, int, int]]:
        """What a reader of the session's partitions knows in the end."""
        return {
            name: (self.partitions[name].end, self.partitions[name].end, self.partitions[name].start)
            for name, _ in self.session.entries
            if isinstance(name, str)
        }


names = st.sets(st.sampled_from(NAMES)).map(lambda found: "".join(sorted(found)))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), names),
        st.tuples(st.just("delete"), names),
        st.tuples(st.just("fetch"), st.tuples(names, names, st.integers(0, 3))),
    ),
    max_size=25,
)


def play(world: SessionWorld, story: list[Any]) -> None:
    for what, how in story:
        if what == "fetch":
            world.fetch(*how)
            continue
        for name in how:
            partition = world.partitions[name]
            if what == "append":
                partition.end += 1
            else:
                partition.start = partition.end
            partition.mark()


@given(steps)
def test_a_reader_that_goes_on_learns_everything_then_nothing_more(story: list[Any]) -> None:
    """One partition's records fit into a response: after as many responses as there are partitions
    the reader has all of them, whichever of them it named meanwhile, and the next is empty."""
    world = SessionWorld()
    play(world, story)
    for _ in range(2 * len(NAMES)):
        world.fetch()
    assert world.known == world.truth()
    assert world.fetch() == []
    assert not world.session.dirty


@given(steps, st.sampled_from(NAMES))
def test_what_a_reader_knows_is_not_sent_again(story: list[Any], name: str) -> None:
    """A session is for that: of one append only its partition is in the response."""
    world = SessionWorld()
    play(world, story)
    for _ in range(2 * len(NAMES) + 1):
        world.fetch()
    world.partitions[name].end += 1
    world.partitions[name].mark()
    is_watched = (name, 0) in world.session.entries
    assert world.fetch() == [name] * is_watched


@given(steps)
def test_only_partitions_of_the_session_have_it_as_a_watcher(story: list[Any]) -> None:
    """A partition that was forgotten, or a closed session, would otherwise keep memory for ever."""
    world = SessionWorld()
    play(world, story)
    for name, partition in world.partitions.items():
        held = world.session.entries.get((name, 0))
        assert list(partition.watchers) == ([] if held is None else [held])
    world.cache.remove(world.session.id)
    assert not any(partition.watchers for partition in world.partitions.values())


def test_a_reader_whose_log_diverges_gets_the_rest_of_the_answer_once_more() -> None:
    """It truncates and uses nothing else of the response."""
    world = SessionWorld()
    entry = world.session.entries["a", 0]
    context = FetchContext([entry], world.session, is_incremental=True)
    context.on_sent(entry, 5, 0, has_records=False, is_diverging=False)
    assert not entry.is_news(5, 0)
    context.on_sent(entry, 5, 0, has_records=False, is_diverging=True)
    assert entry.is_news(5, 0)
