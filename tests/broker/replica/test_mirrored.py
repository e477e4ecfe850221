"""Stories of a mirrored partition and its replicas, without sockets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker.config.views import TopicConfig
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    MirrorAppendResponse,
    PartitionMirrorAppend,
    PartitionMirrorAppendResult,
    TopicMirrorAppend,
)
from bus.protocol.generated.mirror_truncate import (
    MirrorTruncateRequest,
    MirrorTruncateResponse,
    PartitionMirrorTruncate,
    PartitionMirrorTruncateResult,
    TopicMirrorTruncate,
)
from bus.records.batch import assign, iter_batches
from tests.broker.replica.story import (
    DEADLINE_S,
    TOPIC,
    ReplicaStory,
    batch,
    call,
    run,
    until,
)

pytestmark = pytest.mark.timeout(180)

THERE = "the-other-cluster"
LAG_S = 0.4


async def truncate(
    world: ReplicaStory, number: int, offset: int, *, end: int, generation: int = 1, epoch: int = 0
) -> PartitionMirrorTruncateResult:
    """The answer of a broker to MirrorTruncate."""
    future: asyncio.Future[MirrorTruncateResponse] = asyncio.get_running_loop().create_future()
    asked = PartitionMirrorTruncate(0, epoch, end, offset)
    body = MirrorTruncateRequest(THERE, generation, [TopicMirrorTruncate(TOPIC, [asked])])
    call(world.nodes[number], ApiKey.MIRROR_TRUNCATE, body, future.set_result)
    return (await asyncio.wait_for(future, DEADLINE_S)).topics[0].partitions[0]


async def claim(world: ReplicaStory, number: int) -> PartitionMirrorAppendResult:
    """A claim, repeated until it is taken."""
    for _ in range(2_000):
        answer = await mirror(world, number)
        if not answer.error_code:
            return answer
        assert error_of(answer) is ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(0.01)
    raise AssertionError(answer)


async def mirror(
    world: ReplicaStory, number: int, records: bytes | None = None, *, base_offset: int = -1,
    generation: int = 1, epoch: int = -1, start: int = -1, timeout_ms: int = 60_000,
) -> PartitionMirrorAppendResult:  # fmt: skip
    """The answer of a broker to one MirrorAppend; without records it is a claim."""
    future: asyncio.Future[MirrorAppendResponse] = asyncio.get_running_loop().create_future()
    asked = PartitionMirrorAppend(
        current_leader_epoch=epoch, base_offset=base_offset, source_log_start_offset=start,
        records=records,
    )  # fmt: skip
    body = MirrorAppendRequest(
        source_cluster_id=THERE, mirror_generation=generation, timeout_ms=timeout_ms,
        topics=[TopicMirrorAppend(name=TOPIC, partitions=[asked])],
    )  # fmt: skip
    call(world.nodes[number], ApiKey.MIRROR_APPEND, body, future.set_result)
    return (await asyncio.wait_for(future, DEADLINE_S)).topics[0].partitions[0]


def at(offset: int, text: str, count: int = 1, **more: Any) -> bytes:
    """A batch as the source has it."""
    data = bytearray(batch(text, count, **more))
    assign(data, 0, offset, 0)
    return bytes(data)


def plain(data: bytes) -> bytes:
    """Batches with leader epochs of 0, as the source of these stories has them."""
    found = bytearray(data)
    for position, header in list(iter_batches(found)):
        assign(found, position, header.base_offset, 0)
    return bytes(found)


def mirrored(world: ReplicaStory) -> None:
    world.topic_config = replace(TopicConfig(), mirror_source_cluster_id=THERE)


def error_of(
    answer: PartitionMirrorAppendResult | PartitionMirrorTruncateResult,
) -> ErrorCode:
    return ErrorCode.of(answer.error_code)


def test_it_is_acknowledged_when_all_in_sync_replicas_have_the_same_bytes() -> None:
    """With holes; a follower that is away holds it up, as with acks=all."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        await mirror(world, 1)
        sent = at(3, "a", 4) + at(20, "b", 2, producer=1 << 50, sequence=0)
        answer = await mirror(world, 1, sent, base_offset=0)
        assert (answer.error_code, answer.log_end_offset, answer.high_watermark) == (0, 22, 22)
        assert plain(world.content(1)) == sent
        assert world.content(1) == world.content(2) == world.content(3)
        world.controller.mute = True  # the follower that is away stays in the set
        world.isolate(3)
        late = await mirror(world, 1, at(22, "c"), base_offset=22, timeout_ms=100)
        assert error_of(late) is ErrorCode.REQUEST_TIMED_OUT
        assert (late.log_end_offset, late.high_watermark) == (23, 22)

    run(story)


