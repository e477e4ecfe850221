"""Which partitions are copied: those of the topics that were planned, and of no others of their names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import PartitionDescription, TopicDescription, TopicPartition
from bus.client.wire.loop_ports import LoopClock
from dr_mirror.copy.partition_starter import NotStarted
from dr_mirror.copy.partition_tasks import PartitionTasks
from dr_mirror.copy.plan.partition_copy import NO_NODE, PartitionCopy
from dr_mirror.service.mirror import _context
from dr_mirror.settings import MirrorSettings
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import TopicPlan

NAME = "data.vehicle"
PLACE = TopicPartition(NAME, 0)
FIRST, SECOND, OURS, OURS_ANEW = (bytes([number]) * 16 for number in range(1, 5))


class SilentTarget:
    """A cluster none of whose brokers answers."""

    async def start(self, copy: PartitionCopy) -> None:
        raise NotStarted(MirrorState.TARGET_UNAVAILABLE, "nobody answers")

    def sender(self, copy: PartitionCopy) -> Any:
        raise AssertionError("no broker leads it")


@pytest.fixture
async def tasks() -> AsyncIterator[PartitionTasks]:
    found = PartitionTasks(_context(MirrorSettings(), LoopClock()), SilentTarget())
    yield found
    found.close()
    await asyncio.sleep(0)


def view(topic_id: bytes) -> ClusterView:
    without_leader = PartitionDescription(0, NO_NODE, 0, (1,), (1,))
    topic = TopicDescription(NAME, topic_id, internal=False, partitions=(without_leader,))
    return ClusterView("cluster", {}, {NAME: topic})


def assign(tasks: PartitionTasks, planned: bytes, source: bytes, target: bytes = OURS) -> None:
    plan = TopicPlan(NAME, MirrorState.COPYING, 1, source_id=planned)
    tasks.assign({NAME: plan}, view(source), view(target))


def copied(tasks: PartitionTasks) -> tuple[bytes, bytes] | None:
    """The ids of the topics at both sites that the partition is copied between."""
    copy = tasks._copies.get(PLACE)
    return None if copy is None else (copy.topic_id, copy.target_topic_id)


async def test_a_topic_made_anew_since_it_was_planned_is_planned_again_before_it_is_copied(
    tasks: PartitionTasks,
) -> None:
    """What broke: its id was taken for that of what the target holds, and the next plan agreed."""
    assign(tasks, planned=FIRST, source=SECOND)
    assert (copied(tasks), tasks.topic_ids) == (None, {})
    assert tasks._context.refresh.is_set()
    assign(tasks, planned=SECOND, source=SECOND)
    assert copied(tasks) == (SECOND, OURS)


async def test_what_is_being_copied_ends_when_its_topic_is_another_one(tasks: PartitionTasks) -> None:
    assign(tasks, planned=FIRST, source=FIRST)
    before = tasks._copies[PLACE]
    assign(tasks, planned=FIRST, source=FIRST)
    assert tasks._copies[PLACE] is before
    assign(tasks, planned=FIRST, source=SECOND)
    assert copied(tasks) is None


async def test_a_topic_that_was_begun_anew_between_two_looks_is_copied_between_the_present_ones(
    tasks: PartitionTasks,
) -> None:
    """`copy-anew` of somebody else: this process never saw the target without the topic."""
    assign(tasks, planned=FIRST, source=FIRST)
    assign(tasks, planned=SECOND, source=SECOND, target=OURS_ANEW)
    assert copied(tasks) == (SECOND, OURS_ANEW)
    assert tasks.topic_ids == {NAME: SECOND}
