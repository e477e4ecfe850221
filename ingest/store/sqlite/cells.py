"""Cells and their sums, read out of the file: what is asked, and the rows as structs.

In: a function that runs a statement in one snapshot of the file. Out: cells, sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from bus.contracts.meters import LatencyCell, QualityCell
from bus.domain.kinds import KIND_AS_STORED, KINDS
from bus.domain.times import MINUTE_MS
from ingest.store.port import QualityDevices, QualitySum
from ingest.store.rollups import DISTRICT, NUMBERS
from ingest.store.sqlite.query import Statement

Rows = Callable[[Statement], list[tuple[Any, ...]]]

# Beyond every epoch in milliseconds: "until" where none was asked for.
FOREVER_MS = 1 << 62
CELL_NUMBERS = ("sent", "arrived", "valid", "partly_read", "stored", "accepted", "duplicates")
_DUPLICATES = "coalesce(duplicates, valid - stored)"  # see the schema
_MISSING = "max(0, accepted - arrived)"
# The minutes of a span, for seeking those of one camera instead of reading those of all.
_SPAN = (
    "WITH RECURSIVE span(start_ms) AS"
    " (SELECT ? UNION ALL SELECT start_ms + ? FROM span WHERE start_ms + ? < ?)"
)
_KINDS = msgspec.json.encode(list(KINDS)).decode()
_KINDS_STORED = msgspec.json.encode(list(KIND_AS_STORED)).decode()
_BUCKETS = msgspec.json.Decoder(dict[int, int])


def quality_cells(
    rows: Rows, from_ms: int, until_ms: int, kind: str = "", *, only_missing: bool = False
) -> list[QualityCell]:
    """By minute."""
    where = "WHERE minute_ms >= ? AND minute_ms < ? AND (? = '' OR kind = ?)"
    values = [from_ms, until_ms or FOREVER_MS, kind, kind]
    only = "AND accepted > arrived" if only_missing else ""
    reasons: dict[tuple[Any, ...], dict[str, int]] = {}
    if not only_missing:
        for *key, reason, count in rows(
            Statement(
                "SELECT minute_ms, kind, camera_ip, recognizer_ip, reason, count"
                f" FROM quality_rejected {where}",
                values,
            )
        ):
            reasons.setdefault(tuple(key), {})[reason] = count
    found = rows(
        Statement(
            f"SELECT minute_ms, kind, camera_ip, recognizer_ip, {','.join(CELL_NUMBERS[:-1])},"
            f" {_DUPLICATES} FROM quality {where} {only}"
            " ORDER BY minute_ms, kind, camera_ip, recognizer_ip",
            values,
        )
    )
    return [quality_cell(row, reasons.get(row[:4], {})) for row in found]


def quality_cell(row: tuple[Any, ...], rejected: dict[str, int], attempt: int = 0) -> QualityCell:
    """A cell of its row, its rejections, and the number of the batch that made it so."""
    minute_ms, kind, camera_ip, recognizer_ip = row[:4]
    numbers: dict[str, int] = dict(zip(CELL_NUMBERS, row[4:], strict=True))
    return QualityCell(
        kind=kind,
        camera_ip=camera_ip,
        recognizer_ip=recognizer_ip,
        minute_ms=minute_ms,
        rejected=rejected,
        attempt=attempt,
        **numbers,
    )


def latency_cells(rows: Rows, from_ms: int, until_ms: int, kind: str = "") -> list[LatencyCell]:
    """By minute."""
    sql = (
        "SELECT kind, district_id, camera_ip, minute_ms, buckets FROM latency_cells"
        " WHERE minute_ms >= ? AND minute_ms < ? AND (? = '' OR kind = ?) ORDER BY minute_ms"
    )
    return _latencies(rows(Statement(sql, [from_ms, until_ms or FOREVER_MS, kind, kind])))


def latency_sums(
    rows: Rows, scope: str, step_ms: int, from_ms: int, until_ms: int, district_id: str
) -> list[LatencyCell]:
    """Of one scope."""
    sql = (
        "SELECT kind, district_id, camera_ip, start_ms, buckets FROM latency_sums"
        " WHERE scope = ? AND step_ms = ? AND start_ms >= ? AND start_ms < ?"
    )
    values: list[Any] = [scope, step_ms, from_ms, until_ms]
    if scope == DISTRICT and district_id:
        sql, values = f"{sql} AND district_id = ?", [*values, district_id]
    return _latencies(rows(Statement(f"{sql} ORDER BY start_ms", values)))


def device_latency(
    rows: Rows, from_ms: int, until_ms: int, camera_ip: str, districts: Sequence[str]
) -> list[LatencyCell]:
    """The cells of one camera, each sought by its key."""
    sql = (
        f"{_SPAN} SELECT q.kind, q.district_id, q.camera_ip, q.minute_ms, q.buckets"
        " FROM span CROSS JOIN json_each(?) AS k CROSS JOIN json_each(?) AS d"
        " CROSS JOIN latency_cells AS q ON q.minute_ms = span.start_ms AND q.kind = k.value"
        " AND q.district_id = d.value AND q.camera_ip = ? WHERE span.start_ms < ?"
    )
    span = _span(MINUTE_MS, from_ms, until_ms)
    named = msgspec.json.encode(list(dict.fromkeys(districts))).decode()
    return _latencies(rows(Statement(sql, [*span, _KINDS_STORED, named, camera_ip, until_ms])))


def quality_sums(
    rows: Rows, step_ms: int, from_ms: int, until_ms: int, kind: str, camera_ip: str
) -> list[QualitySum]:
    """Of all devices, or of one camera."""
    if camera_ip:
        return _sums_of_camera(rows, step_ms, from_ms, until_ms, kind, camera_ip)
    where = (
        "is_device = 0 AND step_ms = ? AND start_ms >= ? AND start_ms < ? AND (? = '' OR kind = ?)"
    )
    values = [step_ms, from_ms, until_ms, kind, kind]
    found = rows(
        Statement(
            f"SELECT start_ms, kind, '', '', {','.join(NUMBERS)} FROM quality_sums WHERE {where}"
            " ORDER BY start_ms, kind",
            values,
        )
    )
    reasons = rows(
        Statement(
            "SELECT start_ms, kind, '', '', reason, count FROM quality_sums_rejected"
            f" WHERE {where}",
            values,
        )
    )
    return _sums(found, reasons)


def _sums_of_camera(
    rows: Rows, step_ms: int, from_ms: int, until_ms: int, kind: str, camera_ip: str
) -> list[QualitySum]:
    where = (
        " AND t.kind = k.value AND t.camera_ip = ?"
        " WHERE span.start_ms < ? AND (? = '' OR t.kind = ?)"
    )
    source, numbers = _of_devices(step_ms)
    of_step = "" if step_ms == MINUTE_MS else f" AND t.is_device = 1 AND t.step_ms = {step_ms}"
    time = "minute_ms" if step_ms == MINUTE_MS else "start_ms"
    begin = f"{_SPAN} SELECT t.{time}, t.kind, t.camera_ip, t.recognizer_ip"
    joined = f"FROM span CROSS JOIN json_each(?) AS k CROSS JOIN {{}} AS t ON t.{time} ="
    end = f" span.start_ms{of_step}{where}"
    values = [*_span(step_ms, from_ms, until_ms), _KINDS, camera_ip, until_ms, kind, kind]
    found = rows(Statement(f"{begin}, {','.join(numbers)} {joined.format(source)}{end}", values))
    rejected = f"{begin}, t.reason, t.count {joined.format(source + '_rejected')}{end}"
    return _sums(found, rows(Statement(rejected, values)))


def quality_devices(
    rows: Rows, step_ms: int, from_ms: int, until_ms: int, kind: str, camera_ip: str, limit: int
) -> QualityDevices:
    """Of the span, by device; grouped and ordered by SQLite, so that few rows come out of it."""
    source, numbers = _of_devices(step_ms)
    time = "minute_ms" if step_ms == MINUTE_MS else "start_ms"
    of_step = "" if step_ms == MINUTE_MS else f"is_device = 1 AND step_ms = {step_ms} AND "
    where = (
        f"WHERE {of_step}{time} >= ? AND {time} < ? AND (? = '' OR kind = ?)"
        " AND (? = '' OR camera_ip = ?)"
    )
    device = "kind, camera_ip, recognizer_ip"
    values = [from_ms, until_ms, kind, kind, camera_ip, camera_ip]
    sums = ",".join(f"sum({one})" for one in numbers)
    widest = "ORDER BY max(0, sum(sent) - sum(valid)) DESC, camera_ip, kind"
    found = rows(  # the few are found by the two numbers that decide, which is half the work
        Statement(
            f"WITH few AS (SELECT {device}, count(*) OVER () AS devices FROM {source} {where}"
            f" GROUP BY {device} {widest} LIMIT ?) SELECT ?, {device}, {sums},"
            f" (SELECT max(devices) FROM few) FROM {source} {where} AND ({device}) IN"
            f" (SELECT {device} FROM few) GROUP BY {device} {widest}",
            [*values, limit, from_ms, *values],
        )
    )
    few = msgspec.json.encode([list(row[1:4]) for row in found]).decode()
    reasons = rows(
        Statement(
            f"SELECT ?, {device}, reason, sum(count) FROM {source}_rejected {where} AND ({device})"
            " IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))"
            f" GROUP BY {device}, reason",
            [from_ms, *values, few],
        )
    )
    total = int(found[0][-1]) if found else 0
    return QualityDevices(widest=_sums([row[:-1] for row in found], reasons), total=total)


def _of_devices(step_ms: int) -> tuple[str, list[str]]:
    """The table of the devices' sums of a step, and `NUMBERS` in it."""
    if step_ms != MINUTE_MS:
        return "quality_sums", list(NUMBERS)
    return "quality", [*NUMBERS[:-2], _DUPLICATES, _MISSING]


