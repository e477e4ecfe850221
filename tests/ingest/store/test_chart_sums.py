"""The sums that charts read, in either store: they are what adding up the cells gives."""

from __future__ import annotations

import random
from collections import defaultdict

from bus.contracts.meters import LatencyCell, QualityCell
from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS
from ingest.store.port import QualitySum, RecordReader, RecordStore, StoreBatch
from ingest.store.rollups import ALL, DISTRICT, EARLY_BUCKET, LATE_BUCKET, NUMBERS, ODD, is_odd
from monitor.models.histogram import bucket_of, upper_ms
from tests.ingest.store.made import MINUTE, accepted, position, quality, row, sent

END_MS = MINUTE + 60 * DAY_MS
DEVICES = [("vehicle", "10.0.0.1", ""), ("face", "10.0.0.2", "10.0.1.1"), ("vehicle", "", "")]
BUCKETS = (5, 100, 200, EARLY_BUCKET, LATE_BUCKET, LATE_BUCKET + 40)


def batch_of(dice: random.Random) -> StoreBatch:
    """Increments, counters and latencies of a few devices and minutes."""
    minutes = [MINUTE + m * MINUTE_MS for m in (0, 1, 59, 60, 200, 1500, 3000)]
    cells = []
    for _ in range(8):
        kind, camera, server = dice.choice(DEVICES)
        valid, bad = dice.choice([(v, b) for v in range(5) for b in range(3) if v or b])
        cells.append(
            quality(
                kind=kind, camera_ip=camera, recognizer_ip=server, minute_ms=dice.choice(minutes),
                arrived=valid + bad, valid=valid, stored=valid, partly_read=valid // 2,
                rejected={dice.choice(("no-time", "not-json")): bad} if bad else {},
            )
        )  # fmt: skip
    latency = [
        LatencyCell(
            kind=dice.choice(("vehicle", "face")), district_id=dice.choice(("d0", "d1")),
            camera_ip=dice.choice(("10.0.0.1", "10.0.0.2")), minute_ms=dice.choice(minutes),
            buckets={dice.choice(BUCKETS): dice.randint(1, 9)},
        )
        for _ in range(6)
    ]  # fmt: skip
    counters = [sent(dice.randint(1, 60)), accepted(dice.randint(1, 30))]
    rows = [row(dice.randint(1, 30)) for _ in range(4)]
    return StoreBatch(
        rows=rows, quality=cells, counters=counters, latency=lambda new: latency if new else []
    )


def assert_sums_are_those_of_the_cells(reader: RecordReader) -> None:
    """Every question, compared with a plain loop over all cells."""
    cells = reader.quality(from_ms=0, until_ms=0)
    for step_ms in (MINUTE_MS, HOUR_MS, DAY_MS):
        span = {"step_ms": step_ms, "from_ms": MINUTE - MINUTE % DAY_MS, "until_ms": END_MS}
        assert _by_key(reader.quality_sums(**span)) == _added_up(cells, step_ms, by_device=False)
        for camera in ("10.0.0.1", "10.0.0.2", "10.9.9.9"):
            own = [cell for cell in cells if cell.camera_ip == camera]
            found = _by_key(reader.quality_sums(**span, camera_ip=camera))
            assert found == _added_up(own, step_ms, by_device=True)
        for kind in ("", "face"):
            own = [cell for cell in cells if kind in ("", cell.kind)]
            devices = reader.quality_devices(**span, kind=kind, limit=2)
            every = _added_up(own, 1 << 62, by_device=True)
            assert devices.total == len(every)
            gaps = [max(0, one.sent - one.valid) for one in devices.widest]
            widest = sorted((max(0, n[0] - n[3]) for n, _ in every.values()), reverse=True)
            assert gaps == widest[:2]
            for one in devices.widest:
                assert _numbers(one) == every[0, one.kind, one.camera_ip, one.recognizer_ip]
        _assert_latencies(reader, step_ms, span["from_ms"])
    missing = reader.missing_records(from_ms=0, until_ms=END_MS)
    assert [c.missing for c in missing] == [c.missing for c in cells if c.missing]


