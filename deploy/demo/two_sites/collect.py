"""Reads the records of two sites: the city's log, stores, a lost site's disks, the mirror's report.

In: settings of both sites. Out: `SiteRecords`, and the account at B. Never: a judgement, a write.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from typing import Any

from bus.contracts.pictures import picture_names
from deploy.demo.two_sites.balance import SiteRecords, Via
from deploy.demo.two_sites.lost_logs import diverged_partitions
from deploy.open_stores import open_operations, open_records, picture_reader
from deploy.reconcile import collect
from deploy.reconcile.balance import Reconciliation
from deploy.settings.composed import Settings
from dr_mirror.report.plan.switch_report import EDGE, FORCED
from ingest.senders.simulator.ground_truth import RecordLine, read_acknowledged, truth_files
from ingest.store.port import PageRequest, Query, RecordReader

PAGE = 1000
PICTURES_WAIT_S = 30.0
POLL_S = 0.5


def read_records(
    a: Settings, b: Settings, cameras: Settings, stored_at_switch: int, report: dict[str, Any],
    first_stored_ms: int | None, lost_at_ms: int,
) -> tuple[SiteRecords, Reconciliation]:
    """`cameras`: of the edge and the city, which writes its truth. `report`: what `mirror report
    --json` says. `lost_at_ms`: when A died, -1: it did not. What B lacks is taken out of what is
    due there, so that B's own records balance for what is left."""
    # Those that the edge refused are not in it: B's own account compares them in number.
    city = cameras.site.data_path / "city"
    by_id, folded = read_acknowledged(truth_files(city))
    with closing(open_records(a)) as reader:
        at_a = {*stored_ids(reader), *_rejected(reader, by_id.values())}
    forced = _statements(report, FORCED)
    diverged = diverged_partitions(a.site.data_path, forced[0]["partitions"]) if forced else []
    own = {one.record_id for tail in diverged for one in tail.records}
    with closing(open_records(b)) as reader:
        stored_b = stored_ids(reader)
        at_b = {*stored_b, *_rejected(reader, by_id.values())}
        at_b |= {each for each in own - at_b if reader.rejected_record(each) is not None}
    lost = [line for record_id, line in by_id.items() if record_id not in at_b]
    missing = report.get("missing") or {}
    pictures, pictures_at_b = pictures_of_alarms(b, cameras)
    records = SiteRecords(
        acknowledged=_by_way(by_id), at_a=at_a, at_b=at_b, folded=folded, stored_b=len(stored_b),
        stored_b_at_switch=stored_at_switch, known_missing=missing.get("known_missing"),
        sent_again=missing.get("sent_again"),
        edges_not_heard=report.get("edges_not_heard", ()), diverged=diverged, lost_at_ms=lost_at_ms,
        diverged_sent_again=_sent_again(report, {(one.topic, one.partition) for one in diverged}),
        perhaps_there=missing.get("perhaps_there", 0), pictures=pictures,
        pictures_at_b=pictures_at_b, first_stored_ms=first_stored_ms,
    )  # fmt: skip
    return records, collect.reconcile(b, city, lost)


def _statements(report: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """The statements of this kind."""
    return [one for one in report["statements"] if one["kind"] == kind]


def _sent_again(report: Mapping[str, Any], places: AbstractSet[tuple[str, int]]) -> int:
    """Of these partitions, what edges sent again of what was known to be missing."""
    return sum(
        max(each["sent_again"], 0)
        for one in _statements(report, EDGE)
        for each in one["partitions"]
        if (each["topic"], each["partition"]) in places
    )


def stored_ids(reader: RecordReader) -> set[str]:
    """Of all kinds."""
    found: set[str] = set()
    cursor = ""
    while True:
        rows, cursor = reader.query(Query(), PageRequest(limit=PAGE, cursor=cursor))
        found |= {row.record_id for row in rows}
        if not cursor:
            return found


def pictures_of_alarms(b: Settings, cameras: Settings) -> tuple[int, int]:
    """Pictures of B's alarms that the cameras' edge has, and how many of them B's own store has
    as well, byte for byte. Those on their way are waited for, within bounds."""
    at_edge = picture_reader(cameras.pictures.store_url(cameras.site))
    at_b = picture_reader(b.pictures.store_url(b.site))
    wanted = {
        name: found[0]
        for name in _alarmed_pictures(b)
        if (found := at_edge(name)) is not None
    }  # fmt: skip
    until_s = time.monotonic() + PICTURES_WAIT_S
    while True:
        there = [n for n, data in wanted.items() if (f := at_b(n)) is not None and f[0] == data]
        if len(there) == len(wanted) or time.monotonic() > until_s:
            return len(wanted), len(there)
        time.sleep(POLL_S)


def _alarmed_pictures(site: Settings) -> set[str]:
    with closing(open_operations(site)) as reader:
        return {
            name
            for alarm in reader.every_alarm()
            for name in picture_names(alarm.record, alarm.picture_url)
        }


def _rejected(reader: RecordReader, lines: Iterable[RecordLine]) -> set[str]:
    ids = [line.id for line in lines if line.expected != "valid"]
    return {each for each in ids if reader.rejected_record(each) is not None}


def _by_way(by_id: dict[str, RecordLine]) -> dict[Via, set[str]]:
    ways: dict[Via, set[str]] = {"edge": set(), "bus": set()}
    for record_id, line in by_id.items():
        ways[line.via].add(record_id)
    return ways
