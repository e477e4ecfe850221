"""The incidents that are open, from the topic where they were told.

In: `event.incident`. Out: open incidents. Never: a group, stored positions.
The topic is the memory of who was told what: a driver goes on with an incident it finds open there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import msgspec

from bus.client.consumer import BEGINNING, Consumer
from bus.client.model import Place, Received
from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 30.0
TAKE_TIMEOUT_S = 1.0
MAX_TAKEN = 1000


class TopicUnread(Exception):
    """A topic could not be read to its end."""


def still_open(told: Iterable[Incident], kind: str) -> list[Incident]:
    """The incidents of one kind that were opened and not closed. Pure."""
    found: dict[str, Incident] = {}
    for incident in told:
        if incident.kind != kind:
            continue
        if incident.state == "open":
            found[incident.incident_id] = incident
        else:
            found.pop(incident.incident_id, None)
    return list(found.values())


def told_incidents(bus: BusSettings) -> list[Incident]:
    """Everything on the topic. Raises `TopicUnread`."""
    numbers = range(TOPICS[EVENT_INCIDENT].partitions)
    try:
        with Consumer(bus, client_id="incidents") as consumer:
            consumer.assign({Place(EVENT_INCIDENT, number): BEGINNING for number in numbers})
            return _read(consumer)
    except BusError as error:
        raise TopicUnread(str(error)) from error


def _readable(received: Received) -> list[Incident]:
    """The incident of a message; none of what somebody else wrote there."""
    try:
        return [msgspec.json.decode(received.value or b"", type=Incident)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s at %s is no incident: %s", EVENT_INCIDENT, received.offset, error)
        return []


def _read(consumer: Consumer) -> list[Incident]:
    told: list[Incident] = []
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not consumer.at_end:
        messages = consumer.take(MAX_TAKEN, TAKE_TIMEOUT_S)
        if messages:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise TopicUnread(f"{EVENT_INCIDENT}: no answer within {ANSWER_TIMEOUT_S} s")
        for received in messages:
            told += _readable(received)
    return told
