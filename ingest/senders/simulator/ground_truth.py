"""What the city produced: the lines of its log, and the totals that they add up to.

The account is checked against `TruthTotals`. A record's line is written before the record is sent;
a `sent` line follows when the edge or the broker has acknowledged it. A record without
acknowledgement may or may not have arrived: it is listed in `unconfirmed`, with the id under which
it would be found. `ground_truth_log` writes the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

VALID = "valid"


class RunLine(msgspec.Struct, frozen=True, tag="run", tag_field="line"):
    """The first line of every file: which run of which city this is."""

    run: str
    site: str
    seed: int
    started_ms: int


class RuleLine(msgspec.Struct, frozen=True, tag="rule", tag_field="line", omit_defaults=True):
    """A rule that was in force before any record was sent."""

    rule_id: str
    name: str
    plate: str


class RecordLine(
    msgspec.Struct, frozen=True, tag="record", tag_field="line", omit_defaults=True, gc=False
):
    """One record that is about to be sent.

    `expected` is `valid` or a `bus.contracts.headers.Reason`; `minute_ms` is the capture minute by
    the device's own clock; `alarms` are the rule ids that it must alarm; `true_plate` is the plate
    where another was read.
    """

    n: int
    id: str
    topic: str
    kind: str
    camera_ip: str
    minute_ms: int
    via: Literal["edge", "bus"]
    recognizer_ip: str = ""
    expected: str = VALID
    mishap: str = ""
    partly_read: bool = False
    alarms: tuple[str, ...] = ()
    true_plate: str = ""


class SentLine(msgspec.Struct, frozen=True, tag="sent", tag_field="line", omit_defaults=True):
    """These records were acknowledged; `ids` where the receiver gave another id than expected,
    `rejected` what the edge said of those it refused."""

    ns: tuple[int, ...]
    ids: dict[int, str] = {}
    rejected: dict[int, str] = {}


class EndLine(msgspec.Struct, frozen=True, tag="end", tag_field="line", omit_defaults=True):
    """The city stopped cleanly. `skipped` captures were never made: a server's buffer was full."""

    at_ms: int
    pending: int = 0
    skipped: int = 0


class TopicTruth(msgspec.Struct, kw_only=True):
    """Acknowledged records of one topic. Invariant: sent = valid + sum of rejected."""

    sent: int = 0
    valid: int = 0
    partly_read: int = 0
    wrong_clock: int = 0
    rejected: dict[str, int] = msgspec.field(default_factory=dict)
    via: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, record: RecordLine) -> None:
        """Count one acknowledged record."""
        self.sent += 1
        _count(self.via, {record.via: 1})
        self.partly_read += record.partly_read
        self.wrong_clock += record.mishap == "wrong-clock"
        if record.expected == VALID:
            self.valid += 1
        else:
            _count(self.rejected, {record.expected: 1})

    def merge(self, other: TopicTruth) -> None:
        """Add the counts of a summary."""
        self.sent += other.sent
        self.valid += other.valid
        self.partly_read += other.partly_read
        self.wrong_clock += other.wrong_clock
        _count(self.rejected, other.rejected)
        _count(self.via, other.via)


class SummaryLine(msgspec.Struct, frozen=True, tag="summary", tag_field="line"):
    """Stands for a part whose records are all acknowledged: a long run keeps a short log."""

    topics: dict[str, TopicTruth]
    alarms: tuple[tuple[str, str], ...]
    first_n: int
    end_n: int
    disagreements: int = 0


