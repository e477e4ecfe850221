"""Stories of one partition and its replicas, without sockets."""

from __future__ import annotations

import asyncio

import pytest

from broker.config.views import TopicConfig
from broker.disk.port import DiskError, DiskFull
from broker.log.errors import LogError
from bus.errors import ErrorCode
from tests.broker.replica.story import ReplicaStory, batch, run, until

pytestmark = pytest.mark.timeout(180)


def test_followers_copy_and_acks_all_is_answered() -> None:
    """Leader and followers hold the same bytes, and the watermark reaches all of them."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        for at in range(5):
            answer, _ = await world.produce(1, batch(f"record {at}"))
            assert (answer.error_code, answer.base_offset) == (0, at)
        assert world.content(1) == world.content(2) == world.content(3)
        await until(lambda: world[3].partition.high_watermark == 5, "the watermark arrives")

    run(story)


def test_a_silent_follower_leaves_the_in_sync_set_and_comes_back() -> None:
    """acks=all waits for it until the controller has taken it out; it returns by catching up."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("first"))
        world.isolate(3)
        answer, _ = await world.produce(1, batch("second"))
        assert not answer.error_code
        assert 3 not in world.controller.partition.isr
        assert 3 not in world[1].partition.isr
        world.heal()
        await until(lambda: sorted(world.controller.partition.isr) == [1, 2, 3], "it comes back")
        assert world.content(3) == world.content(1)
        epochs = sorted(state.broker_epoch for state in last_isr(world))
        assert epochs == [101, 102, 103], "the controller hears which life of a broker is meant"

    run(story, replica_lag_time_max_ms="400")


def last_isr(world: ReplicaStory):  # type: ignore[no-untyped-def]
    return world.controller.asked[-1].topics[0].partitions[0].new_isr_with_epochs


def test_a_fenced_broker_does_not_come_back_into_the_set() -> None:
    """KIP-841: a fenced broker copies, but is not in sync."""

    async def story(world: ReplicaStory) -> None:
        world.fenced.add(3)
        world.controller.create((1, 2, 3))
        world.controller.change(isr=(1, 2))
        await world.produce(1, batch("first"))
        await until(lambda: world[3].partition.log.end_offset == 1, "it copies")
        await world.produce(1, batch("second"))
        await until(lambda: world[3].partition.log.end_offset == 2, "it goes on copying")
        assert world.controller.asked == []
        world.fenced.clear()
        world.controller.change()
        world[1].put("third")
        await until(lambda: world.controller.partition.isr == (1, 2, 3), "in sync again")

    run(story)


def test_a_deposed_leader_cuts_what_nobody_else_has() -> None:
    """The unreplicated tail of the old leader goes; what was acknowledged stays (KIP-101)."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("acknowledged"))
        world.isolate(1)
        world[1].put("only here")
        assert world[1].partition.log.end_offset == 2
        world.controller.change(leader=2, isr=(2, 3))
        await world.produce(2, batch("of the new leader"))
        world.heal()
        await until(lambda: world.controller.partition.isr == (2, 3, 1), "the old one follows")
        assert world.content(1) == world.content(2) == world.content(3)
        assert world[1].partition.log.leader_epochs.entries == [(0, 0), (1, 1)]

    run(story)


def test_a_follower_that_was_told_to_cut_learns_the_watermark_without_another_append() -> None:
    """The answer that names the cut has the watermark too, and a follower uses only the cut."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("acknowledged"))
        world.isolate(1)
        world[1].put("only here")
        world[1].partition.log.high_watermark = 0  # the followers' fetches for it never came
        world.controller.change(leader=2, isr=(2, 3))
        await until(lambda: world[2].partition.high_watermark == 1, "the new leader knows its own")
        world.heal()
        await until(lambda: world[1].partition.high_watermark == 1, "the old one hears of it")
        assert world[1].partition.log.end_offset == 1

    run(story)


