"""What the console's tests look at: a small register, records, rejects, counters and alarms.

Written through the store port into a real SQLite store; alarms are handed out by a reader over a list,
because the operations store belongs to another package and the port is ours.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.alarm_states import AlarmState, RuleVerdicts
from bus.contracts.alarms import Alarm, Incident, ListedFace, ReadingPrice
from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.register import (
    Checkpoint,
    Device,
    District,
    Register,
    Road,
    RoadPiece,
    encode_register,
)
from bus.domain.visibility import Viewer, concerns, may_see
from ingest.store.open import open_store
from ingest.store.port import (
    PageRequest,
    Position,
    RecordRow,
    RejectedRow,
    StoreBatch,
    cursor_numbers,
)
from monitor.models.histogram import Buckets, bucket_of
from monitor.models.latency import latency_window

ZONE = ZoneInfo("Asia/Shanghai")
MINUTE_MS = 60_000
ROADS = (
    ("中山路", "Zhongshan Road"),
    ("解放路", "Jiefang Road"),
    ("人民路", "Renmin Road"),
    ("滨江大道", "Riverside Avenue"),
    ("文化路", "Wenhua Road"),
    ("湖滨街", "Lakeside Street"),
)
COLOURS = ("白色", "黑色", "银色", "红色", "蓝色")
BRANDS = (("大众", "朗逸"), ("Jeep", "2014 指南者 2.4L"), ("丰田", "卡罗拉"), ("比亚迪", "秦 PLUS"))
TYPES = ("轿车", "SUV", "面包车", "货车")
CLOCKS_OFF_MS = {"10.7.0.1": -11_000_000, "10.7.0.2": 90_000}  # positive: ahead
CREEPING = "10.7.0.9"  # `plant_clock`
EMPTY_MINUTES = range(120, 180)  # before now, in which nothing was counted


def register() -> Register:
    """36 crossings on a grid of 12 roads in three districts."""
    districts = tuple(
        District(district_id=f"d{i}", name=n, name_en=e)
        for i, (n, e) in enumerate(
            (("上城区", "Shangcheng"), ("西湖区", "Xihu"), ("滨江区", "Binjiang"))
        )
    )
    checkpoints = []
    for i, (name, name_en) in enumerate(ROADS):
        for j, (cross, cross_en) in enumerate(ROADS):
            checkpoints.append(
                Checkpoint(
                    checkpoint_id=f"330100#{i}#{j}#0",
                    name=f"{name}{j + 1}号路口" if i == j else f"{name}与东{cross}路口",
                    name_en=f"{name_en} / East {cross_en}",
                    district_id=f"d{i // 2}",
                    latitude=30.22 + i * 0.012 + 0.002 * (j % 3),
                    longitude=120.12 + j * 0.016 + 0.002 * (i % 2),
                )
            )
    by = {c.checkpoint_id: c for c in checkpoints}
    roads = [
        Road(
            name=n,
            name_en=e,
            line=tuple(
                (by[f"330100#{i}#{j}#0"].latitude, by[f"330100#{i}#{j}#0"].longitude)
                for j in range(6)
            ),
            pieces=tuple(
                RoadPiece(begin=f"330100#{i}#{j}#0", end=f"330100#{i}#{j + 1}#0", length_m=700)
                for j in range(5)
            ),
        )
        for i, (n, e) in enumerate(ROADS)
    ]
    roads += [
        Road(
            name=f"东{n}",
            name_en=f"East {e}",
            line=tuple(
                (by[f"330100#{i}#{j}#0"].latitude, by[f"330100#{i}#{j}#0"].longitude)
                for i in range(6)
            ),
        )
        for j, (n, e) in enumerate(ROADS)
    ]
    devices = tuple(
        Device(
            camera_ip=f"10.1.{k // 36}.{k % 36 + 1}",
            checkpoint_id=checkpoints[k % 36].checkpoint_id,
            kind="face" if k >= 36 else "vehicle",
            recognizer_ip="" if k % 3 == 0 else f"10.9.0.{k % 4 + 1}",
        )
        for k in range(54)
    ) + tuple(
        Device(camera_ip=ip, checkpoint_id=checkpoints[k].checkpoint_id, kind="vehicle")
        for k, ip in enumerate(CLOCKS_OFF_MS)
    )
    return Register(
        site="main",
        districts=districts,
        checkpoints=tuple(checkpoints),
        devices=devices,
        roads=tuple(roads),
    )


def picture(name: str, folder: Path) -> str:
    """A small PNG in the picture store; its address as the edge writes it."""
    shade = zlib.crc32(name.encode()) & 0xFF
    width, height = 96, 60
    rows = b"".join(
        b"\0"
        + b"".join(bytes((shade, (x * 2 + shade) % 200, 90 + (y * 2) % 120)) for x in range(width))
        for y in range(height)
    )
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in chunks
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(data)
    return f"http://127.0.0.1:8650/pictures/{name}.png"


def wire_time(time_ms: int) -> str:
    """As devices write it."""
    return (
        datetime.fromtimestamp(time_ms / 1000, ZONE).strftime("%Y-%m-%d %H:%M:%S.")
        + f"{time_ms % 1000:03d}"
    )


def vehicle_body(
    dice: random.Random, device: Device, captured_at_ms: int, plate: str, url: str
) -> dict[str, str]:
    """A vehicle record as a device writes it."""
    brand, series = dice.choice(BRANDS)
    body = {
        "卡口编号": device.checkpoint_id,
        "车牌号码": plate,
        "车牌颜色": "蓝色",
        "车辆颜色": dice.choice(COLOURS),
        "车型类别": dice.choice(TYPES),
        "车辆品牌": brand,
        "车系": series,
        "年检标识": "是",
        "纸巾盒": "否",
        "驾驶位是否系安全带": "是",
        "副驾驶位是否系安全带": "否",
        "抓拍时间": wire_time(captured_at_ms),
        "抓拍设备地址": device.camera_ip,
        "后端图片识别服务器地址": device.recognizer_ip,
    }
    return body | ({"车辆图片地址": url} if url else {})


def plate(dice: random.Random) -> str:
    """A plate of the province."""
    return "浙A" + "".join(dice.choice("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789") for _ in range(5))


def fill_store(data_path: Path, *, now_ms: int, records: int = 1200, seed: int = 1) -> None:
    """Six hours of records, counters, latency and a device that garbles a quarter of its JSON."""
    dice, reg = random.Random(seed), register()
    data_path.mkdir(parents=True, exist_ok=True)
    (data_path / "register.json").write_bytes(encode_register(reg))
    urls = [picture(f"car-{i}", data_path / "pictures") for i in range(12)]
    (data_path / "store").mkdir(exist_ok=True)
    store = open_store(f"sqlite://{data_path}/store/records.db", "write")
    rows, latencies, quality = [], [], []
    for i in range(records):
        device = dice.choice(reg.devices[: -len(CLOCKS_OFF_MS)])
        captured = now_ms - 1000 - i * (6 * 3_600_000 // records)
        if now_ms // MINUTE_MS - captured // MINUTE_MS in EMPTY_MINUTES:
            captured -= len(EMPTY_MINUTES) * MINUTE_MS  # a stored record is counted
        rows.append(_row(dice, reg, device, captured, i, dice.choice(urls) if i % 2 else ""))
        quality.append(_counted(rows[-1]))
        latencies.append(
            (
                device.kind,
                reg.district_of(device.checkpoint_id),
                device.camera_ip,
                captured,
                int(dice.lognormvariate(6.2, 0.5)),
            )
        )
    for camera, off_ms in CLOCKS_OFF_MS.items():
        for i in range(120):
            took = int(dice.lognormvariate(6.2, 0.5)) - off_ms
            captured = now_ms - i * 60_000 - took
            latencies.append(("vehicle", "d0", camera, captured, took))
    book = latency_window(keep_minutes=1440)
    by_minute: dict[int, list[tuple[str, str, str, int]]] = {}
    for kind, district, camera, captured, took in latencies:
        by_minute.setdefault((captured + took) // MINUTE_MS, []).append(
            (kind, district, camera, -took)
        )
    for minute, values in by_minute.items():
        cells = cells_of(
            ((k, d, c, minute * MINUTE_MS + t) for k, d, c, t in values), minute * MINUTE_MS
        )
        book.add(cells)
    for minute in sorted(set(range(360)) - set(EMPTY_MINUTES)):
        for k in range(0, 54, 3):
            quality.append(
                _cell(dice, reg.devices[k], now_ms // MINUTE_MS * MINUTE_MS - minute * MINUTE_MS)
            )
    rejected = [_rejected(reg.devices[k % 5], now_ms - k * 40_000, k) for k in range(40)]
    store.apply(
        StoreBatch(
            rows=rows,
            rejected=rejected,
            quality=quality,
            latency=lambda new: [c for m in book.minutes.values() for c in m.values()],
        ),
        [
            Position(
                application="ingest",
                cluster_id="",
                topic="data.vehicle",
                topic_id="",
                partition=0,
                end_offset=10,
            )
        ],
    )
    store.close()


def _row(
    dice: random.Random, reg: Register, device: Device, captured: int, i: int, url: str
) -> RecordRow:
    number = plate(dice) if device.kind == "vehicle" else ""
    body = vehicle_body(dice, device, captured, number, url)
    return RecordRow(
        record_id=f"r-{i:06d}",
        kind=device.kind,
        checkpoint_id=device.checkpoint_id,
        district_id=reg.district_of(device.checkpoint_id),
        camera_ip=device.camera_ip,
        recognizer_ip=device.recognizer_ip,
        captured_at_ms=captured,
        received_at_ms=captured + 80,
        plate_number=number,
        plate_key=number,
        plate_color="蓝色" if number else "",
        vehicle_color=body["车辆颜色"] if number else "",
        vehicle_type=body["车型类别"] if number else "",
        vehicle_brand=body["车辆品牌"] if number else "",
        vehicle_series=body["车系"] if number else "",
        picture_url=url,
        body=msgspec.json.encode(body),
    )


def _cell(dice: random.Random, device: Device, minute_ms: int) -> QualityCell:
    sent = dice.randint(5, 12)
    bad = dice.randint(1, 3) if device.camera_ip in ("10.1.0.1", "10.1.0.7") else 0
    return QualityCell(
        kind=device.kind,
        camera_ip=device.camera_ip,
        recognizer_ip=device.recognizer_ip,
        minute_ms=minute_ms,
        sent=sent,
        arrived=sent,
        valid=sent - bad,
        rejected={"not-json": bad} if bad else {},
        partly_read=sent // 4,
        stored=sent - bad,
    )


def _counted(row: RecordRow) -> QualityCell:
    """What a record that is stored here adds to its cell besides."""
    kind, camera_ip, recognizer_ip, minute_ms = row.quality_key
    return QualityCell(kind=kind, camera_ip=camera_ip, recognizer_ip=recognizer_ip,
                       minute_ms=minute_ms, sent=1, arrived=1, valid=1, rejected={})  # fmt: skip


PLANTED = "10.66.0.1"


def plant_disagreement(data_path: Path, minute_ms: int) -> None:
    """A device of whose 9 records on the bus one is neither valid nor rejected, and of whose 6 valid
    ones two are neither stored nor duplicates; edges have taken 12."""
    store = open_store(f"sqlite://{data_path}/store/records.db", "write")
    cell = QualityCell(kind="vehicle", camera_ip=PLANTED, recognizer_ip="", minute_ms=minute_ms,
                       sent=13, accepted=12, arrived=9, valid=6, rejected={"bad-time": 2},
                       stored=3, duplicates=1)  # fmt: skip
    store.apply(StoreBatch(quality=[cell]), [])
    store.close()


def cells_of(
    latencies: Iterable[tuple[str, str, str, int]], stored_at_ms: int
) -> list[LatencyCell]:
    """Cells of records stored at one moment, each given as (kind, district, camera,
    captured_at_ms).
    """
    counted: dict[tuple[str, str, str], Buckets] = defaultdict(dict)
    for kind, district_id, camera_ip, captured_at_ms in latencies:
        buckets = counted[kind, district_id, camera_ip]
        bucket = bucket_of(stored_at_ms - captured_at_ms)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    minute_ms = stored_at_ms // MINUTE_MS * MINUTE_MS
    return [
        LatencyCell(kind=k, district_id=d, camera_ip=c, minute_ms=minute_ms, buckets=buckets)
        for (k, d, c), buckets in counted.items()
    ]


def plant_clock(data_path: Path, newest_ms: int) -> int:
    """A camera that nobody knows, whose clock is set forwards by 12 s after a hundred minutes, and
    then gains 6 ms a minute for three hundred; when it was set."""
    store = open_store(f"sqlite://{data_path}/store/records.db", "write")
    first_ms = (newest_ms // MINUTE_MS - 400) * MINUTE_MS
    cells = []
    for minute in range(400):
        ahead_ms = 0 if minute < 100 else 12_000 + (minute - 100) * 6
        stored_ms = first_ms + minute * MINUTE_MS
        captured = [stored_ms - 400 - k * 150 + ahead_ms for k in range(5)]
        cells += cells_of((("vehicle", "", CREEPING, at_ms) for at_ms in captured), stored_ms)
    row = RecordRow(
        record_id="creeping", kind="vehicle", checkpoint_id="", district_id="", camera_ip=CREEPING,
        recognizer_ip="", captured_at_ms=first_ms, received_at_ms=first_ms, body=b"{}",
    )  # latencies are those of new rows
    store.apply(StoreBatch(rows=[row], latency=lambda new: cells), [])
    store.close()
    return first_ms + 100 * MINUTE_MS


def _rejected(device: Device, received: int, i: int) -> RejectedRow:
    reason, body = (
        ("not-json", '{"卡口编号": "330100#0#0#0", "车牌号码": "浙A'),
        ("bad-time", '{"抓拍时间": "昨天"}'),
        ("all-unreadable", '{"车牌号码": "识别异常"}'),
    )[i % 3]
    return RejectedRow(
        record_id=f"x-{i:04d}",
        kind="vehicle",
        reason=reason,
        field="抓拍时间" if reason == "bad-time" else "",
        camera_ip=device.camera_ip,
        recognizer_ip=device.recognizer_ip,
        checkpoint_id=device.checkpoint_id,
        source="127.0.0.1",
        received_at_ms=received,
        body=body.encode(),
    )


MISREAD = ReadingPrice(plate="浙B1Z345", read="浙B12345", price=0.512, highest=1.0)
"""Of the third target."""


def alarms(now_ms: int, count: int = 30) -> list[Alarm]:
    """The stolen car on the run and two quieter targets; oldest first."""
    reg, made = register(), []
    rules = (
        ("w-stolen", "被盗车辆 浙AWL999", "critical", "浙AWL999"),
        ("w-cloned", "套牌嫌疑 浙A88K66", "warning", "浙A88K66"),
        ("w-white", "白色 SUV 核查", "info", "浙B12345"),
    )
    for i in range(count):
        rule_id, name, severity, number = rules[0 if i % 3 else (i // 3) % 2 + 1]
        checkpoint = reg.checkpoints[_crossing(i, rule_id == "w-stolen")]
        captured = now_ms - (count - i) * 45_000
        made.append(
            Alarm(
                alarm_id=f"{rule_id}:a-{i}",
                rule_id=rule_id,
                rule_name=name,
                severity=severity,
                record_id=f"r-{i:06d}",
                kind="vehicle",
                checkpoint_id=checkpoint.checkpoint_id,
                captured_at_ms=captured,
                received_at_ms=captured + 80,
                raised_at_ms=captured + 240 + i,
                plate_number=number,
                camera_ip="10.1.0.5",
                picture_url=f"http://127.0.0.1:8650/pictures/car-{i % 12}.png",
                attributes={"vehicle_color": "白色"},
                misread=MISREAD if number == MISREAD.read else None,
            )
        )
    return made


def face_alarm(now_ms: int) -> Alarm:
    """A person of a gallery, before all others."""
    captured = now_ms - 3_600_000
    return Alarm(
        alarm_id="list/wanted:a-face", rule_id="list/wanted", rule_name="在逃人员", severity="critical",
        record_id="r-face", kind="face", checkpoint_id=register().checkpoints[3].checkpoint_id,
        captured_at_ms=captured, received_at_ms=captured + 80, raised_at_ms=captured + 240,
        camera_ip="10.1.0.5", target="list/wanted/P7", record='{"性别": "男"}', attributes={"gender": "男"},
        resembled=ListedFace(
            list_id="wanted", name="在逃人员", version=now_ms, entry="P7", score=0.873412, threshold=0.6,
            model="city-face-128/1", measure="cosine", line=9, list_date="2026-03-01", note="case 7",
            date="2026-02-01", is_overdue=True,
        ),
    )  # fmt: skip


def _crossing(i: int, on_the_run: bool) -> int:
    """The stolen car drives from crossing to neighbouring crossing; others are anywhere."""
    if not on_the_run:
        return (i * 7 + i // 5) % 36
    steps = (0, 1, 7, 8, 14, 13, 19, 20, 21, 15, 16, 22, 28, 27, 33, 34, 35, 29, 23, 17)
    return steps[(i - 1 - i // 3) % len(steps)]


def incidents(now_ms: int) -> list[Incident]:
    """One open, one closed."""
    return [
        Incident(
            incident_id="i-1",
            kind="quality",
            state="open",
            opened_at_ms=now_ms - 900_000,
            camera_ip="10.1.0.7",
            recognizer_ip="10.9.0.3",
            checkpoint_id="330100#1#0#0",
            district_id="d0",
            detail={"sent": "410", "valid": "288"},
        ),
        Incident(
            incident_id="i-2",
            kind="latency",
            state="closed",
            opened_at_ms=now_ms - 9_000_000,
            closed_at_ms=now_ms - 7_500_000,
            district_id="d1",
            detail={"p99_ms": "31000"},
        ),
    ]


class ListedAlarms:
    """The port over lists."""

    def __init__(self, listed: Sequence[Alarm], told: Sequence[Incident]) -> None:
        self._alarms = sorted(listed, key=lambda a: -a.raised_at_ms)
        self._incidents = list(told)

    def alarms(
        self,
        *,
        page: PageRequest,
        viewer: Viewer,
        severity: str = "",
        rule_id: str = "",
        plate: str = "",
        checkpoint_id: str = "",
        raised_from_ms: int = 0,
        raised_until_ms: int = 0,
        stage: str = "",
        owner: str = "",
        changed_from_ms: int = 0,
        kind: str = "",
        district_id: str = "",
        only_concerning: bool = False,
        case: str = "",
        case_target: str = "",
    ) -> tuple[list[Alarm], str]:
        """Newest first; the cursor is an index. Nobody has touched any of them."""
        found = [
            a
            for a in self._alarms
            if severity in ("", a.severity)
            and rule_id in ("", a.rule_id)
            and plate in ("", a.plate_number)
            and checkpoint_id in ("", a.checkpoint_id)
            and a.raised_at_ms >= raised_from_ms
            and (not raised_until_ms or a.raised_at_ms < raised_until_ms)
            and stage in ("", "open", "unfinished") and not owner
            and a.raised_at_ms >= changed_from_ms
            and may_see(viewer, a.visible_to) and kind in ("", a.kind)
            and district_id in ("", a.district_id)
            and case in ("", a.case) and case_target in ("", a.case_target)
            and (not only_concerning or concerns(viewer, a.district_id, a.visible_to))
        ]
        (start,) = cursor_numbers(page.cursor or "0", 1)
        more = len(found) > start + page.limit
        return found[start : start + page.limit], str(start + page.limit) if more else ""

    def alarm(self, alarm_id: str, *, viewer: Viewer) -> Alarm | None:
        """One."""
        found = next((a for a in self._alarms if a.alarm_id == alarm_id), None)
        return found if found is not None and may_see(viewer, found.visible_to) else None

    def alarm_states(self, alarm_ids: Sequence[str]) -> dict[str, AlarmState]:
        """Nobody has touched any."""
        return {}

    def verdicts(self) -> list[RuleVerdicts]:
        """Nobody has judged any."""
        return []

    def incidents(self, *, page: PageRequest, open_only: bool = False) -> tuple[list[Incident], str]:
        """All, on one page."""
        if page.cursor:
            cursor_numbers(page.cursor, 1)
        return [i for i in self._incidents if not open_only or i.state == "open"][: page.limit], ""

    def positions(self, application: str) -> list[Position]:
        """None."""
        return []

    def close(self) -> None:
        """Nothing to release."""
