"""Memory, the link, back-off, classes, and fetch sessions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.wire.one_fetch import FetchFrom
from bus.errors import ErrorCode
from dr_mirror.copy.plan.fetch_session import ConsumerFetchSession
from dr_mirror.copy.plan.pace import (
    BURST_S,
    LONGEST_BACKOFF_S,
    CopyClass,
    LinkLimit,
    allowed_classes,
    backoff_s,
)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 100_000)), max_size=50), st.integers(1, 50_000))
def test_a_link_carries_no_more_than_its_rate_and_one_response(steps: list[tuple[float, int]], rate: int):
    """A response that was too large is waited for afterwards."""
    link, now_s, spent = LinkLimit(rate), 0.0, 0
    for pause_s, size in steps:
        now_s += pause_s
        if link.wait_s(now_s) > 0:
            continue
        assert spent <= rate * (now_s + BURST_S) + 1e-6 * rate
        link.spend(size, now_s)
        spent += size


def test_a_limited_link_is_waited_for_as_long_as_its_debt():
    """And one without a limit never."""
    link = LinkLimit(1000)
    link.spend(3000, 0.0)
    assert link.wait_s(0.0) == 2.0
    assert link.wait_s(2.5) == 0.0
    free = LinkLimit(0)
    free.spend(1 << 40, 0.0)
    assert (free.wait_s(0.0), free.is_limited) == (0.0, False)


def test_records_go_before_state_before_pictures_on_a_limited_link():
    """Without a limit all go at once."""
    some = {CopyClass.STATE: 1, CopyClass.PICTURES: 5}
    assert allowed_classes(some, is_limited=True) == {CopyClass.RECORDS, CopyClass.STATE}
    assert allowed_classes({CopyClass.RECORDS: 1, **some}, is_limited=True) == {CopyClass.RECORDS}
    assert allowed_classes(some, is_limited=False) == set(CopyClass)
    assert allowed_classes({}, is_limited=True) == set(CopyClass)


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_back_off_grows_and_stays_within_its_bound(failures: int, jitter: float):
    """A fifth of jitter on both sides."""
    assert 0.08 <= backoff_s(failures, jitter) <= LONGEST_BACKOFF_S * 1.2
    assert backoff_s(failures, 0.5) <= backoff_s(failures + 1, 0.5)


KEYS = st.tuples(st.sampled_from([b"a" * 16, b"b" * 16]), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fetch"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("forget"), KEYS, st.just(0)),
        st.tuples(st.just("ok"), KEYS, st.just(0)),
        st.tuples(st.just("lost"), KEYS, st.just(0)),
        st.tuples(st.just("error"), KEYS, st.just(0)),
    ),
    max_size=60,
)


class SessionsOfLeader:
    """What a leader remembers of one session (KIP-227)."""

    def __init__(self) -> None:
        self.held: dict[tuple[bytes, int], int] = {}
        self.session_id, self.epoch = 0, -1

    def on_request(self, request) -> None:
        if request.session_epoch == 0:
            self.held, self.session_id, self.epoch = {}, self.session_id + 1, 0
        else:
            assert (request.session_id, request.session_epoch) == (self.session_id, self.epoch + 1)
            self.epoch += 1
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del self.held[topic.topic_id, index]
        for topic in request.topics:
            for one in topic.partitions:
                self.held[topic.topic_id, one.partition] = one.fetch_offset


@given(STEPS)
def test_the_leader_fetches_exactly_what_is_wanted(steps):
    """By full requests and by differences, after lost requests and refused sessions too."""
    session, leader = ConsumerFetchSession(100), SessionsOfLeader()
    wanted: dict[tuple[bytes, int], int] = {}
    for what, key, position in steps:
        if what == "fetch":
            session.fetch(key, FetchFrom(key[0].decode(), position))
            wanted[key] = position
        elif what == "forget":
            session.remove(key)
            wanted.pop(key, None)
            assert not session.is_current(key)
        elif wanted:
            request = session.next_request(max_bytes=1, max_wait_ms=1)
            if what != "lost":
                leader.on_request(request)
                assert leader.held == wanted
                assert all(session.is_current(each) for each in wanted)
            if what == "ok":
                assert session.handle_response(0, leader.session_id)
            elif what == "error":
                assert not session.handle_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
            else:
                session.reset()
