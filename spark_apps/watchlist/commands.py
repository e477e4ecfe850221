"""The watch-list commands, read to their end before every batch.

In: `control.watchlist`. Out: a `RuleSet` that holds every command acknowledged before `drain`
began.
Never: a group or stored positions: the topic is the state (compacted), read from the beginning
at a start.
"""

from __future__ import annotations

import logging
import time

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from alarm.rules import RuleSet
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST

log = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 10.0


class CommandsUnread(Exception):
    """The commands could not be read to their end; the batch must wait."""


class Commands:
    """A consumer without a group over all partitions of the command topic."""

    def __init__(self, bootstrap_servers: str, partitions: int) -> None:
        self.rules = RuleSet()
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
        self._ends = dict.fromkeys(range(partitions), 0)
        self._consumer.assign(
            [TopicPartition(CONTROL_WATCHLIST, number, 0) for number in range(partitions)]
        )

    def drain(self) -> None:
        """Apply every command that was on the topic when this was called. Raises
        `CommandsUnread`.
        """
        wanted = {number: self._high_watermark(number) for number in self._ends}
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

    def _high_watermark(self, number: int) -> int:
        partition = TopicPartition(CONTROL_WATCHLIST, number)
        try:
            _, high = self._consumer.get_watermark_offsets(partition, timeout=REQUEST_TIMEOUT_S)
        except KafkaException as error:
            raise CommandsUnread(str(error)) from error
        return int(high)

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
