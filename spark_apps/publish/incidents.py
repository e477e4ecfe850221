"""Reads the open incidents from `event.incident`.

The topic remembers which incidents were reported: a driver resumes an incident that it finds open
there. Uses no group and no stored positions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

import msgspec

from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.alarms import Incident
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.topics import EVENT_INCIDENT, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 30.0
POLL_TIMEOUT_S = 1.0
MAX_POLLED = 1000


class ReadTimeout(Exception):
    """A topic could not be read to its end."""


def still_open(incidents: Iterable[Incident], kind: str) -> list[Incident]:
    """The incidents of one kind that were opened and not closed. Pure."""
    found: dict[str, Incident] = {}
    for incident in incidents:
        if incident.kind != kind:
            continue
        if incident.state == "open":
            found[incident.incident_id] = incident
        else:
            found.pop(incident.incident_id, None)
    return list(found.values())


def lately_open(incidents: Iterable[Incident], kind: str, since_ms: int) -> list[Incident]:
    """The incidents of one kind that are open, or were closed since, as they were told last.
    Pure."""
    found = {one.incident_id: one for one in incidents if one.kind == kind}
    return [one for one in found.values() if one.state == "open" or one.closed_at_ms >= since_ms]


def read_incidents(bus: BusSettings) -> list[Incident]:
    """Everything that this site has raised. What the mirror has carried here is the other site's:
    its own applications end it. Raises `ReadTimeout`."""
    numbers = range(TOPICS[EVENT_INCIDENT].partitions)
    try:
        with Consumer(bus, client_id="incidents") as consumer:
            consumer.assign(
                {TopicPartition(EVENT_INCIDENT, number): BEGINNING for number in numbers}
            )
            return _read(consumer)
    except BusError as error:
        raise ReadTimeout(str(error)) from error


def _readable(received: ConsumedRecord) -> list[Incident]:
    """The incident of a message; none if it is not one of ours."""
    try:
        return [msgspec.json.decode(received.value or b"", type=Incident)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s at %s is no incident: %s", EVENT_INCIDENT, received.offset, error)
        return []


def _read(consumer: Consumer) -> list[Incident]:
    found: list[Incident] = []
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while not consumer.at_end:
        messages = consumer.poll(MAX_POLLED, POLL_TIMEOUT_S)
        if messages:
            deadline = time.monotonic() + ANSWER_TIMEOUT_S
        elif time.monotonic() > deadline:
            raise ReadTimeout(f"{EVENT_INCIDENT}: no answer within {ANSWER_TIMEOUT_S} s")
        for received in messages:
            if received.header(MIRROR_ORIGIN) is None:
                found += _readable(received)
    return found
