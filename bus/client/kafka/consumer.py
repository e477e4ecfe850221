"""The consumer of our applications: by assignment from positions they keep, or by group.

In: positions. Out: lists of `ConsumedRecord`.
Never: a commit that the application did not ask for. Raises BusError.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import NamedTuple, Self

import confluent_kafka

from bus.client.kafka.config import consumer_config
from bus.client.kafka.endless_call import begin
from bus.client.kafka.errors import bus_error, code_of
from bus.client.kafka.message import KafkaMessage
from bus.client.model import ConsumedRecord, OffsetAndMetadata, TopicPartition
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_CLOSE_TIMEOUT_MS, CLIENT_REQUEST_TIMEOUT_MS
from bus.settings import BusSettings

log = logging.getLogger(__name__)

BEGINNING = -2
END = -1
"""Positions that the broker resolves, as in Kafka's ListOffsets."""

_TIMEOUT_S = CLIENT_REQUEST_TIMEOUT_MS / 1000
_CLOSE_TIMEOUT_S = CLIENT_CLOSE_TIMEOUT_MS / 1000

ANSWER_STEP_S = 0.002
"""librdkafka's calls do not end when an answer has come: how long it may be overlooked."""
MAX_UNREAD = 10_000
"""Records that may come while a commit is waited for; then it is given up."""

OnRebalance = Callable[[list[TopicPartition]], None]
Places = list[confluent_kafka.TopicPartition]


class _PendingCommit(NamedTuple):
    offsets: dict[tuple[str, int], int]
    answer: Future[None]


