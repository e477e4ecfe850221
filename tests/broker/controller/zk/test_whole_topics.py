"""A broker's image has a topic with all its partitions or not at all, whatever part a request names.

A group belongs to the partition that its id and the number of partitions give: a broker that knew
some partitions of `__consumer_offsets` only would be, or name, a second coordinator of the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.clock.real import RealClock
from broker.controller.zk import znodes
from broker.controller.zk.controller_requests import ControllerRequestHandler, LocalReplicas
from broker.controller.zk.port import ZooKeeperError, ZooKeeperErrorKind
from broker.controller.zk.request_decoder import (
    incomplete_topics,
    records_from_leader_and_isr,
    records_from_update_metadata,
)
from broker.controller.zk.requests import Sender, leader_and_isr, update_metadata
from broker.metadata.image import MetadataImage, TopicImage
from bus.errors import ErrorCode
from tests.broker.controller.zk.test_plan import replayed, with_topic

AUTHOR = Sender(controller_id=1, controller_epoch=3, broker_epoch=50)
NODE = 1
PARTITIONS = 6


class TopicZnodes:
    """A session that can read the nodes of topics, or cannot."""

    def __init__(self, *topics: TopicImage) -> None:
        self.is_away = False
        self.data = {
            znodes.topic_path(topic.name): znodes.encode_topic(
                znodes.TopicAssignment(
                    {one.index: one.replicas for one in topic.partitions}, topic.topic_id
                )
            )
            for topic in topics
        }

    async def sync(self, path: str) -> None:
        if self.is_away:
            raise ZooKeeperError(ZooKeeperErrorKind.CONNECTION_LOSS)

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Any]:
        await self.sync(path)
        if path not in self.data:
            raise ZooKeeperError(ZooKeeperErrorKind.NO_NODE)
        return self.data[path], None


def ask(handler: ControllerRequestHandler, request: object) -> Any:
    """The handler's response."""

    async def exchange() -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        handler.open(LocalReplicas(lambda *_: ErrorCode.NONE, lambda *_: False))
        handler.handle(request, answer.set_result)
        try:
            return await answer
        finally:
            handler.close()

    return asyncio.run(exchange())


def follower(session: Any) -> ControllerRequestHandler:
    made = ControllerRequestHandler(NODE, session, RealClock(), lambda _: None, lambda *_: None)
    made.on_registered(AUTHOR.broker_epoch)
    return made


def counted(handler: ControllerRequestHandler) -> int:
    topic = handler.image.topics.get("t")
    return 0 if topic is None else len(topic.partitions)


def test_a_broker_that_has_some_partitions_knows_how_many_there_are() -> None:
    """Found by the simulation (seed 71266): of two partitions it had the first one only, took all
    groups for its own, and a group had two owners of everything in generation 1."""
    topic = with_topic(PARTITIONS)[1].topics["t"]
    handler = follower(TopicZnodes(topic))
    request = leader_and_isr(with_topic(PARTITIONS)[1], [(topic.topic_id, 1)], AUTHOR)
    assert ask(handler, request).error_code == ErrorCode.NONE
    partitions = handler.image.topics["t"].partitions
    assert [one.index for one in partitions if one.leader >= 0] == [1]
    assert counted(handler) == PARTITIONS


def test_a_request_waits_until_the_number_can_be_read() -> None:
    """The controller repeats what gets this error; until then the topic is not known at all."""
    image = with_topic(PARTITIONS)[1]
    topic = image.topics["t"]
    session = TopicZnodes(topic)
    handler = follower(session)
    request = leader_and_isr(image, [(topic.topic_id, 1)], AUTHOR)
    session.is_away = True
    assert ask(handler, request).error_code == ErrorCode.BROKER_NOT_AVAILABLE
    assert counted(handler) == 0
    session.is_away = False
    assert ask(handler, request).error_code == ErrorCode.NONE
    assert counted(handler) == PARTITIONS


def test_what_is_known_needs_no_zookeeper() -> None:
    """A change of leaders must not wait for it, nor a request that names everything."""
    image = with_topic(PARTITIONS)[1]
    every = [(topic.topic_id, one.index) for topic, one in image.partitions()]
    session = TopicZnodes()
    handler = follower(session)
    session.is_away = True
    assert ask(handler, update_metadata(image, every, AUTHOR, full=True)).error_code == ErrorCode.NONE
    assert ask(handler, leader_and_isr(image, every[1:2], AUTHOR)).error_code == ErrorCode.NONE
    assert counted(handler) == PARTITIONS


def test_the_number_of_another_topic_of_that_name_does_not_count() -> None:
    """It was deleted and made again meanwhile."""
    image = with_topic(2)[1]
    topic = image.topics["t"]
    other = TopicImage("t", bytes(15) + b"\7", with_topic(PARTITIONS)[1].topics["t"].partitions)
    handler = follower(TopicZnodes(other))
    assert ask(handler, leader_and_isr(image, [(topic.topic_id, 1)], AUTHOR)).error_code == 0
    assert counted(handler) == 2


PARTS = st.lists(
    st.tuples(st.booleans(), st.sets(st.integers(0, PARTITIONS - 1), min_size=1)),
    min_size=1, max_size=6,
)  # fmt: skip


@given(PARTS, st.integers(0, PARTITIONS))
def test_no_part_of_a_topic_is_taken_for_the_whole(
    parts: list[tuple[bool, set[int]]], known: int
) -> None:
    """Any requests in any order, for a new topic and for one that has grown."""
    whole = with_topic(PARTITIONS)[1]
    topic_id = whole.topics["t"].topic_id
    image = MetadataImage()
    if known:
        first = [(topic_id, index) for index in range(known)]
        image = replayed(
            image, *records_from_update_metadata(image, update_metadata(whole, first, AUTHOR), {}).records
        )  # fmt: skip
    for is_own, indexes in parts:
        chosen = [(topic_id, index) for index in indexes]
        make: Callable[..., Any] = leader_and_isr if is_own else update_metadata
        request = make(whole, chosen, AUTHOR)
        counts = {topic_id: PARTITIONS} if incomplete_topics(image, request) else {}
        decoded = (
            records_from_leader_and_isr(image, request, NODE, counts)
            if is_own
            else records_from_update_metadata(image, request, counts)
        )
        image = replayed(image, *decoded.records)
        assert len(image.topics["t"].partitions) in (known or PARTITIONS, PARTITIONS)