def test_a_follower_never_cuts_to_its_own_watermark() -> None:
    """B-LDR-12 lost records: a follower whose watermark lags, restarted and then elected."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        await world.produce(1, batch("acknowledged"))
        assert world[2].partition.log.end_offset == 1
        world[2].partition.log.high_watermark = 0  # the last answer with it never came
        await world.restart(2)
        assert world[2].partition.log.end_offset == 1
        world.isolate(1)
        world.controller.change(leader=2, isr=(2,))
        assert world[2].partition.log.end_offset == 1
        assert world[2].partition.high_watermark == 1

    run(story, count=2)


def test_epochs_that_only_one_side_knows_are_walked_back_one_by_one() -> None:
    """KIP-279: several short leaderships, each with records that no other replica got."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        await world.produce(1, batch("common"))
        for at in range(3):
            world.isolate(2)
            world.controller.change(leader=1, isr=(1,))
            world[1].put(f"lost {at}")
            world.cut.clear()
            world.isolate(1)
            world[2].gets_metadata = True
            world.controller.change(leader=2, isr=(2,))  # unclean: the tail of 1 is given up
            world[2].put(f"kept {at}")
            world.cut.clear()
            world[1].gets_metadata = True
        world.heal()
        await until(lambda: world.content(1) == world.content(2), "both agree")
        texts = world.content(1)
        assert b"kept 2" in texts
        assert b"lost" not in texts

    run(story, count=2)


def test_a_follower_behind_the_leaders_start_begins_anew_there() -> None:
    """What it would need next has been deleted on the leader."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        for at in range(4):
            await world.produce(1, batch(f"old {at}"))
        world.isolate(2)
        world.fenced.add(2)
        world.controller.change(isr=(1,))
        for at in range(4):
            world[1].put(f"newer {at}")
        world[1].partition.delete_records(6)
        world.fenced.clear()
        world.controller.change()
        world.heal()
        await until(lambda: world.controller.partition.isr == (1, 2), "it catches up")
        log = world[2].partition.log
        assert (log.log_start_offset, log.end_offset) == (6, 8)

    run(story, count=2)


def test_deleted_records_are_deleted_on_followers_too() -> None:
    """The leader's log start comes with the next answer."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        for at in range(4):
            await world.produce(1, batch(f"old {at}"))
        await until(lambda: world[2].partition.high_watermark == 4, "watermark")
        world[1].partition.delete_records(3)
        await until(lambda: world[2].partition.log.log_start_offset == 3, "start of 2")
        await until(lambda: world[3].partition.log.log_start_offset == 3, "start of 3")

    run(story)


def test_acks_all_hears_that_another_leads_now() -> None:
    """A waiting producer gets an answer at once, with the new leader's name and address (KIP-951)."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        world.isolate(2)
        waiting = asyncio.ensure_future(world.produce(1, batch("waits")))
        await asyncio.sleep(0)
        world.controller.change(leader=3, isr=(3,))
        answer, response = await waiting
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
        assert [(end.node_id, end.port) for end in response.node_endpoints] == [(3, 3)]

    run(story)


def test_a_zombie_does_not_call_a_batch_out_of_order() -> None:
    """It lacks the batches that the new leader has taken; only the followers can prove it right."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("zero", producer=7, sequence=0))
        world.isolate(1)
        world.controller.change(leader=2, isr=(2, 3))
        await world.produce(2, batch("one", producer=7, sequence=1))
        answer, _ = await world.produce(1, batch("two", producer=7, sequence=2), timeout_ms=300)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer, _ = await world.produce(2, batch("two", producer=7, sequence=2))
        assert not answer.error_code

    run(story)


