"""Collects the five sources of the account: truth, counters, topics, store, alarms.

In: settings of a running product. Out: an `Reconciliation`. Never: a write, a judgement (that is
`deploy.reconcile.balance`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from bus.contracts.alarms import Alarm, Suppressed
from bus.contracts.commands import USUAL_QUIET_S
from bus.contracts.meters import QualityCell, Sent
from bus.contracts.topics import (
    DATA_TOPICS,
    EVENT_CANDIDATE,
    METER_ARRIVED,
    METER_SENT,
    QUARANTINE_RECORDS,
)
from bus.domain.kinds import KINDS
from deploy.open_stores import open_operations, open_records
from deploy.reconcile.balance import (
    AcceptedDifference,
    AlarmTotals,
    Difference,
    FlowTotals,
    GroundTruth,
    PassageTotals,
    Reconciliation,
    balance,
)
from deploy.reconcile.edge_status import edge_unreported
from deploy.reconcile.topic_totals import PutAside, TopicTotals, read_topic_totals, read_up_to
from deploy.settings.composed import Settings
from ingest.senders.simulator.ground_truth import (
    VALID,
    RecordLine,
    TruthTotals,
    read_truth,
    truth_files,
)
from ingest.store.port import Counts, PageRequest, Position, Query, RecordReader, RejectedRow
from monitor.models.histogram import Buckets, merge, percentiles, upper_ms

TOPICS = (*DATA_TOPICS, QUARANTINE_RECORDS, METER_ARRIVED, METER_SENT, EVENT_CANDIDATE)
# The kinds under which records of a topic are counted, stored and rejected.
KINDS_OF_TOPIC: dict[str, tuple[str, ...]] = {
    kind.topic: tuple(dict.fromkeys((kind.name, *kind.stored_as))) for kind in KINDS.values()
}
INGEST = "ingest"
CLOCK_OFF_MS = 15 * 60_000  # nothing takes a quarter of an hour, or less than none, on its own
PAGE = 1000
MAX_DIFFERENCES = 1_000  # minutes of devices that are named
PASS_S, PASS_POLL_S = 15.0, 0.2  # ingest needs a second for what is on the bus, or it stands still
REPORTED_S, REPORTED_POLL_S = 10.0, 0.3  # an edge tells a second after the last record
MOMENT_TRIES = 50  # ingest commits ten times a second, reading the counts takes a millisecond


@dataclass(frozen=True, slots=True)
class _Totals:
    """What is read once for all flows."""

    bus: TopicTotals
    reader: RecordReader
    counts: Counts
    positions: Sequence[Position]  # of the same moment as the counts
    cells: Sequence[QualityCell]
    put_aside: Mapping[str, PutAside]
    truth: TruthTotals
    is_alive: bool
    edges_reported: bool


def reconcile(
    settings: Settings,
    city: Path | None = None,
    lost: Iterable[RecordLine] = (),
    accepted: Sequence[AcceptedDifference] = (),
) -> Reconciliation:
    """Read all sources and compare them. `city`: where it writes its truth, if elsewhere; records
    that are `lost` with another site are not due, nor are differences that people `accepted`."""
    truth = read_truth(truth_files(city or settings.site.data_path / "city"))
    for line in lost:
        truth.withdraw(line)
    reader = open_records(settings)
    try:
        are_reported = _wait_until_reported(settings)
        begun = read_topic_totals(settings.bus, TOPICS)
        _wait_until_passed(reader, begun)
        counts, positions = _of_one_moment(reader)
        bus = begun.advanced_to(INGEST, positions)
        is_alive = _data_ends(read_topic_totals(settings.bus, TOPICS)) != _data_ends(begun)
        totals = _Totals(
            bus=bus,
            reader=reader,
            counts=counts,
            positions=positions,
            cells=reader.quality(from_ms=0, until_ms=0),
            put_aside=bus.put_aside(INGEST, positions),
            truth=truth,
            is_alive=is_alive,
            edges_reported=are_reported and not is_alive,
        )
        found = [line for line in truth.unconfirmed if _is_there(line, reader)]
        flows = [_flow(topic, totals, found, accepted) for topic in DATA_TOPICS]
        if any(flow.difference and flow.differences for flow in flows):
            senders = _senders(totals.bus)
            flows = [_with_senders(flow, senders) for flow in flows]
    finally:
        reader.close()
    alarms = _alarms(settings, truth, found)
    if totals.is_alive:
        later = read_truth(truth_files(city or settings.site.data_path / "city"))
        alarms = msgspec.structs.replace(alarms, sent_meanwhile=_expected(later, later.unconfirmed))
    return balance(flows, alarms, accepted)


def _flow(
    topic: str,
    totals: _Totals,
    found: Sequence[RecordLine],
    accepted: Sequence[AcceptedDifference],
) -> FlowTotals:
    kinds, counts = KINDS_OF_TOPIC[topic], totals.counts
    rejected: Counter[str] = Counter()
    for kind in kinds:
        rejected.update(counts.rejected.get(kind, {}))
    positions = totals.positions
    aside = [totals.put_aside[kind] for kind in kinds if kind in totals.put_aside]
    p50_ms, p99_ms, off = _latency(totals.reader, kinds)
    return FlowTotals(
        kind=topic,
        on_topic=totals.bus.on_topic(topic) + totals.bus.of_former(INGEST, positions, topic),
        edge_rejected=sum(each.arrived for each in aside),
        in_flight=totals.bus.behind(INGEST, positions, [topic])
        + sum(each.in_flight for each in aside),
        counted=sum(cell.sent for cell in totals.cells if cell.kind in kinds),
        uncounted=_uncounted(totals, kinds),
        by_edges=sum(cell.accepted for cell in totals.cells if cell.kind in kinds),
        truth=_truth(topic, totals.truth, found),
        stored=_of(counts.stored, kinds),
        duplicates=_of(counts.duplicates, kinds),
        rejected=dict(rejected),
        rejected_again=_of(counts.rejected_duplicates, kinds),
        latency_p50_ms=p50_ms,
        latency_p99_ms=p99_ms,
        clock_off=off,
        is_alive=totals.is_alive,
        edges_reported=totals.edges_reported,
        accepted=sum(one.difference for one in accepted if one.kind == topic),
        differences=_differences(totals.cells, kinds),
    )


def _differences(cells: Sequence[QualityCell], kinds: Sequence[str]) -> list[Difference]:
    """Minutes of devices that count what they send, where another number is kept."""
    counting = {(cell.kind, cell.camera_ip) for cell in cells if cell.sent}
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for cell in cells:
        if cell.kind in kinds and (cell.kind, cell.camera_ip) in counting:
            place = cell.camera_ip, cell.minute_ms
            sent, kept = sums.get(place, (0, 0))
            kept += cell.stored + sum(cell.rejected.values())
            sums[place] = sent + cell.sent, kept
    found = [
        Difference(camera_ip=camera, minute_ms=minute_ms, sent=sent, kept=kept)
        for (camera, minute_ms), (sent, kept) in sums.items()
        if sent != kept
    ]
    return sorted(found, key=lambda one: -abs(one.sent - one.kept))[:MAX_DIFFERENCES]


Senders = Mapping[tuple[str, int], set[str]]


def _senders(bus: TopicTotals) -> Senders:
    """Who has counted for a device and minute, as far as the bus remembers."""
    ends = {p: end for (topic, p), end in bus.end_offsets.items() if topic == METER_SENT and end}
    found: dict[tuple[str, int], set[str]] = {}
    for message in read_up_to(bus.bus, METER_SENT, ends):
        try:
            sent = msgspec.json.decode(message.value or b"", type=Sent)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # whoever may write there may write anything; nobody counted it
        found.setdefault((sent.camera_ip, sent.minute_ms), set()).add(sent.producer)
    return found


def _with_senders(flow: FlowTotals, senders: Senders) -> FlowTotals:
    names = [sorted(senders.get((one.camera_ip, one.minute_ms), ())) for one in flow.differences]
    named = [
        msgspec.structs.replace(one, senders=found)
        for one, found in zip(flow.differences, names, strict=True)
    ]
    return msgspec.structs.replace(flow, differences=named)


def _wait_until_reported(settings: Settings) -> bool:
    """Until this machine's edge has told what it took, or the bound. False while records come, and
    where no edge answers: then more may be told later."""
    deadline, ends = time.monotonic() + REPORTED_S, None
    while unreported := edge_unreported(settings):
        before, ends = ends, _data_ends(read_topic_totals(settings.bus, DATA_TOPICS))
        if before not in (None, ends) or time.monotonic() > deadline:
            return False
        time.sleep(REPORTED_POLL_S)
    return unreported == 0


def _wait_until_passed(reader: RecordReader, bus: TopicTotals) -> None:
    """Until ingest has read what was on the bus when the account was asked for, or the bound."""
    deadline = time.monotonic() + PASS_S
    topics = (*DATA_TOPICS, QUARANTINE_RECORDS, METER_ARRIVED)
    while bus.behind(INGEST, reader.positions(INGEST), topics) and time.monotonic() < deadline:
        time.sleep(PASS_POLL_S)


def _of_one_moment(reader: RecordReader) -> tuple[Counts, Sequence[Position]]:
    """Counts and the positions they belong to: both change in one transaction, so they belong
    together when the positions are the same before and after."""
    after: Sequence[Position] = reader.positions(INGEST)
    for _ in range(MOMENT_TRIES):
        before, counts, after = after, reader.counts(), reader.positions(INGEST)
        if sorted(before, key=repr) == sorted(after, key=repr):
            break
    return counts, after


def _data_ends(bus: TopicTotals) -> dict[tuple[str, int], int]:
    return {place: end for place, end in bus.end_offsets.items() if place[0] in DATA_TOPICS}


def _truth(topic: str, totals: TruthTotals, found: Sequence[RecordLine]) -> GroundTruth:
    """Acknowledged records, and those found although no acknowledgement had come back."""
    certain = totals.topics.get(topic)
    also = [line for line in found if line.topic == topic]
    rejected = Counter(certain.rejected if certain else {})
    rejected.update(line.expected for line in also if line.expected != VALID)
    return GroundTruth(
        tried=totals.tried(topic),
        arrived=(certain.sent if certain else 0) + len(also),
        rejected=dict(rejected),
    )


def _is_there(line: RecordLine, reader: RecordReader) -> bool:
    if line.expected == VALID:
        return reader.count(Query(record_id=line.id)) > 0
    return any(row.record_id == line.id for row in _rejected(reader, line.kind, line.expected))


def _rejected(reader: RecordReader, kind: str, reason: str) -> Iterable[RejectedRow]:
    cursor = ""
    while True:
        rows, cursor = reader.rejected(
            kind=kind, reason=reason, page=PageRequest(limit=PAGE, cursor=cursor)
        )
        yield from rows
        if not cursor:
            return


def _uncounted(totals: _Totals, kinds: Sequence[str]) -> int:
    """Distinct records of devices that never said how many they sent."""
    cells = [cell for cell in totals.cells if cell.kind in kinds and cell.camera_ip]
    counting = {(cell.kind, cell.camera_ip) for cell in cells if cell.sent}
    silent = {(cell.kind, cell.camera_ip) for cell in cells} - counting
    stored = sum(totals.reader.count(Query(kind=k, camera_ip=ip)) for k, ip in silent)
    rejected = sum(
        sum(cell.rejected.values()) for cell in cells if (cell.kind, cell.camera_ip) in silent
    )
    return stored + rejected


def _latency(
    reader: RecordReader, kinds: Sequence[str]
) -> tuple[int | None, int | None, int]:  # fmt: skip
    """p50 and p99 of stored − captured; replays are not in the cells, wrong clocks are left out."""
    cells = [c for kind in kinds for c in reader.latency_cells(from_ms=0, until_ms=0, kind=kind)]
    buckets = merge(cell.buckets for cell in cells)
    sound: Buckets = {b: n for b, n in buckets.items() if 0 <= upper_ms(b) < CLOCK_OFF_MS}
    off = sum(buckets.values()) - sum(sound.values())
    if not sound:
        return None, None, off
    p50_ms, p99_ms = percentiles(sound, (0.5, 0.99))
    return p50_ms, p99_ms, off


def _alarms(settings: Settings, totals: TruthTotals, found: Sequence[RecordLine]) -> AlarmTotals:
    raised = list(_raised(settings))
    times_ms = sorted(alarm.raised_at_ms - alarm.captured_at_ms for alarm in raised)
    sound = [time_ms for time_ms in times_ms if 0 <= time_ms < CLOCK_OFF_MS]
    return AlarmTotals(
        expected=_expected(totals, found),
        raised=[alarm.alarm_id for alarm in raised],
        city_rules=totals.rules,
        passages=_passages(settings, raised, totals.rules),
        latency_p50_ms=sound[len(sound) // 2] if sound else None,
        latency_p99_ms=sound[min(len(sound) - 1, len(sound) * 99 // 100)] if sound else None,
    )


def _expected(totals: TruthTotals, found: Iterable[RecordLine]) -> set[str]:
    """Ids of the alarms of acknowledged records, and of those found without an acknowledgement."""
    expected = {f"{rule}:{record}" for rule, record in totals.alarms}
    return expected | {f"{rule}:{line.id}" for line in found for rule in line.alarms}


def _raised(settings: Settings) -> Iterable[Alarm]:
    with closing(open_operations(settings)) as reader:
        yield from reader.every_alarm()


def _passages(
    settings: Settings, raised: Sequence[Alarm], city_rules: Collection[str]
) -> PassageTotals:
    """What fell into quiet times; that of the city's rules is the usual one."""
    found: list[Suppressed] = []
    with closing(open_operations(settings)) as reader:
        behind = ("", "")
        while page := reader.suppressed(behind, PAGE):
            found += page
            behind = page[-1].rule_id, page[-1].record_id
    captured_ms = {alarm.alarm_id: alarm.captured_at_ms for alarm in raised}
    return PassageTotals(
        suppressed={_alarm_id(one): one.alarm_id for one in found},
        too_far=[
            _alarm_id(one)
            for one in found
            if one.rule_id in city_rules and one.alarm_id in captured_ms
            and abs(captured_ms[one.alarm_id] - one.captured_at_ms) >= USUAL_QUIET_S * 1000
        ],
        too_near=_too_near(alarm for alarm in raised if alarm.rule_id in city_rules),
    )  # fmt: skip


def _too_near(alarms: Iterable[Alarm]) -> list[str]:
    """Of two passages of one target at one place within the quiet time the later one."""
    passages: dict[tuple[str, str, str], list[Alarm]] = {}
    for alarm in alarms:
        if alarm.target:
            key = alarm.rule_id, alarm.target, alarm.checkpoint_id
            passages.setdefault(key, []).append(alarm)
    return [
        later.alarm_id
        for found in passages.values()
        for former, later in pairwise(sorted(found, key=lambda one: one.captured_at_ms))
        if later.captured_at_ms - former.captured_at_ms < USUAL_QUIET_S * 1000
        and later.alarm_id != former.alarm_id
    ]


def _alarm_id(one: Suppressed) -> str:
    """Of the alarm that was not raised."""
    return f"{one.rule_id}:{one.record_id}"


def _of(counts: Mapping[str, int], kinds: Sequence[str]) -> int:
    return sum(counts.get(kind, 0) for kind in kinds)