def _assert_latencies(reader: RecordReader, step_ms: int, from_ms: int) -> None:
    cells = reader.latency_cells(from_ms=0, until_ms=0)
    for scope in (ALL, DISTRICT, ODD):
        wanted: dict[tuple[int, str, str, str], dict[int, int]] = defaultdict(dict)
        for cell in cells:
            start_ms = cell.minute_ms - cell.minute_ms % step_ms
            district = "" if scope == ALL else cell.district_id
            key = (start_ms, cell.kind, district, cell.camera_ip if scope == ODD else "")
            for bucket, count in cell.buckets.items():
                if is_odd(bucket) == (scope == ODD):
                    wanted[key][bucket] = wanted[key].get(bucket, 0) + count
        found = reader.latency_sums(
            step_ms=step_ms, from_ms=from_ms, until_ms=END_MS, scope=scope
        )
        assert {(c.minute_ms, c.kind, c.district_id, c.camera_ip): c.buckets for c in found} == wanted
    one = reader.latency_sums(
        step_ms=step_ms, from_ms=from_ms, until_ms=END_MS, scope=DISTRICT, district_id="d1"
    )
    assert {cell.district_id for cell in one} <= {"d1"}
    own = [cell for cell in cells if cell.camera_ip == "10.0.0.1"]
    device = reader.device_latency(
        from_ms=MINUTE, until_ms=MINUTE + 3200 * MINUTE_MS, camera_ip="10.0.0.1",
        districts=("d1", "d0", ""),
    )  # fmt: skip
    assert sorted(device, key=repr) == sorted(own, key=repr)


def _added_up(
    cells: list[QualityCell], step_ms: int, *, by_device: bool
) -> dict[tuple[int, str, str, str], tuple[tuple[int, ...], dict[str, int]]]:
    sums: dict[tuple[int, str, str, str], tuple[list[int], dict[str, int]]] = {}
    for cell in cells:
        start_ms = cell.minute_ms - cell.minute_ms % step_ms if step_ms < 1 << 62 else 0
        device = (cell.camera_ip, cell.recognizer_ip) if by_device else ("", "")
        numbers, rejected = sums.setdefault(
            (start_ms, cell.kind, *device), ([0] * len(NUMBERS), {})
        )
        for at, name in enumerate(NUMBERS):
            numbers[at] += getattr(cell, name)
        for reason, count in cell.rejected.items():
            rejected[reason] = rejected.get(reason, 0) + count
    return {key: (tuple(numbers), rejected) for key, (numbers, rejected) in sums.items()}


def _by_key(
    sums: list[QualitySum],
) -> dict[tuple[int, str, str, str], tuple[tuple[int, ...], dict[str, int]]]:
    keys = [(one.start_ms, one.kind, one.camera_ip, one.recognizer_ip) for one in sums]
    assert len(keys) == len(set(keys))
    return dict(zip(keys, map(_numbers, sums), strict=True))


def _numbers(one: QualitySum) -> tuple[tuple[int, ...], dict[str, int]]:
    return tuple(getattr(one, name) for name in NUMBERS), one.rejected


def test_sums_of_minutes_hours_and_days_are_those_of_their_cells(
    store: RecordStore, dice: random.Random
) -> None:
    """Whatever came in which order, late records and cumulative counters too; what one device has
    too much hides nothing that another lacks."""
    for end in range(1, 9):
        store.apply(batch_of(dice), [position(end, end - 1)])
    assert_sums_are_those_of_the_cells(store)


def test_duplicates_are_counted_where_they_are_found(store: RecordStore) -> None:
    """They were what valid records exceeded stored ones by, and so could disagree with nothing."""
    store.apply(StoreBatch(rows=[row(1)], quality=[quality(arrived=1, valid=1)]), [position(1, 0)])
    again = [row(1, recognizer_ip=""), row(2, recognizer_ip=""), row(2, recognizer_ip="")]
    planted = quality(arrived=9, valid=9)  # of which the store sees three
    store.apply(StoreBatch(rows=again, quality=[planted]), [position(4, 1)])
    cell = next(c for c in store.quality(from_ms=0, until_ms=0) if not c.recognizer_ip)
    assert (cell.valid, cell.stored, cell.duplicates) == (10, 1, 2)
    assert cell.valid != cell.stored + cell.duplicates


def test_odd_latencies_begin_a_second_before_the_capture_and_ten_minutes_after() -> None:
    """The bounds of the buckets stand on disk, in the sums."""
    assert upper_ms(EARLY_BUCKET) < -1_000 <= upper_ms(EARLY_BUCKET + 1)
    assert bucket_of(600_000) == LATE_BUCKET
