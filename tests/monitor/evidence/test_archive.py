"""A package of evidence stands by itself: all that it says can be checked with common tools."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.alarms import Alarm, ListedFace, ListedPlate, ReadingPrice
from bus.contracts.register import Checkpoint, Register
from bus.domain.alarm_life import no_state
from ingest.store.port import RecordRow
from monitor.evidence import archive
from monitor.evidence.archive import EvidenceRequest, write_archive
from monitor.evidence.manifest import (
    EvidenceManifest,
    RecordSource,
    evidence_alarm,
    of_alarm,
    of_record,
)
from monitor.i18n import LANGUAGES, texts

ZONE = ZoneInfo("Asia/Shanghai")
MADE_AT = datetime(2026, 11, 29, 22, 0, tzinfo=ZONE)
CAPTURED_MS = 1_760_000_000_000
OURS = "http://edge:8650/pictures/20261129/k-1/r-vehicle.jpg"
ELSEWHERE = "http://camera/1.jpg"
JPEG = b"\xff\xd8\xff" + bytes(range(200))
REGISTER = Register(checkpoints=(Checkpoint(
    checkpoint_id="k-1", name="中山路口", name_en="Zhongshan Rd", district_id="d", latitude=30.0, longitude=120.0,
),))  # fmt: skip


def row(number: int, **changes: object) -> RecordRow:
    body = {"卡口编号": "k-1", "车牌号码": "浙A12345", "车辆图片地址": OURS, "场景图片地址": ELSEWHERE}
    fields = {
        "record_id": f"r-{number}", "kind": "vehicle", "checkpoint_id": "k-1", "district_id": "d",
        "camera_ip": "10.0.0.1", "recognizer_ip": "10.0.1.1", "captured_at_ms": CAPTURED_MS + number,
        "received_at_ms": CAPTURED_MS + 80, "stored_at_ms": CAPTURED_MS + 200, "plate_number": "浙A12345",
        "picture_url": OURS, "body": msgspec.json.encode(body),
    }  # fmt: skip
    return RecordRow(**{**fields, **changes})  # type: ignore[arg-type]


def alarm(**changes: object) -> Alarm:
    fields: dict[str, object] = {
        "alarm_id": "w-1:r-1", "rule_id": "w-1", "rule_name": "<b>被盗</b>", "severity": "critical",
        "record_id": "r-1", "kind": "vehicle", "checkpoint_id": "k-1", "captured_at_ms": CAPTURED_MS,
        "received_at_ms": CAPTURED_MS + 80, "raised_at_ms": CAPTURED_MS + 300, "plate_number": "浙A12345",
        "picture_url": OURS, "record": row(1).body.decode(), "attributes": {"plate_number": "浙A12345"},
    }  # fmt: skip
    return Alarm(**{**fields, **changes})  # type: ignore[arg-type]


def pack(
    sources: list[RecordSource],
    found: Alarm | None = None,
    language: str = "zh",
    pictures: Mapping[str, bytes] = {"20261129/k-1/r-vehicle.jpg": JPEG},
) -> tuple[EvidenceManifest, dict[str, bytes]]:
    def read_picture(name: str) -> tuple[bytes, dict[str, str]] | None:
        return (pictures[name], {}) if name in pictures else None

    target = io.BytesIO()
    asked = EvidenceRequest("north", "li", MADE_AT, {"plate": "浙A12345"})
    why = evidence_alarm(found, ZONE, no_state(found.alarm_id)) if found else None
    manifest = write_archive(target, asked, why, sources, read_picture, texts(language))
    with zipfile.ZipFile(target) as packed:
        assert packed.testzip() is None
        return manifest, {name: packed.read(name) for name in packed.namelist()}


def test_a_package_has_messages_pictures_both_clocks_and_hashes(tmp_path: Path) -> None:
    """`sha256sum --check` agrees, and the manifest is what is read out of the file."""
    manifest, files = pack([of_record(row(n), REGISTER, ZONE) for n in (1, 2)])
    assert msgspec.json.decode(files["manifest.json"], type=EvidenceManifest) == manifest
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert len(checked.stdout.splitlines()) == len(files) - 1
    one = manifest.records[0]
    assert files[one.message] == row(1).body
    assert (one.checkpoint, one.captured_at) == ("中山路口", "2025-10-09T16:53:20.001+08:00")
    assert (one.received_at, one.captured_at_corrected) == ("2025-10-09T16:53:20.080+08:00", "")
    assert [files[picture.file] for picture in one.pictures if picture.file] == [JPEG]
    assert [(p.url, p.missing) for p in one.pictures if not p.file] == [(ELSEWHERE, "kept elsewhere")]


def test_of_a_device_whose_clock_is_off_both_times_are_said() -> None:
    manifest, _ = pack([of_record(row(0, clock_off_ms=3_600_000), REGISTER, ZONE)])
    one = manifest.records[0]
    assert one.captured_at == "2025-10-09T17:53:20.000+08:00"
    assert one.captured_at_corrected == "2025-10-09T16:53:20.000+08:00"


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_alarm_keeps_its_evidence_when_the_store_has_forgotten_the_record(is_stored: bool) -> None:
    """Its own copies of message and pictures."""
    copy = "http://edge:8650/pictures/alarms/20261129/w-1/0.jpg"
    found = alarm(copies={OURS: copy})
    source = of_alarm(found, row(1) if is_stored else None, REGISTER, ZONE)
    manifest, files = pack([source], found, pictures={"alarms/20261129/w-1/0.jpg": b"copy"})
    one = manifest.records[0]
    assert files[one.message] == found.record.encode()
    assert [files[p.file] for p in one.pictures if p.file] == [b"copy"]
    assert bool(one.stored_at) == is_stored
    assert manifest.alarm is not None
    assert manifest.alarm.raised_at == "2025-10-09T16:53:20.300+08:00"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_all_of_it_and_runs_nothing_of_a_device(language: str) -> None:
    found = alarm()
    _, files = pack([of_alarm(found, row(1), REGISTER, ZONE)], found, language)
    page = files["index.html"].decode()
    assert "&lt;b&gt;被盗" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "中山路口" in page
    assert 'src="pictures/001-0.jpg"' in page
    assert all(f"<code>{one}</code>" in page for one in _hashes(files))


@pytest.mark.parametrize(
    ("language", "weight", "text"),
    [("zh", 0.0, "识别为 浙A12345，目标为 浙A1Z345，代价 0.51（上限 1.00）"),
     ("en", 0.0, "read 浙A12345, meant 浙A1Z345, price 0.51 of at most 1.00"),
     ("zh", 0.25, "识别为 候选 浙A12345（25 %），目标为 浙A1Z345，代价 0.51（上限 1.00）"),
     ("en", 0.25, "read candidate 浙A12345 (25 %), meant 浙A1Z345, price 0.51 of at most 1.00")],
)  # fmt: skip
def test_of_a_misread_plate_page_and_manifest_say_which_one_is_meant(
    language: str, weight: float, text: str
) -> None:
    reading = ReadingPrice(plate="浙A1Z345", read="浙A12345", price=0.512, highest=1.0, weight=weight)
    found = alarm(misread=reading)
    manifest, files = pack([of_alarm(found, row(1), REGISTER, ZONE)], found, language)
    assert manifest.alarm is not None
    assert manifest.alarm.misread == reading
    assert text in " ".join(files["index.html"].decode().split())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("weight", "is_overdue"), [(0.0, False), (0.25, True)])
def test_of_a_list_page_and_manifest_name_it_its_line_version_date_and_note(
    language: str, weight: float, is_overdue: bool
) -> None:
    listed = ListedPlate(
        list_id="stolen", name="<i>被盗</i>", version=7, list_date="2026-11-01", line=12, plate="浙A1Z345",
        note="case 7", date="2026-10-30", candidate="浙A1Z345" if weight else "", weight=weight, is_overdue=is_overdue,
    )  # fmt: skip
    found = alarm(listed=listed)
    manifest, files = pack([of_alarm(found, row(1), REGISTER, ZONE)], found, language)
    assert manifest.alarm is not None
    assert manifest.alarm.listed == listed
    assert json.loads(files["manifest.json"])["alarm"]["listed"]["line"] == 12
    page, t = " ".join(files["index.html"].decode().split()), texts(language)
    for name, text in (
        ("detail.listed", "&lt;i&gt;被盗&lt;/i&gt; (stolen)"), ("evidence.list_line", "12: 浙A1Z345 2026-10-30"),
        ("detail.listed_note", "case 7"), ("column.list_date", "2026-11-01"), ("detail.listed_version", "7"),
    ):  # fmt: skip
        assert f"<dt>{t(name)}</dt><dd>{text}</dd>" in page
    assert (t("detail.listed_overdue") in page, t("reading.candidate") in page) == (is_overdue, bool(weight))


@pytest.mark.parametrize(
    ("language", "text"),
    [("zh", "0.873（阈值 0.6，模型 m/1，余弦）"), ("en", "0.873 (threshold 0.6, model m/1, cosine)")],
)  # fmt: skip
def test_of_a_face_page_and_manifest_say_whom_of_which_gallery_it_resembles(language: str, text: str) -> None:
    face = ListedFace(
        list_id="wanted", name="<i>在逃</i>", version=7, entry="P7", score=0.87341, threshold=0.6, model="m/1",
        measure="cosine", line=4, note="case 7", list_date="2026-11-01",
    )  # fmt: skip
    found = alarm(resembled=face)
    manifest, files = pack([of_alarm(found, row(1), REGISTER, ZONE)], found, language)
    assert manifest.alarm is not None
    assert manifest.alarm.resembled == face
    page = " ".join(files["index.html"].decode().split())
    assert text in page
    assert "&lt;i&gt;在逃&lt;/i&gt; (wanted)" in page
    t = texts(language)
    for name, text in (
        ("evidence.list_line", "4: P7 "), ("detail.listed_note", "case 7"), ("column.list_date", "2026-11-01"),
        ("detail.listed_version", "7"),
    ):  # fmt: skip
        assert f"<dt>{t(name)}</dt><dd>{text}</dd>" in page


def _hashes(files: dict[str, bytes]) -> list[str]:
    listed = json.loads(files["manifest.json"])["files"]
    return [one["sha256"] for one in listed if one["name"] != "index.html"]


def test_a_picture_that_cannot_be_read_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleted, the store away, or no room: everything else is packed."""
    monkeypatch.setattr(archive, "MOST_BYTES", len(JPEG))
    manifest, _ = pack([of_record(row(n), REGISTER, ZONE) for n in (1, 2)])
    assert [record.pictures[0].missing[:19] for record in manifest.records] == ["", "the package is full"]
    gone = row(3, picture_url="http://edge/pictures/20261129/k-1/gone.jpg", body=b"{}")
    manifest, _ = pack([of_record(gone, REGISTER, ZONE)])
    assert "deleted after its days" in manifest.records[0].pictures[0].missing

    def away(_: str) -> None:
        raise OSError("no route to host")

    asked = EvidenceRequest("north", "li", MADE_AT, {})
    made = write_archive(
        io.BytesIO(), asked, None, [of_record(row(1), REGISTER, ZONE)], away, texts("en")
    )
    assert "no route to host" in made.records[0].pictures[0].missing


@given(body=st.binary(max_size=200), plate=st.text(max_size=20), url=st.text(max_size=40))
def test_whatever_a_device_wrote_is_packed(body: bytes, plate: str, url: str) -> None:
    source = of_record(row(1, body=body, plate_number=plate, picture_url=url), REGISTER, ZONE)
    manifest, files = pack([source])
    assert files[manifest.records[0].message] == body