def test_too_few_replicas_take_nothing() -> None:
    async def story(world: ReplicaStory) -> None:
        world.topic_config = replace(
            TopicConfig(), mirror_source_cluster_id=THERE, min_insync_replicas=2
        )
        world.controller.create((1, 2, 3))
        world.controller.change(isr=(1,))
        await mirror(world, 1)
        answer = await mirror(world, 1, at(0, "a"), base_offset=0)
        assert error_of(answer) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert answer.log_end_offset == 0

    run(story)


def test_a_new_leader_takes_records_only_after_a_claim() -> None:
    """What was read before is not appended after; what only the old leader had comes again."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        before = await mirror(world, 1, generation=4)
        sent = at(0, "a", 3)
        assert not (await mirror(world, 1, sent, base_offset=0, generation=4)).error_code
        world.isolate(1)
        lost = asyncio.ensure_future(
            mirror(world, 1, at(3, "b"), base_offset=3, generation=4, timeout_ms=200)
        )
        world.controller.change(leader=2, isr=(2, 3))
        assert error_of(await lost) is ErrorCode.REQUEST_TIMED_OUT
        for epoch, code in (
            (before.leader_epoch, ErrorCode.FENCED_LEADER_EPOCH),
            (-1, ErrorCode.STALE_MEMBER_EPOCH),
        ):
            stale = await mirror(world, 2, at(3, "b"), base_offset=3, generation=4, epoch=epoch)
            assert error_of(stale) is code
        claimed = await mirror(world, 2, generation=5)
        assert (claimed.log_end_offset, claimed.leader_epoch) == (3, 1)
        older = await mirror(world, 2, at(3, "b"), base_offset=3, generation=4)
        assert error_of(older) is ErrorCode.FENCED_MEMBER_EPOCH
        sent += at(3, "b") + at(9, "c")
        again = await mirror(world, 2, sent[len(at(0, "a", 3)) :], base_offset=3, generation=5)
        assert not again.error_code
        world.heal()
        await until(lambda: world.controller.partition.isr == (2, 3, 1), "the old one follows")
        assert plain(world.content(1)) == sent
        assert world.content(1) == world.content(2) == world.content(3)
        moved = await mirror(world, 1, at(10, "d"), base_offset=10, generation=5)
        assert error_of(moved) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(story)


def test_the_smallest_generation_of_the_metadata_holds_at_a_leader_that_has_heard_no_claim() -> None:
    """`mirror.generation` fences an older instance also where it is the first to come."""

    async def story(world: ReplicaStory) -> None:
        world.topic_config = replace(
            TopicConfig(), mirror_source_cluster_id=THERE, mirror_generation=7
        )
        world.controller.create((1, 2))
        world.controller.change(leader=2)
        for generation, code in ((6, ErrorCode.FENCED_MEMBER_EPOCH), (7, ErrorCode.NONE)):
            assert error_of(await mirror(world, 2, generation=generation)) is code

    run(story, count=2)


def test_all_replicas_begin_where_the_source_does() -> None:
    """A new partition, then one of which the source has deleted a part, then one of which it has
    deleted everything: the followers come after, and none leaves the in-sync set for good."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        far = 5_000_000_000
        begun = await begin_at(world, far)
        assert (begun.log_start_offset, begun.log_end_offset) == (far, far)
        sent = at(far, "a", 2) + at(far + 2, "b", 3)
        assert not (await mirror(world, 1, sent, base_offset=far)).error_code
        assert plain(world.content(3)) == sent
        assert (await mirror(world, 1, start=far + 2)).log_start_offset == far + 2
        await until(lambda: starts(world) == {far + 2}, "the followers' logs begin there too")
        emptied = await begin_at(world, far + 100)
        assert (emptied.log_start_offset, emptied.log_end_offset) == (far + 100, far + 100)
        again = await mirror(world, 1, at(far + 100, "c"), base_offset=far + 100)
        assert (again.error_code, again.high_watermark) == (0, far + 101)
        await until(lambda: starts(world) == {far + 100}, "the followers begin there")
        assert world.content(1) == world.content(2) == world.content(3)
        await until(lambda: sorted(world.controller.partition.isr) == [1, 2, 3], "all in sync")

    run(story)


