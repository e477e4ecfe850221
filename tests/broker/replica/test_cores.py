"""The pure cores of replication: leadership, sessions, throttles, the nearest replica."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from broker.quotas.replication_quota import ReplicationQuota
from broker.replica.fetch.replica_selector import nearest_replica
from broker.replica.fetch.session_cache import EVICTION_MS, CachedPartition, FetchSessionCache
from broker.replica.fetch.session_handler import FetchLimits, FetchSessionHandler
from broker.replica.leader_state import PartitionLeader
from broker.replica.quotas import lists_replica
from bus.errors import ErrorCode

LAG_MS = 1000


def anybody(_broker_id: int, _broker_epoch: int) -> bool:
    return True


def no_broker(_broker_id: int, _broker_epoch: int) -> bool:
    return False


def leadership(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionLeader:
    made = PartitionLeader(1, 5, 10)
    made.assign(replicas, isr, 0)
    return made


def fetched(made: PartitionLeader, replica: int, offset: int, now_ms: int = 0, end: int = 100) -> None:
    made.followers[replica].on_fetch(offset, 0, end, now_ms, 100 + replica)


def test_the_watermark_is_the_smallest_end_over_the_maximal_set() -> None:
    made = leadership((1, 2))
    fetched(made, 2, 40)
    assert made.high_watermark(100, 0, LAG_MS, no_broker) == 40
    fetched(made, 2, 100)
    assert made.high_watermark(100, 0, LAG_MS, no_broker) == 100


def test_a_replica_that_is_being_added_holds_the_watermark_back_already() -> None:
    """KIP-497: whether the controller takes it or not, the watermark must be right."""
    made = leadership((1,))
    fetched(made, 2, 50)
    assert made.propose_expand(2, 40, 7, anybody) is not None
    fetched(made, 2, 45)
    assert made.maximal_isr == (1, 2)
    assert made.high_watermark(100, 0, LAG_MS, no_broker) == 45
    made.clear_pending()
    assert made.high_watermark(100, 0, LAG_MS, no_broker) == 100


def test_a_replica_that_is_being_taken_out_counts_until_that_is_certain() -> None:
    made = leadership((1, 2))
    fetched(made, 2, 50)
    assert made.propose_shrink(100, LAG_MS + 1, LAG_MS, 7) is not None
    assert made.high_watermark(100, 0, LAG_MS, no_broker) == 50


def test_only_whoever_has_what_the_leader_began_with_may_join() -> None:
    """Reaching the watermark is not enough: below the epoch's start its log may differ."""
    made = leadership((1,))
    fetched(made, 2, 8)
    assert made.propose_expand(2, 5, 7, anybody) is None
    fetched(made, 2, 10)
    assert made.propose_expand(2, 5, 7, no_broker) is None
    assert made.propose_expand(2, 5, 7, anybody) is not None
    fetched(made, 3, 10)
    assert made.propose_expand(3, 5, 7, anybody) is None, "one change at a time"


def test_a_follower_of_an_idle_partition_is_not_late_when_a_batch_comes() -> None:
    """Its last fetch may be an hour old; it had everything until this moment."""
    made = leadership((1, 2, 3))
    fetched(made, 2, 100, now_ms=5, end=100)
    fetched(made, 3, 100, now_ms=5, end=100)
    made.on_append(100, 3_600_000)
    assert made.propose_shrink(101, 3_600_001, LAG_MS, 7) is None
    late = made.propose_shrink(101, 3_600_001 + LAG_MS, LAG_MS, 7)
    assert late is not None
    assert late.isr == (1,)


def test_a_follower_under_a_steady_stream_keeps_up() -> None:
    """It is never at the end, but always has what there was when it asked before."""
    made = leadership((1, 2), replicas=(1, 2))
    for step in range(1, 50):
        fetched(made, 2, (step - 1) * 10, now_ms=step * 100, end=step * 10)
    assert made.propose_shrink(490, 49 * 100, 150, 7) is None


# --- sessions ----------------------------------------------------------------------------------


def sessions(slots: int = 4) -> FetchSessionCache:
    numbers = itertools.count(1)
    return FetchSessionCache(slots, lambda: next(numbers))


def entries(*names: str) -> list[tuple[tuple[bytes | str, int], CachedPartition]]:
    return [((name, 0), CachedPartition(name, bytes(16), 0)) for name in names]