def test_a_true_leader_calls_a_batch_out_of_order_soon() -> None:
    """The followers ask again at once, and that is the proof."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("zero", producer=7, sequence=0))
        answer, _ = await world.produce(1, batch("five", producer=7, sequence=5))
        assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    run(story)


def test_a_stale_partition_epoch_waits_for_newer_metadata() -> None:
    """INVALID_UPDATE_VERSION: the controller knows more, so nothing is asked until we do too."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("first"))
        world.controller.answers = [ErrorCode.INVALID_UPDATE_VERSION]
        world.isolate(3)
        world[1].put("second")
        await until(lambda: len(world.controller.asked) == 1, "the set shall shrink")
        await asyncio.sleep(0.5)
        assert len(world.controller.asked) == 1
        world.controller.change()
        await until(lambda: world.controller.partition.isr == (1, 2), "asked with the new epoch")

    run(story, replica_lag_time_max_ms="300")


def test_a_silent_follower_that_is_behind_is_not_taken_in_again() -> None:
    """Below min.insync.replicas the watermark rests where the silent one is; it joined and was taken
    out again for ever."""

    async def story(world: ReplicaStory) -> None:
        world.topic_config = TopicConfig(min_insync_replicas=2)
        world.controller.create((1, 2))
        await world.produce(1, batch("first"))
        world.isolate(2)
        world[1].put("second")
        await until(lambda: world.controller.partition.isr == (1,), "the set shrinks")
        asked = len(world.controller.asked)
        await asyncio.sleep(3.0)
        assert len(world.controller.asked) == asked
        assert world.controller.partition.isr == (1,)

    run(story, count=2, replica_lag_time_max_ms="300")


def test_a_change_of_the_set_outlives_a_controller_that_is_away() -> None:
    """The proposal is resent until a controller accepts it."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        world.controller.mute = True
        world.isolate(2)
        world[1].put("first")
        leadership = world[1].partition.leader_state
        assert leadership is not None
        await until(lambda: leadership.pending is not None, "proposed")
        assert world[1].partition.high_watermark == 0
        world.controller.mute = False
        await until(lambda: world[1].partition.high_watermark == 1, "taken")

    run(story, count=2, replica_lag_time_max_ms="300")


def test_an_idle_session_sends_nothing_but_its_number() -> None:
    """After the first request a follower names only what moved."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        await world.produce(1, batch("first"))
        await until(lambda: len(world[1].requests) > 4, "some fetches")
        idle = [one for one in world[1].requests[3:] if one.session_epoch > 0]
        assert idle
        assert all(not one.topics for one in idle[-1:])

    run(story, count=2)