async def begin_at(world: ReplicaStory, start: int) -> PartitionMirrorAppendResult:
    """Tell broker 1 until its log begins there, which needs the followers."""
    for _ in range(100):
        told = await mirror(world, 1, start=start)
        assert not told.error_code
        if told.log_start_offset == start:
            return told
        await asyncio.sleep(0.01)
    raise AssertionError(f"the log begins at {told.log_start_offset}, the source at {start}")


def test_a_leader_that_dies_alone_with_the_sources_start_takes_no_watermark_back() -> None:
    """What it has appended up to there is visible once all in-sync replicas have it, as a record."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        world.isolate(1)
        begun = await mirror(world, 1, start=9)
        assert (begun.log_start_offset, begun.log_end_offset, begun.high_watermark) == (0, 9, 0)
        world.controller.change(leader=2, isr=(2, 3))
        world.heal()
        await until(lambda: sorted(world.controller.partition.isr) == [1, 2, 3], "it follows")
        assert [world[one].partition.log.end_offset for one in (1, 2, 3)] == [0, 0, 0]
        assert world[1].partition.high_watermark == 0

    run(story)


def test_a_source_that_begins_far_away_is_followed_in_bounded_steps() -> None:
    """A batch covers 2,147,483,646 offsets, a request adds 16 of them."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1,))
        told = await mirror(world, 1, start=1 << 60)
        assert told.log_start_offset == told.log_end_offset == 34_359_738_336
        assert (await mirror(world, 1, start=1 << 60)).log_end_offset == 2 * 34_359_738_336

    run(story, count=1)


def starts(world: ReplicaStory) -> set[int]:
    return {world[number].partition.log.log_start_offset for number in (1, 2, 3)}


def test_nothing_is_deleted_that_a_replica_in_the_set_does_not_have_yet() -> None:
    """The start moves up to the high watermark, and the rest of the way with a later request."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2))
        await mirror(world, 1)
        await mirror(world, 1, at(0, "a", 5), base_offset=0)
        world.controller.mute = True
        world.isolate(2)
        await mirror(world, 1, at(5, "b", 5), base_offset=5, timeout_ms=50)
        held = await mirror(world, 1, start=50)
        assert (held.log_start_offset, held.log_end_offset) == (5, 10)
        world.controller.mute = False
        world.heal()
        await until(lambda: world[1].partition.high_watermark == 10, "it has all of it")
        assert (await begin_at(world, 50)).log_end_offset == 50

    run(story, count=2)


def test_a_hole_takes_no_follower_out_of_the_in_sync_set() -> None:
    """Followers of an idle partition have all the leader had when records come that begin beyond
    its end, or when the source begins there."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        await mirror(world, 1)
        await mirror(world, 1, at(0, "a"), base_offset=0)
        await asyncio.sleep(LAG_S * 4)
        for change in (
            mirror(world, 1, at(500, "b"), base_offset=1),
            mirror(world, 1, start=9_000),
        ):
            waiting = asyncio.ensure_future(change)
            await asyncio.sleep(0)
            world[1].partition.maybe_shrink_isr()
            assert not (await waiting).error_code
            await asyncio.sleep(LAG_S * 4)
        assert world.controller.asked == []
        assert world.controller.partition.isr == (1, 2, 3)

    run(story, replica_lag_time_max_ms=str(int(LAG_S * 1000)))


