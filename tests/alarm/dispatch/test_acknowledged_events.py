"""Who has taken what in hand at one site is known at the other one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.alarms import Acknowledged
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.topics import EVENT_ACKNOWLEDGED
from bus.notify.acknowledgements import Acknowledgements
from bus.runtime.wall_clock import now_ms
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import DispatchWorld, until


def on_topic(world: DispatchWorld) -> list[ConsumedRecord]:
    found: list[ConsumedRecord] = []
    with Consumer(world.bus, client_id="test") as consumer:
        consumer.assign({TopicPartition(EVENT_ACKNOWLEDGED, 0): 0})
        while not consumer.at_end:
            found += consumer.poll(100, 0.1)
    return found


@pytest.mark.slow
async def test_an_acknowledgement_goes_to_the_topic_once_and_another_site_s_comes_from_it(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Over a restart; of two that took the same in hand, the first that this site knows stays."""
    world = DispatchWorld(broker.bootstrap, tmp_path / "site")
    here = Acknowledgements(world.site)
    here.add("r:1", "wang", now_ms())
    foreign = [
        Acknowledged(id=name, by_whom="li", at_ms=now_ms()) for name in ("r:1", "incident-2")
    ]
    async with world.running():
        await until(lambda: len(on_topic(world)), 1)
        producer = Producer(world.bus, client_id="test")
        for one in foreign:
            producer.send(
                EVENT_ACKNOWLEDGED, msgspec.json.encode(one), key=one.id,
                headers=[(MIRROR_ORIGIN, MirrorOrigin("another-cluster", 7).value)],
            )  # fmt: skip
        assert producer.close() == 0
        await until(lambda: here.who("incident-2"), "li")
    here.add("r:3", "zhao", now_ms())
    async with world.running():
        await until(lambda: here.who("r:3"), "zhao")
        await until(lambda: len(on_topic(world)), 4)
    said = [msgspec.json.decode(one.value or b"", type=Acknowledged) for one in on_topic(world)]
    own = [one.id for one, record in zip(said, on_topic(world), strict=True) if record.header(MIRROR_ORIGIN) is None]
    assert own == ["r:1", "r:3"]
    assert here.all_names() == {"r:1": "wang", "incident-2": "li", "r:3": "zhao"}