def test_deleting_records_is_answered_when_the_followers_have_heard_of_it() -> None:
    """DeleteRecords returns the smallest log start of the live replicas."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        for at in range(4):
            await world.produce(1, batch(f"old {at}"))
        result = await world.delete_records(1, before=3)
        assert (result.error_code, result.low_watermark) == (0, 3)
        assert world[2].partition.log.log_start_offset == 3

    run(story, count=2)


def test_a_failed_disk_takes_its_partitions_offline_and_is_reported() -> None:
    """The leader's write fails: its directory is given up, others go on (KIP-112)."""

    async def story(world: ReplicaStory) -> None:
        heard: list[int] = []
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("first"))
        node = world[1]
        node.replicas.on_directory_failed = lambda: heard.append(1)
        node.disk.error = DiskError("input/output error")
        answer, _ = await world.produce(1, batch("second"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (heard, node.replicas.offline_count, node.replicas.is_all_offline) == ([1], 1, True)
        assert node.replicas.offline_dirs == tuple(node.logs.directory_ids.values())
        with pytest.raises(LogError, match="KAFKA_STORAGE_ERROR"):
            node.replicas.get("t", 0)
        world.controller.change(leader=2, isr=(2, 3))
        answer, _ = await world.produce(2, batch("third"))
        assert not answer.error_code

    run(story)


def test_a_full_disk_is_given_up_only_where_another_replica_can_take_over() -> None:
    """A single replica answers errors and continues when there is room again."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1,))
        world[1].disk.error = DiskFull("no space left")
        answer, _ = await world.produce(1, batch("no room"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert world[1].replicas.offline_count == 0
        world[1].disk.error = None
        answer, _ = await world.produce(1, batch("room"))
        assert not answer.error_code
        world.controller.change(replicas=(1, 2))
        world[1].disk.error = DiskFull("no space left")
        await world.produce(1, batch("no room"))
        assert world[1].replicas.offline_count == 1

    run(story, count=2)


def test_the_controller_is_told_in_which_directory_a_replica_lies() -> None:
    """Only a broker with several directories says so, and only where the metadata differs."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2), directories=(bytes(16), bytes(16)))
        await until(lambda: len(world.controller.assigned) == 2, "both say it")
        told = {body.broker_id: body.directories[0] for body in world.controller.assigned}
        assert {d.topics[0].topic_id for d in told.values()} == {bytes(range(16))}
        assert told[1].id in world[1].logs.directory_ids.values()

    run(story, count=2, directories=2)


def test_fewer_in_sync_than_the_minimum_stop_the_watermark_too() -> None:
    """Strict min ISR (KIP-966): records on a single replica are not acknowledged."""

    async def story(world: ReplicaStory) -> None:
        world.topic_config = TopicConfig(min_insync_replicas=2)
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("first"))
        world.isolate(2)
        world.isolate(3)
        world[1].gets_metadata = True
        world.controller.change(isr=(1,))
        answer, _ = await world.produce(1, batch("refused"))
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        world[1].put("acks=1")
        assert (world[1].partition.log.end_offset, world[1].partition.high_watermark) == (2, 1)
        world.heal()
        await until(lambda: world[1].partition.high_watermark == 2, "two in sync again")

    run(story)


def test_a_throttled_replica_is_filled_slowly_until_it_is_in_sync() -> None:
    """KIP-73: the others are not slowed down."""

    async def story(world: ReplicaStory) -> None:
        throttled = {"leader.replication.throttled.replicas": ("*",)}
        world.topic_config = TopicConfig(values=throttled)
        world.controller.create((1, 2))
        for _ in range(4):
            await world.produce(1, batch("x" * 50_000))
        world[1].replicas.replication_quotas.leader.bytes_per_second = 1000
        world.fenced.add(3)
        world.controller.change(replicas=(1, 2, 3), adding_replicas=(3,))
        await until(lambda: world[3].partition.log.end_offset > 0, "it begins")
        await world.produce(1, batch("in sync replicas are not throttled"))
        log = world[3].partition.log
        await asyncio.sleep(0.3)
        assert log.end_offset < 5
        world[1].replicas.replication_quotas.leader.bytes_per_second = 1 << 40
        await until(lambda: log.end_offset == 5, "no throttle any more")

    run(story, replica_fetch_max_bytes="1000")


def test_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    """KIP-392: the leader names it, and it serves up to its own watermark."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2))
        await world.produce(1, batch("first"))
        await until(lambda: world[2].partition.high_watermark == 1, "the follower knows")
        sent = await world.fetch(1, rack="rack-2")
        assert (sent.preferred_read_replica, bytes(sent.records)) == (2, b"")
        read = await world.fetch(2, rack="rack-2")
        assert b"first" in bytes(read.records)
        ahead = await world.fetch(2, rack="rack-2", offset=9)
        assert ahead.error_code == ErrorCode.OFFSET_NOT_AVAILABLE

    run(
        story, count=2,
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )  # fmt: skip


def test_an_answer_that_stumbles_makes_its_partition_rest_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer would be the same after a restart; the fetcher of that leader continues."""

    async def story(world: ReplicaStory) -> None:
        world.controller.create((1, 2, 3))
        await world.produce(1, batch("first"))
        append, times = type(world[2].partition).append_as_follower, [0]

        def stumble(partition: object, *rest: object) -> object:
            if partition is world[2].partition and times[0] < 2:
                times[0] += 1
                raise KeyError("planted")
            return append(partition, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(type(world[2].partition), "append_as_follower", stumble)
        answer, _ = await world.produce(1, batch("second"))
        assert not answer.error_code
        await until(lambda: world.content(2) == world.content(1), "it goes on")
        assert times == [2]

    run(story)
    assert caplog.text.count("KeyError: 'planted'") == 2
