"""Clients that ask in the moment when a broker goes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.failover_gate import (
    DELAY_S,
    JAVA_CLIENT,
    NO_BROKERS_DELAY_S,
    VISIBLE_S,
    FailoverGate,
)
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife, VirtualLoop


def replay(image: MetadataImage, *records: object) -> Changes:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1)


TWO = replay(
    MetadataImage(), *(RegisterBrokerRecord(broker_id=one, fenced=False) for one in (1, 2))
).image
FENCED = replay(TWO, BrokerRegistrationChangeRecord(broker_id=2, fenced=1))


def play(story: Callable[[FailoverGate], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    failover_gate = FailoverGate(SimClock(loop, ProcessLife("broker"), random.Random(1)))
    loop.run_until_complete(story(failover_gate))
    loop.close()


def shown(
    failover_gate: FailoverGate, image: MetadataImage, software: str = "librdkafka"
) -> list[int]:
    return [broker.broker_id for broker in failover_gate.visible_brokers(image, software)]


def test_an_answer_waits_for_the_news_of_a_broker_that_was_just_lost() -> None:
    """It is given as soon as the controller has fenced the broker."""
    told: list[str] = []

    async def story(failover_gate: FailoverGate) -> None:
        assert not failover_gate.delay(TWO, lambda: told.append("early"))
        failover_gate.on_disconnect(2)
        assert failover_gate.delay(TWO, lambda: told.append("held"))
        assert told == []
        failover_gate(FENCED)
        assert told == ["held"]
        assert not failover_gate.delay(FENCED.image, lambda: told.append("late"))

    play(story)


def test_it_does_not_wait_longer_than_its_limit() -> None:
    """The connection broke, but the broker is alive."""
    told: list[str] = []

    async def story(failover_gate: FailoverGate) -> None:
        failover_gate.on_disconnect(2)
        assert failover_gate.delay(TWO, lambda: told.append("held"))
        await asyncio.sleep(DELAY_S * 1.5)
        assert told == ["held"]
        assert not failover_gate.delay(TWO, lambda: told.append("never"))

    play(story)


def test_it_waits_for_the_whole_election_and_not_for_a_broker_that_is_there_again() -> None:
    """Regression: an election on a busy machine took longer than the answer waited. Java's
    administration was told of the dead leader again, and then waited for that one only."""
    told: list[str] = []

    async def story(failover_gate: FailoverGate) -> None:
        failover_gate.on_disconnect(2)
        assert failover_gate.delay(TWO, lambda: told.append("held"))
        await asyncio.sleep(0.4)
        assert told == []
        failover_gate.on_connect(1)
        assert told == []
        failover_gate.on_connect(2)
        assert told == ["held"]
        assert not failover_gate.delay(TWO, lambda: told.append("never"))
        failover_gate.on_disconnect(2)
        assert failover_gate.delay(MetadataImage(), lambda: told.append("empty"))
        failover_gate.on_connect(2)
        assert told == ["held"]  # there is nobody to name yet

    play(story)


def test_nobody_is_told_of_a_cluster_without_brokers() -> None:
    """A broker that has just started learns of the others soon. Regression: with an empty list
    librdkafka dropped all known brokers, and a commit waiting for the coordinator never
    returned."""
    told: list[str] = []

    async def story(failover_gate: FailoverGate) -> None:
        assert failover_gate.delay(MetadataImage(), lambda: told.append("held"))
        failover_gate(replay(MetadataImage(), RegisterBrokerRecord(broker_id=2, fenced=True)))
        await asyncio.sleep(NO_BROKERS_DELAY_S / 2)
        assert told == []
        failover_gate(replay(MetadataImage(), RegisterBrokerRecord(broker_id=1, fenced=False)))
        assert told == ["held"]

    play(story)


def test_whoever_asks_a_cluster_that_stays_empty_is_answered_in_the_end() -> None:
    """A client that waited for ever would not ask another broker."""
    told: list[str] = []

    async def story(failover_gate: FailoverGate) -> None:
        assert failover_gate.delay(MetadataImage(), lambda: told.append("held"))
        await asyncio.sleep(NO_BROKERS_DELAY_S + 1)
        assert told == ["held"]

    play(story)


def test_a_fenced_broker_is_listed_for_some_seconds_more() -> None:
    """A broker that was fenced before this broker's first image is not listed, and none is for
    Java. Regression: its administration waited for the dead leader for as long as it was listed."""

    async def story(failover_gate: FailoverGate) -> None:
        failover_gate(replay(MetadataImage(), RegisterBrokerRecord(broker_id=2, fenced=True)))
        assert shown(failover_gate, FENCED.image) == [1]
        failover_gate(FENCED)
        assert shown(failover_gate, FENCED.image) == [1, 2]
        assert shown(failover_gate, FENCED.image, JAVA_CLIENT) == [1]
        await asyncio.sleep(VISIBLE_S + 0.1)
        assert shown(failover_gate, FENCED.image) == [1]

    play(story)