def test_a_session_goes_on_only_with_the_next_number() -> None:
    cache = sessions()
    session = cache.create((-1, -1), entries("a"), 0)
    assert session is not None
    assert cache.resume(session.id, 1, 0) is session
    assert cache.resume(session.id, 1, 0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.id, 2, 0) is session
    cache.remove(session.id)
    assert cache.resume(session.id, 3, 0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_slots_are_bounded_and_followers_come_before_consumers() -> None:
    cache = sessions(slots=2)
    first = cache.create((-1, -1), entries("a"), 0)
    assert cache.create((-1, -1), entries("a"), 0) is not None
    assert cache.create((-1, -1), entries("a"), 1) is None, "full of consumers that are in use"
    assert cache.create((2, 7), entries("a"), 1) is not None, "a follower pushes one out"
    assert first is not None
    assert cache.get(first.id) is None
    assert cache.create((-1, -1), entries("a"), EVICTION_MS + 2) is not None, "one fell silent"
    assert (len(cache), cache.evictions) == (2, 2)


def test_a_restarted_follower_leaves_no_session_of_its_former_life() -> None:
    cache = sessions()
    old = cache.create((2, 7), entries("a"), 0)
    other = cache.create((3, 7), entries("a"), 0)
    cache.create((2, 8), entries("a"), 0)
    assert old is not None
    assert other is not None
    assert cache.get(old.id) is None
    assert cache.get(other.id) is other


def partition(name: str, end: int = 0) -> Any:
    log = SimpleNamespace(
        end_offset=end, log_start_offset=0, leader_epochs=SimpleNamespace(latest=3)
    )
    return SimpleNamespace(topic=name, topic_id=name.encode(), index=0, leader_epoch=5, log=log)


def named(plan: FetchSessionHandler) -> tuple[list[str], list[str], int, int]:
    planned = plan.next_request(100)
    assert planned is not None
    request = planned[0]
    return (
        [topic.topic for topic in request.topics],
        [topic.topic for topic in request.forgotten_topics_data],
        request.session_id,
        request.session_epoch,
    )


def test_a_plan_names_everything_once_and_then_what_changed() -> None:
    plan = FetchSessionHandler(1, FetchLimits())
    assert plan.next_request(100) is None
    for name in "abc":
        plan.add((name.encode(), 0), partition(name))
    assert named(plan) == (["a", "b", "c"], [], 0, 0)
    assert plan.handle_response(0, 77)
    assert named(plan) == ([], [], 77, 1)
    assert plan.handle_response(0, 77)
    plan.mark_changed((b"b", 0))
    plan.remove((b"c", 0))
    assert named(plan) == (["b"], ["c"], 77, 2)


def test_after_a_lost_answer_a_plan_closes_its_session_and_begins_anew() -> None:
    """The leader may have taken the request or not: its number can no longer be known."""
    plan = FetchSessionHandler(1, FetchLimits())
    plan.add((b"a", 0), partition("a"))
    named(plan)
    plan.handle_response(0, 77)
    named(plan)
    plan.reset()
    assert named(plan) == (["a"], [], 77, 0)
    plan.handle_response(0, 78)
    named(plan)
    assert not plan.handle_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert named(plan) == (["a"], [], 0, 0)


def test_without_a_slot_at_the_leader_everything_is_named_each_time() -> None:
    plan = FetchSessionHandler(1, FetchLimits())
    plan.add((b"a", 0), partition("a"))
    for _ in range(3):
        assert named(plan) == (["a"], [], 0, 0)
        plan.handle_response(0, 0)


def test_a_request_says_where_the_log_ends_and_in_which_epoch() -> None:
    plan = FetchSessionHandler(1, FetchLimits(partition_max_bytes=9))
    plan.add((b"a", 0), partition("a", end=42))
    planned = plan.next_request(100)
    assert planned is not None
    (ask,) = planned[0].topics[0].partitions
    assert (ask.fetch_offset, ask.last_fetched_epoch, ask.current_leader_epoch) == (42, 3, 5)
    assert (ask.partition_max_bytes, planned[0].replica_state.replica_epoch) == (9, 100)


# --- throttles and the nearest replica -----------------------------------------------------------


def test_a_quota_is_a_rate_over_its_windows() -> None:
    quota = ReplicationQuota(samples=3, window_ms=1000)
    quota.bytes_per_second = 100
    quota.record(200, 0)
    assert not quota.is_exceeded(0), "two hundred in two seconds"
    quota.record(50, 500)
    assert quota.is_exceeded(500)
    assert not quota.is_exceeded(2600)
    assert not quota.is_exceeded(10_000), "all of it is long ago"


def test_throttled_replicas_are_named_by_partition_and_broker() -> None:
    assert lists_replica(("0:1", "3:2"), 3, 2)
    assert not lists_replica(("0:1", "3:2"), 3, 1)
    assert lists_replica(("*",), 9, 9)


def near(rack: str, offset: int, racks: dict[int, str | None]) -> int | None:
    made = leadership((1, 2, 3))
    fetched(made, 2, 50)
    fetched(made, 3, 60)
    view: Any = SimpleNamespace(leader_state=made, leader_id=1, isr=[1, 2, 3])
    return nearest_replica(view, rack, offset, racks)


def test_a_consumer_is_sent_to_the_furthest_replica_of_its_rack() -> None:
    """KIP-392; never to one that lacks the offset, and not away from a leader as near."""
    assert near("x", 20, {1: "y", 2: "x", 3: "x"}) == 3
    assert near("x", 55, {1: "y", 2: "x", 3: "x"}) == 3
    assert near("x", 55, {1: "y", 2: "x", 3: "y"}) is None
    assert near("x", 20, {1: "x", 2: "x", 3: "x"}) is None
    assert near("", 20, {1: "y", 2: "x", 3: "x"}) is None
    assert near("x", 20, {1: "y", 2: "y", 3: "y"}) is None
