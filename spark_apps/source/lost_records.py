"""What retention or a truncation takes from a query before it has read it: counted and told.

Spark's source passes over such records (`failOnDataLoss` is false: an application must go on), and
nobody would hear of it. In: what batches cover, where logs begin. Out: incidents of the kind
`lost`, each from its first record to the moment when nothing more is missing. Never: I/O.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.alarms import BY_WATCH, Incident
from spark_apps.batches.message import OffsetRanges

MAX_USED = 100  # of the watch's incidents that are remembered

EMPTY: Mapping[str, Collection[str]] = MappingProxyType({})


class LostRecords:
    """Of one query, for any thread.

    Invariant: `_unjudged` holds at most one range per partition, so that it cannot grow.
    """

    def __init__(self, query: str, readers: Mapping[str, Collection[str]] = EMPTY) -> None:
        """`readers`: where several applications share the query, the topics of each."""
        self._query = query
        self._readers = readers
        self._prefix = f"lost:{query}:"
        self._lock = threading.Lock()
        self._unjudged: OffsetRanges = {}
        self._lost: Counter[TopicAndPartition] = Counter()
        self._by_reader: Counter[str] = Counter()
        self._end_unseen: set[str] = set()
        self._names = frozenset(readers) | {query}
        self._used: dict[str, None] = {}
        self._covered = 0
        self._open: Incident | None = None

    def resume(self, incidents: Iterable[Incident]) -> None:
        """An open incident of a driver before this one is closed, or goes on. The watch's has the
        same beginning where the query is named as its stage, and an end of its own."""
        for incident in incidents:
            is_ours = incident.notified_by != BY_WATCH
            if is_ours and incident.incident_id.startswith(self._prefix):
                self._open = incident

    def is_new(self) -> bool:
        """Whether an incident is about to be opened."""
        with self._lock:
            return bool(self._unjudged or self._lost) and self._open is None

    def cover_by_watch(self, incidents: Iterable[Incident]) -> None:
        """What the watch told while we stood still or were away is what we find now: it is not told
        again. Each of its incidents counts once, for the next that we tell."""
        covered = 0
        for incident in incidents:
            names = incident.detail.get("stage", "").split("+")
            is_ours = incident.notified_by == BY_WATCH and bool(set(names) & set(self._names))
            if is_ours and incident.incident_id not in self._used:
                self._used[incident.incident_id] = None
                covered += int(incident.detail.get("lost", "0"))
        while len(self._used) > MAX_USED:
            del self._used[next(iter(self._used))]
        with self._lock:
            self._covered = covered

    def partitions(self) -> list[TopicAndPartition]:
        """Those of which `incidents` must know where the log begins."""
        with self._lock:
            return sorted(self._unjudged)

    def is_open(self) -> bool:
        """Whether there is something to tell, or an incident to close."""
        with self._lock:
            return bool(self._unjudged or self._lost or self._end_unseen or self._open)

    def read(self, offsets: OffsetRanges, count: int) -> bool:
        """A batch that covers these offsets held so many records; whether that is fewer."""
        if count == sum(end - first for first, end in offsets.values()):
            return False
        with self._lock:
            for partition, (first, end) in offsets.items():
                known_first, known_end = self._unjudged.get(partition, (first, end))
                self._unjudged[partition] = min(first, known_first), max(end, known_end)
        return True

    def check(self, offsets: OffsetRanges, starts: Mapping[TopicAndPartition, int]) -> None:
        """Where the logs begin just before a batch of these offsets is read whose records nobody
        counts. What is taken while it is read remains unknown: that takes a second or two."""
        self.add(_taken(offsets, starts))

    def add(self, lost: Mapping[TopicAndPartition, int]) -> None:
        """So many records of a partition are gone or will be passed over, for whoever reads it."""
        with self._lock:
            self._add(lost)

    def add_of_readers(
        self, lost: Mapping[str, Mapping[TopicAndPartition, int]], end_unseen: Iterable[str] = ()
    ) -> None:
        """By application: those that stand at different places lose different numbers.
        `end_unseen`: topics that may have had more."""
        with self._lock:
            for reader, counts in lost.items():
                self._by_reader[reader] += sum(counts.values())
            places = {place for counts in lost.values() for place in counts}
            self._lost.update({p: max(c.get(p, 0) for c in lost.values()) for p in places})
            self._end_unseen.update(end_unseen)

    def incidents(self, starts: Mapping[TopicAndPartition, int], now_ms: int) -> list[Incident]:
        """What is to be published, by where the logs begin now. (A log's start only grows: one that
        lies before a range took nothing from it.)"""
        with self._lock:
            self._add(_taken(self._unjudged, starts))
            self._unjudged = {p: r for p, r in self._unjudged.items() if p not in starts}
            lost, self._lost = +self._lost, Counter()
            covered, self._covered = self._covered, 0
            if lost and lost.total() <= covered and not self._end_unseen:
                self._by_reader = Counter()
                return []
            if lost or self._end_unseen:
                return [self._opened(lost, covered, now_ms)]
            incident, self._open = self._open, None
        return [] if incident is None else [closed(incident, now_ms)]

    def _add(self, lost: Mapping[TopicAndPartition, int]) -> None:
        self._lost.update(lost)
        for reader, topics in self._readers.items():
            self._by_reader[reader] += sum(n for (topic, _), n in lost.items() if topic in topics)

    def _opened(self, lost: Counter[TopicAndPartition], covered: int, now_ms: int) -> Incident:
        """The open incident, with what it says now; published again it has the same id."""
        incident = self._open or Incident(
            incident_id=f"{self._prefix}{now_ms}", kind="lost", state="open",
            opened_at_ms=now_ms, severity="critical",
            detail={"subject": self._query, "stage": self._query},
        )  # fmt: skip
        count = int(incident.detail.get("lost", "0")) + max(0, lost.total() - covered)
        end_unseen = self._end_unseen.union(incident.detail.get("end_unseen", "").split())
        topics = {topic for topic, _ in lost}.union(incident.detail.get("topics", "").split())
        detail = {**incident.detail, "lost": str(count)}
        detail["topics"] = " ".join(sorted(topics | end_unseen))
        if end_unseen:
            detail["end_unseen"] = " ".join(sorted(end_unseen))
        if len(self._readers) > 1:
            by_reader = self._by_reader + counts_of(incident.detail.get("applications", ""))
            if by_reader:
                detail["applications"] = text_of_counts(by_reader)
        self._by_reader, self._end_unseen = Counter(), set()
        self._open = msgspec.structs.replace(incident, detail=detail)
        return self._open


def text_of_counts(counts: Mapping[str, int]) -> str:
    """Who lost how much, for people: `ingest 220, watchlist 200`."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()) if count)


def counts_of(text: str) -> Counter[str]:
    """The same read back."""
    pairs = (part.rpartition(" ") for part in text.split(", ") if part)
    return Counter({name: int(count) for name, _, count in pairs if count.isdigit()})


def _taken(
    offsets: OffsetRanges, starts: Mapping[TopicAndPartition, int]
) -> dict[TopicAndPartition, int]:
    """How many of these offsets lie before the beginning of their log. Pure."""
    found = {p: min(end, starts.get(p, 0)) - first for p, (first, end) in offsets.items()}
    return {partition: count for partition, count in found.items() if count > 0}


def closed(incident: Incident, now_ms: int) -> Incident:
    """Its end, with the whole number."""
    return msgspec.structs.replace(incident, state="closed", closed_at_ms=now_ms)


def truncated(
    before: Mapping[TopicAndPartition, int], ends: Mapping[TopicAndPartition, int]
) -> dict[TopicAndPartition, int]:
    """How many records, per partition, were cut off a log behind us: what is written at their
    offsets again will be passed over. Pure."""
    return {
        partition: before[partition] - end
        for partition, end in ends.items()
        if end < before.get(partition, end)
    }
