"""The consumer of our applications: by assignment from positions they keep, or by group.

In: positions. Out: lists of `Received`.
Never: a commit that the application did not ask for. Raises BusError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import confluent_kafka

from bus.client.config import consumer_config
from bus.client.errors import bus_error, code_of
from bus.client.model import Place, Received
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_REQUEST_TIMEOUT_MS
from bus.settings import BusSettings

BEGINNING = -2
END = -1
"""Positions that the broker resolves, as in Kafka's ListOffsets."""

_TIMEOUT_S = CLIENT_REQUEST_TIMEOUT_MS / 1000


class Consumer:
    """A consumer for one thread at a time (`asyncio.to_thread(consumer.take, ...)` is fine)."""

    def __init__(
        self,
        bus: BusSettings,
        *,
        client_id: str,
        group: str | None = None,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        config = consumer_config(bus, client_id, group, overrides)
        self._consumer = confluent_kafka.Consumer(config)
        self._at_end: set[Place] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read these partitions from these offsets (or BEGINNING, END)."""
        self._consumer.assign([_at(place, offset) for place, offset in positions.items()])

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read topics as a member of the group."""
        self._consumer.subscribe(list(topics))

    def take(self, max_records: int, timeout_s: float) -> list[Received]:
        """Up to `max_records`; returns as soon as some are there, or with none after the time.

        Raises BusError: for instance OFFSET_OUT_OF_RANGE, if the position fell out of retention and
        the client was configured to say so.
        """
        messages = self._consumer.consume(1, timeout_s)
        if messages and max_records > 1:
            messages += self._consumer.consume(max_records - 1, 0)
        for message in messages:
            self._note_end(message)
        return [_received(message) for message in messages if _is_record(message)]

    @property
    def at_end(self) -> bool:
        """Whether every assigned partition was read to its end, when last looked at."""
        assigned = {Place(p.topic, p.partition) for p in self._consumer.assignment()}
        return bool(assigned) and assigned <= self._at_end

    def _note_end(self, message: Any) -> None:
        place = Place(message.topic(), message.partition())
        error = message.error()
        if error is None:
            self._at_end.discard(place)
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            self._at_end.add(place)

    def positions(self) -> dict[Place, int]:
        """The next offset of every assigned partition; those not read from yet are left out."""
        places = self._consumer.position(self._consumer.assignment())
        return {Place(p.topic, p.partition): p.offset for p in places if p.offset >= 0}

    def commit(self, positions: Mapping[Place, int]) -> None:
        """Commit end offsets (the next to read) for the group, and wait for the answer."""
        offsets = [_at(place, offset) for place, offset in positions.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        for answer in answers or ():
            if answer.error is not None:
                raise bus_error(answer.error)

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        """Committed offsets of the group; places without one are left out."""
        try:
            answers = self._consumer.committed([_at(place, END) for place in places], _TIMEOUT_S)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return {Place(a.topic, a.partition): a.offset for a in answers if a.offset >= 0}

    def places(self, topic: str) -> list[Place]:
        """The partitions of a topic."""
        try:
            # Out of the list of all topics: asking for one by name may create it.
            metadata = self._consumer.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        if metadata is None:
            raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        return [Place(topic, partition) for partition in sorted(metadata.partitions)]

    def bounds(self, place: Place) -> tuple[int, int]:
        """(log start offset, end offset) of a partition."""
        try:
            partition = confluent_kafka.TopicPartition(place.topic, place.partition)
            first, end = self._consumer.get_watermark_offsets(partition, _TIMEOUT_S)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return first, end

    def offsets_at(self, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
        """The first offset with this timestamp or a later one; the end offset if there is none."""
        try:
            asked = [_at(place, timestamp_ms) for place in places]
            answers = self._consumer.offsets_for_times(asked, _TIMEOUT_S)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return {Place(a.topic, a.partition): a.offset for a in answers}

    def close(self) -> None:
        """Leave the group and the connections."""
        self._consumer.close()


def _at(place: Place, offset: int) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(place.topic, place.partition, offset)


def _is_record(message: Any) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
        return False
    code = code_of(error)
    if code.retriable:
        return False  # librdkafka retries by itself; a broker that restarts is no news here
    raise BusError(code, error.str())


def _received(message: Any) -> Received:
    kind, timestamp_ms = message.timestamp()
    return Received(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms if kind else -1,
        message.key(),
        message.value(),
        message.headers() or (),
    )
