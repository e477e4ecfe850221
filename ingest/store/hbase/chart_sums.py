"""What charts ask of HBase: sums of cells, and the cells of one camera by their keys.

In: a connection, a span. Out: rows of the port. Core: `aggregates`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from bus.contracts.meters import LatencyCell
from bus.domain.kinds import KIND_AS_STORED
from bus.domain.times import DAY_MS, MINUTE_MS
from ingest.store.hbase import aggregates, columns, keys, tables
from ingest.store.hbase.connection import ROWS_PER_CALL, ThriftSession
from ingest.store.hbase.ledger import Ledger, value
from ingest.store.port import QualityDevices, QualitySum
from ingest.store.quality_cells import empty_cell
from ingest.store.rollups import NUMBERS, ODD, LatencyKey, QualityKey

Numbers = Mapping[str, int]


class ChartSums:
    """One question: what counts is what the ledger said at its beginning."""

    def __init__(self, line: ThriftSession) -> None:
        self._line = line
        self._ledger: Ledger = columns.read_ledger(line)[0]

    def quality(
        self, step_ms: int, from_ms: int, until_ms: int, kind: str, camera_ip: str
    ) -> list[QualitySum]:
        """See `RecordReader.quality_sums`."""
        if camera_ip:
            found = self._of_camera(step_ms, from_ms, until_ms, camera_ip)
        else:
            where = [keys.salt("") + aggregates.QUALITY_SUM + keys.number(step_ms)]
            found = (
                aggregates.quality_sum_of(key, numbers)
                for key, numbers in self._scan(where, from_ms, until_ms)
            )
        wanted = [one for one in found if kind in ("", one.kind)]
        return sorted(wanted, key=lambda one: (one.start_ms, one.kind))

    def devices(
        self, step_ms: int, from_ms: int, until_ms: int, kind: str, camera_ip: str, limit: int
    ) -> QualityDevices:
        """See `RecordReader.quality_devices`; holds one sum for each device."""
        sums: dict[tuple[str, str, str], dict[str, int]] = {}
        for one in self._of_devices(step_ms, from_ms, until_ms, camera_ip):
            if kind in ("", one.kind):
                into = sums.setdefault((one.kind, one.camera_ip, one.recognizer_ip), {})
                for name in NUMBERS:
                    into[name] = into.get(name, 0) + getattr(one, name)
                for reason, count in one.rejected.items():
                    name = aggregates.REASON + reason
                    into[name] = into.get(name, 0) + count
        widest = heapq.nsmallest(
            limit,
            sums.items(),
            key=lambda item: (-max(0, item[1]["sent"] - item[1]["valid"]), item[0][1], item[0][0]),
        )
        rows = [
            aggregates.quality_sum_of(
                aggregates.quality_sum_key(QualityKey(True, step_ms, from_ms, *device)), numbers
            )
            for device, numbers in widest
        ]
        return QualityDevices(widest=rows, total=len(sums))

    def latency(
        self, step_ms: int, from_ms: int, until_ms: int, scope: str, district_id: str
    ) -> list[LatencyCell]:
        """See `RecordReader.latency_sums`."""
        salts = keys.ALL_SALTS if scope == ODD else [keys.salt("")]
        begin = aggregates.latency_sum_key(LatencyKey(scope, step_ms, 0, ""))[2:]
        prefix = begin[: begin.index(keys.END) + 1] + keys.number(step_ms)
        where = [salt + aggregates.LATENCY_SUM + prefix for salt in salts]
        found = (
            aggregates.latency_sum_of(key, numbers)
            for key, numbers in self._scan(where, from_ms, until_ms)
        )
        wanted = [one for one in found if district_id in ("", one.district_id)]
        return sorted(wanted, key=lambda one: one.minute_ms)

    def device_latency(
        self, from_ms: int, until_ms: int, camera_ip: str, districts: Sequence[str]
    ) -> list[LatencyCell]:
        """See `RecordReader.device_latency`."""
        wanted = [
            aggregates.histogram_key(
                LatencyCell(
                    kind=kind, district_id=district, camera_ip=camera_ip, minute_ms=minute_ms,
                    buckets={},
                )
            )
            for minute_ms, kind, district in product(
                _starts(MINUTE_MS, from_ms, until_ms), KIND_AS_STORED, dict.fromkeys(districts)
            )
        ]  # fmt: skip
        found = self._get(wanted)
        return [aggregates.latency_cell_of(key, found[key]) for key in wanted if key in found]

    def _of_camera(
        self, step_ms: int, from_ms: int, until_ms: int, camera_ip: str
    ) -> Iterator[QualitySum]:
        """By the keys of its kinds and servers, which its sums of days tell."""
        first_day_ms = from_ms - from_ms % DAY_MS
        days = self._of_devices(DAY_MS, first_day_ms, until_ms, camera_ip)
        devices = {(one.kind, one.camera_ip, one.recognizer_ip) for one in days}
        starts = _starts(step_ms, from_ms, until_ms)
        if step_ms == MINUTE_MS:
            wanted = [
                aggregates.quality_key(empty_cell((*device, start_ms)))
                for start_ms, device in product(starts, devices)
            ]
        else:
            wanted = [
                aggregates.quality_sum_key(QualityKey(True, step_ms, start_ms, *device))
                for start_ms, device in product(starts, devices)
            ]
        return (_device_sum(key, numbers) for key, numbers in self._get(wanted).items())

    def _of_devices(
        self, step_ms: int, from_ms: int, until_ms: int, camera_ip: str
    ) -> Iterator[QualitySum]:
        salts = [keys.salt(camera_ip)] if camera_ip else keys.ALL_SALTS
        kind = aggregates.QUALITY if step_ms == MINUTE_MS else aggregates.DEVICE_SUM
        step = b"" if step_ms == MINUTE_MS else keys.number(step_ms)
        where = [salt + kind + step for salt in salts]
        for key, numbers in self._scan(where, from_ms, until_ms):
            one = _device_sum(key, numbers)
            if camera_ip in ("", one.camera_ip):
                yield one

    def _scan(
        self, where: Sequence[bytes], from_ms: int, until_ms: int
    ) -> Iterator[tuple[bytes, Numbers]]:
        """Cells behind prefixes that a moment follows."""
        start, stop = keys.number(from_ms), keys.number(until_ms)
        for prefix in where:
            for key, row in self._line.scan(
                tables.CELLS, prefix + start, prefix + stop, ROWS_PER_CALL
            ):
                numbers = value(columns.cell_of(row), self._ledger)
                if numbers:
                    yield key, numbers

    def _get(self, wanted: Sequence[bytes]) -> dict[bytes, Numbers]:
        found = {
            key: value(columns.cell_of(row), self._ledger)
            for key, row in self._line.get_many(tables.CELLS, wanted).items()
        }
        return {key: numbers for key, numbers in found.items() if numbers}


def _device_sum(key: bytes, numbers: Numbers) -> QualitySum:
    """The sum of a device, or the cell of one of its minutes as such."""
    if keys.cell_kind(key) == aggregates.DEVICE_SUM:
        return aggregates.quality_sum_of(key, numbers)
    cell = aggregates.quality_cell_of(key, numbers)
    known = {name: getattr(cell, name) for name in NUMBERS}
    return QualitySum(
        start_ms=cell.minute_ms, kind=cell.kind, camera_ip=cell.camera_ip,
        recognizer_ip=cell.recognizer_ip, rejected=cell.rejected, **known,
    )  # fmt: skip


def _starts(step_ms: int, from_ms: int, until_ms: int) -> range:
    return range(from_ms + -from_ms % step_ms, until_ms, step_ms)