class TruthTotals(msgspec.Struct, kw_only=True):
    """What all runs together produced.

    `alarms` holds (rule_id, record_id); `ids` the acknowledged valid ids by topic, those of
    summaries left out; `unconfirmed` records may or may not have arrived;
    `disagreements` counts records on which the edge's answer was not the expected one.
    """

    topics: dict[str, TopicTruth] = msgspec.field(default_factory=dict)
    alarms: set[tuple[str, str]] = msgspec.field(default_factory=set)
    rules: set[str] = msgspec.field(default_factory=set)
    ids: dict[str, set[str]] = msgspec.field(default_factory=dict)
    unconfirmed: list[RecordLine] = msgspec.field(default_factory=list)
    disagreements: int = 0
    skipped: int = 0
    runs: set[str] = msgspec.field(default_factory=set)
    ended_runs: int = 0

    def confirm(self, record: RecordLine, record_id: str = "", rejected: str = "") -> None:
        """Count one acknowledged record under the id that its receiver gave it."""
        self.topics.setdefault(record.topic, TopicTruth()).add(record)
        if record.expected == VALID:
            self.ids.setdefault(record.topic, set()).add(record_id or record.id)
        for rule_id in record.alarms:
            self.alarms.add((rule_id, record_id or record.id))
        expected = "" if record.expected == VALID else record.expected
        if record.via == "edge" and rejected != expected:
            self.disagreements += 1

    def withdraw(self, record: RecordLine) -> None:
        """An acknowledged record went down with the site that had it: it left, and is not due."""
        counts = self.topics[record.topic]
        counts.sent -= 1
        counts.via[record.via] -= 1
        if record.expected == VALID:
            counts.valid -= 1
        else:
            counts.rejected[record.expected] -= 1
        self.alarms -= {(rule_id, record.id) for rule_id in record.alarms}
        self.unconfirmed.append(record)

    def tried(self, topic: str) -> int:
        """Records that left or may have left: what the producers' counters say."""
        counts = self.topics.get(topic)
        open_ = sum(record.topic == topic for record in self.unconfirmed)
        return (counts.sent if counts else 0) + open_

    def absorb(self, summary: SummaryLine) -> None:
        """Count a part that was folded up."""
        for topic, counts in summary.topics.items():
            self.topics.setdefault(topic, TopicTruth()).merge(counts)
        self.alarms.update(summary.alarms)
        self.disagreements += summary.disagreements


TruthLine = RunLine | RuleLine | RecordLine | SentLine | SummaryLine | EndLine
_DECODER = msgspec.json.Decoder(TruthLine)


def truth_files(directory: Path) -> list[Path]:
    """All truth files below `var/city`, oldest run first, parts in sequence."""
    return sorted(directory.glob("truth-*.jsonl"))


def read_truth(paths: Iterable[Path]) -> TruthTotals:
    """Add up the runs. A torn last line (the city was killed) is ignored."""
    totals = TruthTotals()
    pending: dict[tuple[str, int], RecordLine] = {}
    for path in paths:
        run = ""
        for line in read_lines(path):
            if isinstance(line, RunLine):
                run = line.run
            _apply(totals, pending, run, line)
    totals.unconfirmed = list(pending.values())
    return totals


def read_acknowledged(paths: Iterable[Path]) -> tuple[dict[str, RecordLine], int]:
    """The acknowledged records by the ids that their receivers gave them, without those that were
    rejected at once; how many others a summary stands for."""
    found: dict[str, RecordLine] = {}
    pending: dict[tuple[str, int], RecordLine] = {}
    folded = 0
    for path in paths:
        run = ""
        for line in read_lines(path):
            match line:
                case RunLine():
                    run = line.run
                case RecordLine():
                    pending[run, line.n] = line
                case SummaryLine():
                    folded += sum(topic.sent for topic in line.topics.values())
                case SentLine():
                    for record, record_id, rejected in _acknowledged_of(pending, run, line):
                        if not rejected:
                            given = record_id or record.id
                            found[given] = msgspec.structs.replace(record, id=given)
    return found, folded


def read_lines(path: Path) -> Iterator[TruthLine]:
    """The lines of one file, up to the last whole one: a kill may have torn what follows."""
    with path.open("rb") as file:
        for text in file:
            if text.endswith(b"\n"):
                yield _decode(text)


def _count(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        counts[name] = counts.get(name, 0) + number


def _decode(text: bytes) -> TruthLine:
    line: TruthLine = _DECODER.decode(text)
    return line


def _acknowledged_of(
    pending: dict[tuple[str, int], RecordLine], run: str, line: SentLine
) -> Iterator[tuple[RecordLine, str, str]]:
    """Each record that is pending no longer, the id it was given, why it was rejected. One that is
    not pending has been folded into a summary with its part."""
    for n in line.ns:
        record = pending.pop((run, n), None)
        if record is not None:
            yield record, line.ids.get(n, ""), line.rejected.get(n, "")


def _apply(
    totals: TruthTotals, pending: dict[tuple[str, int], RecordLine], run: str, line: TruthLine
) -> None:
    match line:
        case RecordLine():
            pending[run, line.n] = line
        case SentLine():
            for record, record_id, rejected in _acknowledged_of(pending, run, line):
                totals.confirm(record, record_id, rejected)
        case RunLine():
            totals.runs.add(line.run)
        case RuleLine():
            totals.rules.add(line.rule_id)
        case SummaryLine():
            totals.absorb(line)
        case EndLine():
            totals.ended_runs += 1
            totals.skipped += line.skipped