class Consumer:
    """A consumer for one thread at a time (`asyncio.to_thread(consumer.poll, ...)` is fine).

    confluent-kafka lets its calls wait for each other, and librdkafka repeats a commit for as long
    as the coordinator is away: a commit that blocks, in whatever thread, holds up `poll` as well.
    So commits are begun, and their answers come while something is polled.
    Invariant: of the commits that are waited for at most one is under way, `_committing`.
    """

    def __init__(
        self,
        bus: BusSettings,
        *,
        client_id: str,
        group: str | None = None,
        timeout_s: float = _TIMEOUT_S,
        overrides: Mapping[str, object] | None = None,
        on_all_brokers_down: Callable[[str], None] | None = None,
    ) -> None:
        """`on_all_brokers_down` is called by `poll`, with librdkafka's words."""
        config = consumer_config(bus, client_id, group, overrides)
        if on_all_brokers_down is not None:
            config["error_cb"] = _only_all_brokers_down(on_all_brokers_down)
        config["on_commit"] = self._on_commit
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._consumer = confluent_kafka.Consumer(config)
        self._committing: _PendingCommit | None = None
        self._unread: list[ConsumedRecord] = []  # came while an answer was waited for
        self.ends_met: dict[TopicPartition, int] = {}
        """Partitions that were read to their end, when last looked at, and where that was: it may
        lie behind the last record, for a log also holds what is none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (or BEGINNING, END)."""
        self.ends_met.clear()
        self._unread.clear()
        self._consumer.assign([_at(place, offset) for place, offset in positions.items()])

    def subscribe(
        self,
        topics: Iterable[str],
        *,
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
    ) -> None:
        """Read topics as a member of the group. `poll` calls back when partitions come and go
        (`on_revoke` also for those lost without a word)."""

        def revoke(places: list[TopicPartition]) -> None:
            self._drop_unread(places)
            if on_revoke is not None:
                on_revoke(places)

        callbacks = {"on_assign": on_assign, "on_revoke": revoke}
        given = {name: _rebalance_callback(call) for name, call in callbacks.items() if call}
        self._consumer.subscribe(list(topics), **given)

    def reassign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read partitions that a cooperative group has assigned from these offsets; what was
        fetched of them is dropped."""
        self._drop_unread(positions)
        places = [_at(place, offset) for place, offset in positions.items()]
        self._consumer.incremental_unassign(places)
        self._consumer.incremental_assign(places)

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Fetch no records of partitions that are assigned; what was fetched is dropped."""
        places = list(places)
        self._drop_unread(places)
        self._consumer.pause([_at(place, END) for place in places])

    @property
    def member_id(self) -> str:
        """The id of this member of the group; empty while it is none."""
        return str(self._consumer.memberid() or "")

    def poll(self, max_records: int, timeout_s: float) -> list[ConsumedRecord]:
        """Up to `max_records`; returns as soon as some are there, or with none after the time.

        Raises BusError: for instance OFFSET_OUT_OF_RANGE, if the position fell out of retention and
        the client was configured to say so.
        """
        if self._unread:
            records, self._unread = self._unread[:max_records], self._unread[max_records:]
            return records
        messages = self._consumer.consume(1, timeout_s)
        if messages and max_records > 1:
            messages += self._consumer.consume(max_records - 1, 0)
        return self._received(messages)

    def _received(self, messages: Iterable[KafkaMessage]) -> list[ConsumedRecord]:
        records = []
        for message in messages:
            self._update_at_end(message)
            if _is_record(message):
                records.append(_received(message))
        return records

    def _drop_unread(self, places: Iterable[TopicPartition]) -> None:
        dropped = set(places)
        self._unread = [one for one in self._unread if (one.topic, one.partition) not in dropped]

    def poll_messages(
        self, max_messages: int, timeout_s: float, *, fills: bool = True
    ) -> list[KafkaMessage]:
        """As `poll`, but librdkafka's own messages, errors among them: a reader that skips most of
        them does not pay for their conversion. `fills`: waits all the time for `max_messages`;
        else no longer than for the first."""
        try:
            if fills:
                return list(self._consumer.consume(max_messages, timeout_s))
            messages = list(self._consumer.consume(1, timeout_s))
            if messages and max_messages > 1:
                messages += self._consumer.consume(max_messages - 1, 0)
            return messages
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure

    @property
    def at_end(self) -> bool:
        """Whether every assigned partition was read to its end, when last looked at."""
        assigned = {TopicPartition(p.topic, p.partition) for p in self._consumer.assignment()}
        return bool(assigned) and not self._unread and assigned <= self.ends_met.keys()

    def _update_at_end(self, message: KafkaMessage) -> None:
        place = TopicPartition(message.topic(), message.partition())
        error = message.error()
        if error is None:
            self.ends_met.pop(place, None)
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            self.ends_met[place] = message.offset()

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of every assigned partition; those not read from yet are left out."""
        places = self._consumer.position(self._consumer.assignment())
        found = {TopicPartition(p.topic, p.partition): p.offset for p in places if p.offset >= 0}
        for one in self._unread:
            place = TopicPartition(one.topic, one.partition)
            found[place] = min(found.get(place, one.offset), one.offset)
        return found

    def commit(
        self,
        positions: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
        *,
        wait: bool = True,
    ) -> None:
        """Commit end offsets (the next to read) for the group, each with its text of metadata.

        Raises BusError; REQUEST_TIMED_OUT means that nothing is known of it after the consumer's
        `timeout_s`: it may still arrive, and the next commit waits for it first. Without `wait`
        nothing says whether it arrived.
        """
        offsets = _with_metadata(positions, metadata or {})
        if wait:
            self._commit_and_wait(offsets)
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure

    def begin_commit(
        self,
        positions: Mapping[TopicPartition, int],
        metadata: Mapping[TopicPartition, str] | None = None,
    ) -> Future[None] | None:
        """As `commit`, but it is not waited for: the future raises what `commit` would, and has its
        answer after a `poll`. None while the commit before this one has no answer: nothing was
        begun."""
        if self._committing is not None and not self._committing.answer.done():
            return None
        return self._begin(_with_metadata(positions, metadata or {}))

    def _begin(self, offsets: Places) -> Future[None]:
        self._committing = commit = _PendingCommit(_offsets_of(offsets), Future())
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except confluent_kafka.KafkaException as failure:
            commit.answer.set_exception(bus_error(failure))
        return commit.answer

    def _on_commit(self, error: confluent_kafka.KafkaError | None, places: Places) -> None:
        """Called by librdkafka, also for commits that nobody waits for."""
        commit = self._committing
        if commit is None or commit.answer.done() or commit.offsets != _offsets_of(places):
            return
        failed = [error] if error else [one.error for one in places if one.error]
        if failed:
            commit.answer.set_exception(bus_error(failed[0]))
        else:
            commit.answer.set_result(None)

    def _commit_and_wait(self, offsets: Places) -> None:
        until_s = time.monotonic() + self._timeout_s
        if self._committing is not None:  # one that librdkafka repeats must not overtake
            self._await(self._committing.answer, until_s)
        answer = self._begin(offsets)
        self._await(answer, until_s)
        answer.result()

    def _await(self, answer: Future[None], until_s: float) -> None:
        """Raises BusError REQUEST_TIMED_OUT. What is received meanwhile is for the next `poll`."""
        while not answer.done():
            left_s = until_s - time.monotonic()
            if left_s <= 0 or len(self._unread) > MAX_UNREAD:
                why = f"a commit has no answer for {self._timeout_s:g} s; is the coordinator away?"
                raise BusError(ErrorCode.REQUEST_TIMED_OUT, why)
            self._unread += self._received(self._consumer.consume(1, min(left_s, ANSWER_STEP_S)))

    def committed(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Committed offsets of the group; places without one are left out."""
        return {place: found.offset for place, found in self.committed_offsets(places).items()}

    def committed_offsets(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same with their metadata."""
        try:
            answers = self._consumer.committed(
                [_at(place, END) for place in places], self._timeout_s
            )
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        for answer in answers:
            if answer.error is not None:
                raise bus_error(answer.error)
        return {
            TopicPartition(a.topic, a.partition): OffsetAndMetadata(a.offset, a.metadata or "")
            for a in answers
            if a.offset >= 0
        }

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        try:
            # Out of the list of all topics: asking for one by name may create it.
            metadata = self._consumer.list_topics(timeout=self._timeout_s).topics.get(topic)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        if metadata is None:
            raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        return [TopicPartition(topic, partition) for partition in sorted(metadata.partitions)]

    def partitions_of_all(self, topics: Iterable[str]) -> set[TopicPartition]:
        """The partitions of those of these topics that exist; one request."""
        try:
            found = self._consumer.list_topics(timeout=self._timeout_s).topics
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return {
            TopicPartition(name, number)
            for name in topics
            if name in found and found[name].error is None
            for number in found[name].partitions
        }

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        """(log start offset, end offset) of a partition."""
        try:
            partition = confluent_kafka.TopicPartition(place.topic, place.partition)
            first, end = self._consumer.get_watermark_offsets(partition, self._timeout_s)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return first, end

    def offsets_at(
        self, places: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset with this timestamp or a later one; `END` if there is none."""
        try:
            asked = [_at(place, timestamp_ms) for place in places]
            answers = self._consumer.offsets_for_times(asked, self._timeout_s)
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return {TopicPartition(a.topic, a.partition): a.offset for a in answers}

    def close(self) -> None:
        """Leave the group and the connections.

        Waits CLIENT_CLOSE_TIMEOUT_MS at most. If a commit is still without an answer then, threads
        and connections remain until it has one, or the process ends.
        """
        try:
            begin(self._consumer.close, f"{self._client_id}-close").result(_CLOSE_TIMEOUT_S)
        except TimeoutError:
            log.warning("%s: not closed yet, the coordinator is away", self._client_id)


def _offsets_of(places: Iterable[confluent_kafka.TopicPartition]) -> dict[tuple[str, int], int]:
    return {(place.topic, place.partition): place.offset for place in places}


def _with_metadata(
    positions: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]
) -> Places:
    return [
        confluent_kafka.TopicPartition(*place, offset, texts.get(place, ""))
        for place, offset in positions.items()
    ]


def _rebalance_callback(
    call: OnRebalance,
) -> Callable[[confluent_kafka.Consumer, Places], None]:
    def on_rebalance(_: confluent_kafka.Consumer, partitions: Places) -> None:
        call([TopicPartition(p.topic, p.partition) for p in partitions])

    return on_rebalance


def _only_all_brokers_down(
    report: Callable[[str], None],
) -> Callable[[confluent_kafka.KafkaError], None]:
    def on_error(error: confluent_kafka.KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError._ALL_BROKERS_DOWN:
            report(error.str())

    return on_error


def _at(place: TopicPartition, offset: int) -> confluent_kafka.TopicPartition:
    return confluent_kafka.TopicPartition(place.topic, place.partition, offset)


def _is_record(message: KafkaMessage) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
        return False
    code = code_of(error)
    if code.retriable:
        return False  # librdkafka retries by itself; a broker that restarts is no news here
    raise BusError(code, error.str())


def _received(message: KafkaMessage) -> ConsumedRecord:
    kind, timestamp_ms = message.timestamp()
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms if kind else -1,
        message.key(),
        message.value(),
        message.headers() or (),
    )