def _span(step_ms: int, from_ms: int, until_ms: int) -> list[Any]:
    """The values of `_SPAN`."""
    first_ms = from_ms + -from_ms % step_ms
    return [first_ms, step_ms, step_ms, until_ms]


def _sums(found: Sequence[tuple[Any, ...]], reasons: Sequence[tuple[Any, ...]]) -> list[QualitySum]:
    """Each row: start, kind, camera, server, `NUMBERS`; with its rejections."""
    rejected: dict[tuple[Any, ...], dict[str, int]] = {}
    for *key, reason, count in reasons:
        rejected.setdefault(tuple(key), {})[reason] = count
    return [
        QualitySum(
            start_ms=row[0], kind=row[1], camera_ip=row[2], recognizer_ip=row[3],
            rejected=rejected.get(row[:4], {}), **dict(zip(NUMBERS, row[4:], strict=True)),
        )
        for row in found
    ]  # fmt: skip


def _latencies(found: Sequence[tuple[Any, ...]]) -> list[LatencyCell]:
    return [
        LatencyCell(
            kind=kind, district_id=district_id, camera_ip=camera_ip, minute_ms=minute_ms,
            buckets=_BUCKETS.decode(buckets),
        )
        for kind, district_id, camera_ip, minute_ms, buckets in found
    ]  # fmt: skip
