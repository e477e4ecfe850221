"""What a broker's replicas become when the metadata changes, also while many are being made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.errors import LogError
from broker.metadata.delta import Changes
from broker.metadata.image import MetadataImage, PartitionImage, TopicImage, frozen
from broker.metadata.publisher import Publisher
from broker.replica.creation_queue import PER_ITERATION
from broker.server.subscribers import ReplicaSubscriber
from bus.errors import ErrorCode
from tests.broker.one_broker import opened_logs, replicas_of

ME, OTHER = 1, 2
LARGE = 2 * PER_ITERATION + 3
OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


class SubscriberWorld:
    """The storage side of broker 1, which tests notify of topics; it runs on a real event loop."""

    def __init__(self, directory: str) -> None:
        clock = RealClock()
        self.logs = opened_logs(directory, clock)
        self.replicas = replicas_of(self.logs, clock)
        self.replicas.creation_queue.is_spread = True
        self.publisher = Publisher()
        self.subscriber = ReplicaSubscriber(
            ME, self.replicas, lambda _: TopicConfig(), self.publisher.on_apply_error
        )

    def publish(self, *topics: TopicImage, deleted: tuple[TopicImage, ...] = ()) -> None:
        """One change of the metadata: these topics as a whole."""
        image = MetadataImage(topics=frozen({topic.name: topic for topic in topics}))
        changed = tuple((topic, each) for topic in topics for each in topic.partitions)
        self.subscriber(Changes(image=image, changed_partitions=changed, deleted_topics=deleted))

    def here(self) -> list[int]:
        """Partitions of `t` that are made."""
        return sorted(each.index for each in self.replicas.partitions())

    def on_disk(self) -> set[str]:
        """Directories of `t`, without what is only waiting for its removal."""
        names = RealDisk().listdir(self.logs.directories[0])
        return {name for name in names if name.startswith("t-") and not name.endswith("-delete")}

    async def until_made(self) -> None:
        """Let the loop turn until nothing waits any more; more turns than needed are a failure."""
        for _ in range(LARGE):
            if not len(self.replicas.creation_queue):
                return
            await asyncio.sleep(0)
        raise AssertionError("replicas still wait")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SubscriberWorld]:
    monkeypatch.setattr("broker.replica.creation_queue.ITERATION_S", 3600.0)  # however busy the machine
    world = SubscriberWorld(str(tmp_path))
    yield world
    for lock in world.logs.dirs._locks:
        lock.release()


def topic(topic_id: bytes = OLD_ID, count: int = LARGE, *, leader: int = ME, epoch: int = 0,
          replicas: tuple[int, ...] = (ME,)) -> TopicImage:  # fmt: skip
    partitions = tuple(
        PartitionImage(
            index=index, replicas=replicas, isr=replicas, leader=leader, leader_epoch=epoch,
            partition_epoch=epoch,
        )
        for index in range(count)
    )  # fmt: skip
    return TopicImage("t", topic_id, partitions)


def test_a_large_topic_comes_in_turns_and_whole(world: SubscriberWorld) -> None:
    """The first turn makes its share, the loop is free in between, the rest follows."""

    async def story() -> None:
        world.publish(topic())
        assert world.here() == list(range(PER_ITERATION))
        await world.until_made()
        assert world.here() == list(range(LARGE))

    asyncio.run(story())


def test_a_request_finds_a_replica_that_waits(world: SubscriberWorld) -> None:
    """The metadata names this broker already, so it serves."""

    async def story() -> None:
        world.publish(topic())
        assert world.replicas.get("t", LARGE - 1).is_leader
        assert LARGE - 1 in world.here()

    asyncio.run(story())


def test_a_new_leader_is_news_to_one_that_waits(world: SubscriberWorld) -> None:
    """It is made as what the newest metadata says, made or asked for."""

    async def story() -> None:
        world.publish(topic(replicas=(ME, OTHER)))
        world.publish(topic(replicas=(ME, OTHER), leader=OTHER, epoch=1))
        assert world.replicas.get("t", LARGE - 1).leader_id == OTHER
        await world.until_made()
        assert {each.leader_id for each in world.replicas.partitions()} == {OTHER}

    asyncio.run(story())


def test_a_deleted_topic_leaves_nothing_that_waits(world: SubscriberWorld) -> None:
    """What was made goes, what was not is never made."""

    async def story() -> None:
        world.publish(topic())
        world.publish(deleted=(topic(),))
        await world.until_made()
        assert world.here() == []
        assert world.on_disk() == set()
        with pytest.raises(LogError) as refused:
            world.replicas.get("t", LARGE - 1)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(story())


def test_a_topic_made_anew_under_its_name_follows_the_deletion(world: SubscriberWorld) -> None:
    """No replica of the old one is left, those that waited included."""

    async def story() -> None:
        world.publish(topic())
        world.publish(topic(NEW_ID), deleted=(topic(),))
        await world.until_made()
        assert world.here() == list(range(LARGE))
        assert {each.topic_id for each in world.replicas.partitions()} == {NEW_ID}

    asyncio.run(story())


def test_a_replica_that_is_reassigned_away_while_it_waits_is_never_made(world: SubscriberWorld) -> None:
    """The newest metadata says that it is another broker's."""

    async def story() -> None:
        world.publish(topic())
        world.publish(topic(replicas=(OTHER,), leader=OTHER, epoch=1))
        await world.until_made()
        assert world.here() == []

    asyncio.run(story())


def test_a_stop_while_many_wait_leaves_no_work_behind(world: SubscriberWorld) -> None:
    """The next start makes what the metadata names then."""

    async def story() -> None:
        world.publish(topic())
        await world.replicas.stop()
        await asyncio.sleep(0)
        world.publish(topic())
        await asyncio.sleep(0)
        assert world.here() == list(range(PER_ITERATION))
        assert len(world.on_disk()) == PER_ITERATION

    asyncio.run(story())


def test_a_replica_the_disk_refuses_does_not_keep_the_others(
    world: SubscriberWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Its clients get an error; its creation is not retried."""
    in_its_way = Path(world.logs.directories[0]) / f"t-{LARGE - 2}"
    in_its_way.write_text("a file where the directory ought to be")

    async def story() -> None:
        world.publish(topic())
        with pytest.raises(LogError) as refused:
            world.replicas.get("t", LARGE - 2)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await world.until_made()
        assert LARGE - 1 in world.here()
        assert LARGE - 2 not in world.here()

    asyncio.run(story())
    assert caplog.text.count("no replica of") == 1


def test_the_first_image_is_there_when_its_publication_returns(world: SubscriberWorld) -> None:
    """A broker that starts serves nothing before its replicas are made."""
    world.replicas.creation_queue.is_spread = False
    world.publish(topic())
    assert world.here() == list(range(LARGE))
