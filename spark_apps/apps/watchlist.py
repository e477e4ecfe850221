"""Watch list: vehicle and face records × rules in force → `event.candidate` (A-1, A-2).

Candidates are acknowledged before the positions are committed, so a crash repeats candidates and
never loses one; the dispatcher raises each alarm once. `candidates` and what it calls is pure. Only
a record that matches a rule is normalised: one that is not valid has no place or time to report.
Needs no store: alarms go on while it is away.
Alone: `spark_apps/driver.py --application watchlist`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import astuple

from alarm.lists.base_tables import tables_folder
from alarm.rules import RuleSet
from alarm.rules.verdict import matched_faces
from alarm.watchlist_reader import WatchlistReader
from bus.client.model import TopicAndPartition
from bus.confusion_file import source_of
from bus.contracts.alarms import Candidate
from bus.contracts.topics import DATA_FACE, EVENT_CANDIDATE
from bus.domain.kinds import KIND_OF_TOPIC, MATCHED_TOPICS, WIRE_KEYS
from bus.domain.rule_values import attributes_from
from bus.runtime import wall_clock
from ingest.normalise import ClockLimits, clock_limits, normalise
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.normalise.clock import at_minute
from ingest.store.port import RecordRow
from spark_apps.batches.message import (
    OffsetRanges,
    StreamMessage,
    ends_of,
    envelope_of,
    messages_of_batch,
)
from spark_apps.queries.context import Context
from spark_apps.session.retry import retry_job
from spark_apps.source.kafka_source import select_columns
from spark_apps.tasks import worker_cache
from spark_apps.tasks.broadcast import VersionedBroadcast
from spark_apps.tasks.list_tables import open_tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

MATCHED_AT_ONCE = 100
"""Messages whose faces are compared with a gallery by one product."""
_COUNTS = "reason string, faces long"


class Watchlist:
    """Keeps the rules, rebuilt from their topic at every start."""

    name: str = "watchlist"
    topics: tuple[str, ...] = MATCHED_TOPICS
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.watchlist_trigger_ms
        self._watchlist = WatchlistReader(
            context.settings.bus, "streams-commands", tables_folder(context.settings.site),
            context.register, source_of(context.settings.site),
        )
        self._watchlist.catch_up()
        self._group = context.group_positions(self.name, self.topics)
        self._rules = VersionedBroadcast(
            "rules", lambda: self._watchlist.rules, lambda: self._watchlist.version
        )

    def positions(self) -> dict[TopicAndPartition, int]:
        """The group's. A data directory of an earlier version has them in the store."""
        committed = self._group.read()
        if committed or not self._context.has_store:
            return committed
        return self._context.stored_positions(self.name)

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return select_columns(messages, headers=True)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Match in this process. Commands first: a record produced after a command was acknowledged
        meets it."""
        context = self._context
        self._watchlist.catch_up()
        found, uncompared = False, Counter[str]()
        site = context.settings.site
        clock = at_minute(clock_limits(site), wall_clock.now_ms())
        rules = self._watchlist.rules
        for candidate in candidates(rules, messages, site.zone, clock, uncompared):
            context.publisher.send(EVENT_CANDIDATE, candidate.rule_id, candidate)
            found = True
        if found:
            context.publisher.flush()
        context.metrics.uncompared(uncompared)
        self._commit(offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Match in the executors, whose tasks publish what they find. A task that runs twice
        publishes twice; the dispatcher raises each alarm once."""
        step = partial(self._context.metrics.step, self.name)
        with step("rules"):
            self._watchlist.catch_up()
        if len(self._watchlist.rules):
            with step("action"):
                self._match(frame)
        with step("commit"):
            self._commit(offsets)

    def _match(self, frame: DataFrame) -> None:
        settings = self._context.settings
        bus, site = settings.bus, settings.site
        rules = self._rules.current(frame.sparkSession)
        folder = tables_folder(site)
        clock = at_minute(clock_limits(site), wall_clock.now_ms())

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            in_force = rules.value
            open_tables(in_force.references, bus, folder)
            uncompared: Counter[str] = Counter()
            found = _candidates_of_batches(batches, in_force, site.zone, clock, uncompared)
            with worker_cache.publisher(bus, site.name) as publisher:
                for candidate in found:
                    publisher.send(EVENT_CANDIDATE, candidate.rule_id, candidate)
            return _counted(uncompared)

        job = frame.mapInArrow(worker_cache.task_of(work), _COUNTS).collect
        counts = retry_job(job, self._context.stopping, "matching a batch")
        uncompared: Counter[str] = Counter()
        for reason, faces in counts:
            uncompared[reason] += faces
        self._context.metrics.uncompared(uncompared)

    def _commit(self, offsets: OffsetRanges) -> None:
        """After the candidates are acknowledged: a crash repeats some and never loses one. The next
        batch waits for no commit."""
        self._group.commit_soon(ends_of(offsets))


