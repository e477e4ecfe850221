"""The dispatcher's last word on lists of plates, with our real broker."""

from __future__ import annotations

import msgspec
import pytest

from bus.contracts.topics import EVENT_CANDIDATE
from tests.alarm.dispatch.dispatch_world import RECORD, DispatchWorld, candidate, until

pytestmark = pytest.mark.slow  # a broker process per test


def send_candidate(world: DispatchWorld, number: int) -> None:
    """Of a passage of its own: no quiet time."""
    found = msgspec.structs.replace(
        candidate(number), rule_id="list/stolen", captured_at_ms=number * 3_600_000
    )
    world.send(EVENT_CANDIDATE, "list/stolen", [found])


async def test_an_alarm_of_a_list_names_the_line_that_is_in_force(world: DispatchWorld) -> None:
    """Once for each record, also where its candidate comes twice and the list was changed; of a
    plate that is on the list no more there is none."""
    plate = RECORD["车牌号码"]
    world.put_list("stolen", ["浙A00001", plate])
    send_candidate(world, 1)
    send_candidate(world, 1)
    async with world.running():
        await until(world.on_topic, ["list/stolen:1"])
        world.put_list("stolen", [plate], version=2)
        send_candidate(world, 1)
        send_candidate(world, 2)
        await until(world.on_topic, ["list/stolen:1", "list/stolen:2"])
        world.put_list("stolen", ["浙A00001"], version=3)
        send_candidate(world, 3)
        await until(world.read_up_to, 5)
        await until(world.stored, ["list/stolen:1", "list/stolen:2"])
    found = {alarm.alarm_id: alarm.listed for alarm in world.alarms_on_topic()}
    assert sorted(found) == ["list/stolen:1", "list/stolen:2"]
    lines = [(one.version, one.line, one.plate, one.note) for one in found.values() if one]
    assert sorted(lines) == [(1, 3, plate, "note 3"), (2, 2, plate, "note 2")]
