"""A message of librdkafka as its readers see it: confluent-kafka leaves the types open."""

from __future__ import annotations

from typing import Protocol

import confluent_kafka


class KafkaMessage(Protocol):
    """What librdkafka has received: a record, or with `error` why there is none."""

    def topic(self) -> str:
        """Its name."""

    def partition(self) -> int:
        """Its number."""

    def offset(self) -> int:
        """Of the record; with an error that the end is reached, that end."""

    def key(self) -> bytes | None:
        """As it was produced."""

    def value(self) -> bytes | None:
        """None: a tombstone."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """None where it has none."""

    def timestamp(self) -> tuple[int, int]:
        """Its kind (0: it has none), and the time in ms."""

    def error(self) -> confluent_kafka.KafkaError | None:
        """None: it is a record."""