def test_producers_are_refused_with_an_error_after_which_they_try_again() -> None:
    """Until the topic is mirrored no longer; then the same batch is taken."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2))
        await mirror(world, 1)
        await mirror(world, 1, at(0, "a", 2), base_offset=0)
        record = batch("b", producer=7, sequence=0)
        answer, _ = await world.produce(1, record)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert THERE in answer.error_message
        world[1].replicas.update_configs({TOPIC: TopicConfig()})
        answer, _ = await world.produce(1, record)
        assert (answer.error_code, answer.base_offset) == (0, 2)
        refused = await mirror(world, 1, at(3, "c"), base_offset=3)
        assert error_of(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID

    run(story, count=2)


def test_what_only_this_site_has_is_cut_off_on_every_replica() -> None:
    """The batch that contains the offset goes as a whole; then the other site's records follow."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        await mirror(world, 1)
        common = at(0, "a", 5)
        await mirror(world, 1, common + at(5, "ours", 5) + at(10, "ours"), base_offset=0)
        answer = await truncate(world, 1, 7, end=11)
        assert (answer.error_code, answer.log_end_offset, answer.high_watermark) == (0, 5, 5)
        assert (await claim(world, 1)).log_end_offset == 5
        for number in (1, 2, 3):
            assert plain(world.content(number)) == common
        sent = at(5, "theirs", 9)
        assert not (await mirror(world, 1, sent, base_offset=5)).error_code
        for number in (1, 2, 3):
            assert plain(world.content(number)) == common + sent
        assert sorted(world.controller.partition.isr) == [1, 2, 3]

    run(story)


def test_no_record_comes_before_a_replica_that_is_away_has_cut_its_log() -> None:
    """It would keep what is gone: the leader epoch is the same, so that nobody told it. A new
    leader's epoch tells it."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2, 3))
        await mirror(world, 1)
        await mirror(world, 1, at(0, "a") + at(1, "ours", 4), base_offset=0)
        world.isolate(3)
        world.controller.change(isr=(1, 2))
        assert not (await truncate(world, 1, 1, end=5)).error_code
        await until(lambda: world[2].partition.log.end_offset == 1, "the other one cuts")
        for records in (None, at(1, "theirs", 9)):
            refused = await mirror(world, 1, records, base_offset=1)
            assert error_of(refused) in (
                ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.STALE_MEMBER_EPOCH
            )  # fmt: skip
        assert world[3].partition.log.end_offset == 5
        world.controller.change(leader=2, isr=(1, 2))
        await claim(world, 2)
        assert not (await mirror(world, 2, at(1, "theirs", 9), base_offset=1)).error_code
        world.heal()
        await until(lambda: sorted(world.controller.partition.isr) == [1, 2, 3], "it comes back")
        assert plain(world.content(3)) == at(0, "a") + at(1, "theirs", 9)
        assert world.content(1) == world.content(2) == world.content(3)

    run(story)


def test_a_cut_needs_a_claim_the_leaders_epoch_and_the_logs_end() -> None:
    """Nothing is cut that the mirror has not seen, nor below the log's start."""

    async def story(world: ReplicaStory) -> None:
        mirrored(world)
        world.controller.create((1, 2))
        await begin_at(world, 100)
        await mirror(world, 1, at(100, "a", 5), base_offset=100)
        for refused, code in (
            (truncate(world, 1, 102, end=104), ErrorCode.OFFSET_OUT_OF_RANGE),
            (truncate(world, 1, 99, end=105), ErrorCode.OFFSET_OUT_OF_RANGE),
            (truncate(world, 1, 106, end=105), ErrorCode.OFFSET_OUT_OF_RANGE),
            (truncate(world, 1, 102, end=105, epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
            (truncate(world, 1, 102, end=105, generation=0), ErrorCode.FENCED_MEMBER_EPOCH),
            (truncate(world, 1, 102, end=105, generation=2), ErrorCode.STALE_MEMBER_EPOCH),
            (truncate(world, 2, 102, end=105), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ):
            assert error_of(await refused) is code
        world[1].replicas.update_configs({TOPIC: TopicConfig()})
        primary = await truncate(world, 1, 102, end=105)
        assert error_of(primary) is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert world[1].partition.log.end_offset == 105

    run(story, count=2)
