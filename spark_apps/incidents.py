"""The incidents that are open, from the topic where they were told.

In: `event.incident`. Out: open incidents. Never: a group, stored positions.
The topic is the memory of who was told what: a driver goes on with an incident it finds open there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT, TOPICS

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 30.0


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


def told_incidents(bootstrap_servers: str) -> list[Incident]:
    """Everything on the topic. Raises `TopicUnread`."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",  # librdkafka asks for one; nothing is committed to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    partitions = range(TOPICS[EVENT_INCIDENT].partitions)
    consumer.assign([TopicPartition(EVENT_INCIDENT, number, 0) for number in partitions])
    try:
        return _read(consumer, set(partitions))
    finally:
        consumer.close()


def _readable(message: Message) -> list[Incident]:
    """The incident of a message; none of what somebody else wrote there."""
    try:
        return [msgspec.json.decode(message.value() or b"", type=Incident)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s at %s is no incident: %s", EVENT_INCIDENT, message.offset(), error)
        return []


def _read(consumer: Consumer, unread: set[int]) -> list[Incident]:
    told: list[Incident] = []
    while unread:
        message = consumer.poll(ANSWER_TIMEOUT_S)
        if message is None:
            raise TopicUnread(f"{EVENT_INCIDENT}: no answer within {ANSWER_TIMEOUT_S} s")
        error = message.error()
        if error is None:
            told += _readable(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        elif not error.retriable():
            raise TopicUnread(error.str())
    return told
