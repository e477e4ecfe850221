"""Topics deleted and made again under a running dispatcher: it reads the new ones, by itself.

What broke: it read nothing of them until it was started again.
"""

from __future__ import annotations

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import (
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.errors import BusError, ErrorCode
from tests.alarm.dispatch.dispatch_world import DispatchWorld, ids, until

pytestmark = pytest.mark.slow


def make_anew(world: DispatchWorld, topic: str, partitions: int = 0) -> None:
    admin = Admin(world.bus, client_id="test")
    admin.delete_topic(topic)
    try:
        admin.create_topic(topic, partitions or TOPICS[topic].partitions)
    except BusError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # a producer may have had it made
            raise
    admin.close()


@pytest.mark.parametrize("topic", [EVENT_CANDIDATE, EVENT_ALARM, STATE_WATCHLIST, EVENT_INCIDENT])
async def test_every_candidate_becomes_an_alarm_whatever_topic_is_made_anew(
    world: DispatchWorld, topic: str
) -> None:
    """Twice, and once with more partitions; the dispatcher goes on, nothing is raised twice. None is
    told as lost: of a topic that stood for less than a second it may say that nobody saw its end."""
    world.put_rule()
    world.candidates([1, 2])
    async with world.running():
        await until(world.stored, ids([1, 2]))
        for number in (3, 5):
            make_anew(world, topic, number - 2)
            if topic == STATE_WATCHLIST:
                world.put_rule(version=number)
            world.candidates([number, number + 1])
            await until(world.stored, ids(range(1, number + 2)))
    assert [one.detail for one in world.incidents() if one.detail.get("lost", "0") != "0"] == []
