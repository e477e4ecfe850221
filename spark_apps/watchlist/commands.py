"""The watch-list commands, read to their end before every batch.

In: `control.watchlist`. Out: a `RuleSet` that holds every command acknowledged before `drain`
began.
Never: a group or stored positions: the topic is the state (compacted), read from the beginning
at a start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import msgspec
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from alarm.rules import RuleSet
from bus.contracts.commands import WatchCommand
from spark_apps.cluster import ClusterError, Partition, offsets

log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 30.0


class CommandsUnread(Exception):
    """The commands could not be read to their end; the batch must wait."""


class Commands:
    """A consumer without a group over all partitions of the command topic."""

    def __init__(
        self, bootstrap_servers: str, admin: AdminClient, partitions: Sequence[Partition]
    ) -> None:
        self.rules = RuleSet()
        self._admin = admin
        self._partitions = tuple(partitions)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "streams-commands",
                "group.id": "unused",  # librdkafka asks for one; nothing is committed to it
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._ends = {number: 0 for _, number in partitions}
        self._consumer.assign([TopicPartition(*partition, 0) for partition in partitions])

    def drain(self) -> None:
        """Apply every command that was on the topic when this was called. Raises
        `CommandsUnread`.
        """
        # Asked over a connection of its own: on the consumer's, the question would wait behind the
        # fetch that waits for new commands (up to half a second).
        try:
            found = offsets(self._admin, self._partitions, OffsetSpec.latest())
        except ClusterError as error:
            raise CommandsUnread(str(error)) from error
        wanted = {number: end for (_, number), end in found.items()}
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while any(self._ends[number] < end for number, end in wanted.items()):
            if time.monotonic() > deadline:
                raise CommandsUnread(f"read to {self._ends}, wanted {wanted}")
            message = self._consumer.poll(1.0)
            if message is not None:
                self._take(message)

    def close(self) -> None:
        """Leave."""
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._reached(message, message.offset())
            elif not error.retriable():
                raise CommandsUnread(error.str())
            return
        self._apply(message)
        self._reached(message, message.offset() + 1)

    def _reached(self, message: Message, end_offset: int) -> None:
        number = message.partition()
        self._ends[number] = max(self._ends[number], end_offset)

    def _apply(self, message: Message) -> None:
        if message.value() is None:
            return  # a tombstone is no command: removals are explicit
        try:
            self.rules.apply(msgspec.json.decode(message.value(), type=WatchCommand))
        except msgspec.DecodeError as error:
            where = f"{message.topic()}-{message.partition()}@{message.offset()}"
            log.error("watchlist: the command at %s is not readable: %s", where, error)