def _candidates_of_batches(
    batches: Iterable[pa.RecordBatch],
    rules: RuleSet,
    zone: str,
    clock: ClockLimits,
    uncompared: Counter[str],
) -> Iterator[Candidate]:
    for batch in batches:
        yield from candidates(rules, messages_of_batch(batch), zone, clock, uncompared)


def _counted(uncompared: Counter[str]) -> Iterator[pa.RecordBatch]:
    """What a task tells the driver; nothing where there is nothing to tell."""
    import pyarrow as pa

    if uncompared:
        columns = {"reason": list(uncompared), "faces": list(uncompared.values())}
        yield pa.RecordBatch.from_pydict(columns)


def candidates(
    rules: RuleSet,
    messages: Iterable[StreamMessage],
    zone: str,
    clock: ClockLimits = DEFAULT_CLOCK,
    uncompared: Counter[str] | None = None,
) -> Iterator[Candidate]:
    """Every matching (record, rule); nothing is decoded while no rule is in force. To `uncompared`
    the faces are added that no gallery can be compared with, by reason."""
    if not len(rules):
        return
    remaining = iter(messages)
    while part := list(islice(remaining, MATCHED_AT_ONCE)):
        read = [(one, own) for one in part if (own := _attributes(rules, one)) is not None]
        faces = [own for one, own in read if one.topic == DATA_FACE]
        if faces:
            unable = rules.prepare(KIND_OF_TOPIC[DATA_FACE], faces)
            if uncompared is not None:
                uncompared += unable
        for message, attributes in read:
            yield from _of_message(rules, message, attributes, zone, clock)


def _of_message(
    rules: RuleSet,
    message: StreamMessage,
    attributes: dict[str, str],
    zone: str,
    clock: ClockLimits,
) -> Iterator[Candidate]:
    kind = KIND_OF_TOPIC[message.topic]
    if not rules.may_match(kind, attributes):
        return
    row = normalise(message.value, kind, envelope_of(message, clock), None, zone)
    if not isinstance(row, RecordRow):
        return
    for rule in rules.match(kind, attributes, row.times_ms):
        yield Candidate(
            rule_id=rule.rule_id,
            rule_version=rule.command.version,
            record_id=row.record_id,
            kind=kind,
            received_at_ms=row.received_at_ms,
            captured_at_ms=row.captured_at_ms,
            record=row.body.decode("utf-8"),
            source=message.source or "",
            faces=matched_faces(rule, attributes, rules.references),
        )


def _attributes(rules: RuleSet, message: StreamMessage) -> dict[str, str] | None:
    """What the rules ask for; None of a message that is no object, which ingest rejects and
    counts. A rule may ask that something was not read.
    """
    kind = KIND_OF_TOPIC[message.topic]
    fields, decoder = _decoder(kind, rules.names.get(kind, frozenset()))
    try:
        decoded = decoder.decode(message.value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return attributes_from(zip(fields, astuple(decoded), strict=True))


@lru_cache(maxsize=64)  # it changes with the rules, not with the records
def _decoder(kind: str, names: frozenset[str]) -> tuple[tuple[str, ...], Decoder[Struct]]:
    """Reads the fields asked for and skips the rest: a quarter of the cost of the whole object."""
    keys = {name: key for name, key in WIRE_KEYS[kind].items() if name in names}
    asked = msgspec.defstruct("Asked", [(n, Any, None) for n in keys], rename=keys, gc=False)
    return tuple(keys), Decoder(asked)
