"""Clients that ask in the moment when a broker goes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.departures import HOLD_S, NOBODY_S, SHOWN_S, Departures
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tests.simulation.clock import SimClock
from tests.simulation.loop import Life, VirtualLoop


def replay(image: MetadataImage, *records: object) -> Changes:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1)


TWO = replay(
    MetadataImage(), *(RegisterBrokerRecord(broker_id=one, fenced=False) for one in (1, 2))
).image
FENCED = replay(TWO, BrokerRegistrationChangeRecord(broker_id=2, fenced=1))


def play(story: Callable[[Departures], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    departures = Departures(SimClock(loop, Life("broker"), random.Random(1)))
    loop.run_until_complete(story(departures))
    loop.close()


def shown(departures: Departures, image: MetadataImage) -> list[int]:
    return [broker.broker_id for broker in departures.shown(image)]


def test_an_answer_waits_for_the_news_of_a_broker_that_was_just_lost() -> None:
    """It is given as soon as the controller has fenced the broker."""
    told: list[str] = []

    async def story(departures: Departures) -> None:
        assert not departures.hold(TWO, lambda: told.append("early"))
        departures.connection_lost(2)
        assert departures.hold(TWO, lambda: told.append("held"))
        assert told == []
        departures(FENCED)
        assert told == ["held"]
        assert not departures.hold(FENCED.image, lambda: told.append("late"))

    play(story)


def test_it_does_not_wait_longer_than_its_limit() -> None:
    """The connection broke, the broker lives."""
    told: list[str] = []

    async def story(departures: Departures) -> None:
        departures.connection_lost(2)
        assert departures.hold(TWO, lambda: told.append("held"))
        await asyncio.sleep(HOLD_S * 1.5)
        assert told == ["held"]
        assert not departures.hold(TWO, lambda: told.append("never"))

    play(story)


def test_nobody_is_told_of_a_cluster_without_brokers() -> None:
    """A broker that has just started hears of the others in a moment. librdkafka, told that there
    are none, gave up all it knew; a commit that waited for the coordinator never returned."""
    told: list[str] = []

    async def story(departures: Departures) -> None:
        assert departures.hold(MetadataImage(), lambda: told.append("held"))
        departures(replay(MetadataImage(), RegisterBrokerRecord(broker_id=2, fenced=True)))
        await asyncio.sleep(NOBODY_S / 2)
        assert told == []
        departures(replay(MetadataImage(), RegisterBrokerRecord(broker_id=1, fenced=False)))
        assert told == ["held"]

    play(story)


def test_whoever_asks_a_cluster_that_stays_empty_is_answered_in_the_end() -> None:
    """A client that waits for ever would not ask another broker."""
    told: list[str] = []

    async def story(departures: Departures) -> None:
        assert departures.hold(MetadataImage(), lambda: told.append("held"))
        await asyncio.sleep(NOBODY_S + 1)
        assert told == ["held"]

    play(story)


def test_a_fenced_broker_is_listed_for_some_seconds_more() -> None:
    """And not if it was gone before this broker looked."""

    async def story(departures: Departures) -> None:
        departures(replay(MetadataImage(), RegisterBrokerRecord(broker_id=2, fenced=True)))
        assert shown(departures, FENCED.image) == [1]
        departures(FENCED)
        assert shown(departures, FENCED.image) == [1, 2]
        await asyncio.sleep(SHOWN_S + 0.1)
        assert shown(departures, FENCED.image) == [1]

    play(story)
