"""Foreign messages become rows of the contract, exactly by Q-0."""

from __future__ import annotations

import json
import random

import pytest

from bus.contracts.keys import RECOGNITION, UNREADABLE
from bus.contracts.register import Checkpoint, District, Register
from bus.domain.parsed_message import ParsedMessage
from ingest.normalise import (
    Envelope,
    normalise,
    normalise_message,
    partition_key,
    rejected_row,
)
from ingest.normalise.diagnostics import explain, guess_kind
from ingest.store.port import RecordRow, RejectedRow

ZONE = "Asia/Shanghai"
BOOK = {
    "卡口编号": "110110#1#0#0", "车牌号码": "浙 AWL999", "车牌颜色": "蓝色", "车辆颜色": "白色", "车型类别": "SUV",
    "车辆品牌": "Jeep", "车系": "2014 指南者 2.4L", "年检标识": "是", "纸巾盒": "是", "驾驶位是否系安全带": "是",
    "副驾驶位是否系安全带": "是", "抓拍时间": "2017-08-24 17:25:34", "抓拍设备地址": "192.168.1.1",
    "后端图片识别服务器地址": "192.168.1.254",
}  # fmt: skip
FACE = {"卡口编号": "1", "抓拍时间": "2017-08-24 17:25:34", "人脸图片地址": "http://x/1.jpg"}
VIDEO = {"卡口编号": "1", "抓拍时间": "2017-08-24 17:25:34", "目标类别": "person"}
ENVELOPE = Envelope(received_at_ms=7, record_id="r-1", source="10.1.1.1")
REGISTER = Register(
    districts=(District(district_id="west", name="西", name_en="West"),),
    checkpoints=(
        Checkpoint(
            checkpoint_id="110110#1#0#0",
            name="",
            name_en="",
            district_id="west",
            latitude=0,
            longitude=0,
        ),
    ),
)


def read(
    message: object, kind: str = "vehicle", envelope: Envelope = ENVELOPE
) -> RecordRow | RejectedRow:
    value = (
        message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
    )
    return normalise(value, kind, envelope, REGISTER, ZONE)


def changed(message: dict[str, object], **changes: object) -> dict[str, object]:
    return {k: v for k, v in {**message, **changes}.items() if v is not ...}


def test_the_books_record_is_valid_and_every_field_is_in_its_place():
    """The sample of the specification, with its space in the plate."""
    row = read(BOOK)
    assert row == RecordRow(
        record_id="r-1", kind="vehicle", checkpoint_id="110110#1#0#0", district_id="west",
        camera_ip="192.168.1.1", recognizer_ip="192.168.1.254", captured_at_ms=1503566734000,
        received_at_ms=7, plate_number="浙 AWL999", plate_key="浙AWL999", plate_color="蓝色",
        vehicle_color="白色", vehicle_type="SUV", vehicle_brand="Jeep", vehicle_series="2014 指南者 2.4L",
        body=json.dumps(BOOK, ensure_ascii=False).encode(),
    )  # fmt: skip
    assert isinstance(row, RecordRow)
    assert partition_key(row) == "浙AWL999".encode()


REJECTED = [
    (b"", "not-json", ""),
    (b"{", "not-json", ""),
    (b'{"a": 1} x', "not-json", ""),
    (b'\xef\xbb\xbf{"a": 1}', "not-json", ""),
    (b"[" * 100_000, "not-json", ""),
    (b"[1]", "not-an-object", ""),
    (b"null", "not-an-object", ""),
    (b'"text"', "not-an-object", ""),
    (json.dumps(BOOK, ensure_ascii=False).encode("gb18030"), "not-utf8", ""),
    (b'{"x": "\xff"}', "not-utf8", ""),
    (b'{"x": "\\ud800"}', "not-json", ""),
    (changed(BOOK, 卡口编号=...), "no-checkpoint", "卡口编号"),
    (changed(BOOK, 卡口编号="  "), "no-checkpoint", "卡口编号"),
    (changed(BOOK, 卡口编号=UNREADABLE), "no-checkpoint", "卡口编号"),
    (changed(BOOK, 卡口编号=["1"]), "no-checkpoint", "卡口编号"),
    (changed(BOOK, 卡口编号="x" * 257), "bad-value", "卡口编号"),
    (changed(BOOK, 抓拍时间=...), "no-time", "抓拍时间"),
    (changed(BOOK, 抓拍时间=None), "no-time", "抓拍时间"),
    (changed(BOOK, 抓拍时间="2017-02-30 00:00:00"), "bad-time", "抓拍时间"),
    (changed(BOOK, 抓拍时间=UNREADABLE), "bad-time", "抓拍时间"),
    ({**BOOK, **dict.fromkeys(RECOGNITION, UNREADABLE)}, "all-unreadable", ""),
]


@pytest.mark.parametrize(("message", "reason", "field"), REJECTED)
def test_what_is_not_valid_is_rejected_with_its_reason(message: object, reason: str, field: str):
    """The reasons are exactly those of Q-0."""
    row = read(message)
    assert isinstance(row, RejectedRow)
    assert (row.reason, row.field, row.record_id, row.source) == (reason, field, "r-1", "10.1.1.1")


VALID = [
    {"卡口编号": "1", "抓拍时间": "2017-08-24 17:25:34"},
    changed(BOOK, 车牌号码="无车牌"),
    changed(BOOK, 车速="fast", 车牌颜色=None, 车系=7),
    changed(BOOK, 卡口编号=110110),
    {**BOOK, **dict.fromkeys(list(RECOGNITION)[:9], UNREADABLE)},
    {
        **dict.fromkeys(list(RECOGNITION)[:9], UNREADABLE),
        "卡口编号": "1",
        "抓拍时间": "2017-08-24 17:25:34",
    },
    changed(BOOK, 抓拍时间="1970-01-19 13:47:16"),
]


@pytest.mark.parametrize("message", VALID)
def test_everything_else_is_valid_however_odd(message: dict[str, object]):
    """Nine unread fields, no plate, odd types: stored, not judged."""
    assert isinstance(read(message), RecordRow)


def test_partly_read_records_are_marked():
    """At least one field unread."""
    partly = read(changed(BOOK, 车系=UNREADABLE))
    assert isinstance(partly, RecordRow)
    assert partly.partly_read
    assert isinstance(whole := read(BOOK), RecordRow)
    assert not whole.partly_read


@pytest.mark.parametrize("key", ["人脸图片地址", "场景图片地址", "人脸特征", "人脸图片"])
def test_a_face_needs_a_picture_or_a_feature(key: str):
    """Each of them is enough; 识别异常 does not count."""
    without = changed(FACE, 人脸图片地址=...)
    assert isinstance(read({**without, key: "abc"}, "face"), RecordRow)
    assert read({**without, key: UNREADABLE}, "face").reason == "no-picture-or-feature"
    message = ParsedMessage(json.dumps(without).encode(), "face")
    beside = normalise_message(message, ENVELOPE, None, ZONE, pictures_beside=True)
    assert isinstance(beside, RecordRow)


def test_a_face_without_recognition_fields_is_not_all_unreadable():
    """The ten fields are a vehicle's; faces are spread by device."""
    row = read(changed(FACE, 抓拍设备地址="10.0.0.9"), "face")
    assert isinstance(row, RecordRow)
    assert (row.kind, row.picture_url, partition_key(row)) == (
        "face",
        "http://x/1.jpg",
        b"10.0.0.9",
    )


@pytest.mark.parametrize(
    ("target", "kind"), [("person", "person"), ("行人", "person"), ("unknown", "mover")]
)
def test_a_track_is_a_person_or_a_mover(target: str, kind: str):
    """Its class decides; all but persons are movers."""
    row = read(changed(VIDEO, 目标类别=target), "video")
    assert isinstance(row, RecordRow)
    assert row.kind == kind


def test_without_a_header_the_place_on_the_bus_is_the_identity():
    """Design: topic-partition-offset."""
    envelope = Envelope(received_at_ms=1, topic="data.vehicle", partition=3, offset=42)
    assert read(BOOK, envelope=envelope).record_id.startswith("data.vehicle-3-42-")
    assert read(b"{", envelope=envelope).record_id.startswith("data.vehicle-3-42-")


def test_a_garbled_record_still_tells_its_device_and_time():
    """A server that truncates its JSON must be identified (Q-3)."""
    text = json.dumps(BOOK, ensure_ascii=False)
    row = read(text[:-5].encode())
    assert isinstance(row, RejectedRow)
    assert (row.reason, row.camera_ip, row.checkpoint_id) == (
        "not-json",
        "192.168.1.1",
        "110110#1#0#0",
    )
    assert row.captured_at_ms == 1503566734000
    assert row.body == text[:-5].encode()


def test_a_quarantined_record_keeps_the_reason_of_its_headers():
    """Records rejected by the edge are not checked again."""
    row = rejected_row(b"{", "vehicle", ENVELOPE, "too-large", "", ZONE)
    assert (row.reason, row.body, row.captured_at_ms) == ("too-large", b"{", 0)


def test_a_tombstone_is_rejected_not_a_crash():
    """A null value from a foreign producer."""
    assert normalise(None, "vehicle", ENVELOPE, None, ZONE).reason == "not-json"  # type: ignore[union-attr]


VALUES: list[object] = [
    "", " ", UNREADABLE, "无车牌", "浙AWL999", "2017-08-24 17:25:34", "2017-08-24 17:25:34.1", 5, -1.5, True,
    None, [], {}, [UNREADABLE], "x" * 300, "识别异常 ", "\u0000", "\U0010ffff", 10**30,
]  # fmt: skip


def test_an_unreadable_message_that_looks_like_utf_16_is_explained():
    """What broke: `json.loads` takes bytes whose first is 0 for UTF-16, and raised another error."""
    for value in (b'\x00"key": " "}', b'{\x00"\x00', b"\x00", b'\x00\x00\x00"', b'"\x00\x00\x00}'):
        assert [fault.level for fault in explain(value, "vehicle", ZONE)] == ["error"], value


def test_a_damaged_message_with_an_endless_number_is_explained():
    """What broke: Python refuses to read a number of more than 4,300 digits."""
    value = b'{"x": ' + b"1" * 5000
    assert [fault.reason for fault in explain(value, "vehicle", ZONE)] == ["not-json"]


def test_any_message_gives_a_verdict_and_the_explanation_agrees(dice: random.Random):
    """Random objects with random damage never raise, and errors are explained exactly for rejected
    ones."""
    keys = [*BOOK, "人脸特征", "人脸图片", "目标类别", "车速", "记录编号", "x"]
    for _ in range(700):
        message = dict(BOOK) if dice.random() < 0.7 else {}
        for key in dice.sample(keys, dice.randrange(5)):
            message[key] = dice.choice(VALUES)  # type: ignore[assignment]
        value = bytearray(json.dumps(message, ensure_ascii=dice.random() < 0.3).encode())
        for _ in range(dice.choice([0, 0, 0, 1, 3])):
            value[dice.randrange(len(value))] = dice.randrange(256)
        kind = dice.choice(["vehicle", "face", "video"])
        row = read(bytes(value), kind)
        errors = [fault for fault in explain(bytes(value), kind, ZONE) if fault.level == "error"]
        assert bool(errors) == isinstance(row, RejectedRow), bytes(value)
        if isinstance(row, RejectedRow):
            assert row.reason in {error.reason for error in errors}, bytes(value)
        assert guess_kind(bytes(value)) in ("vehicle", "face", "video")


def test_the_parser_takes_exactly_what_json_is(dice: random.Random):
    """The fast reader, which skips unneeded fields, is not more lenient than the standard
    library."""
    whole = json.dumps({**BOOK, "x": [1, {"y": [None, "z\\n"]}]}, ensure_ascii=False).encode()
    for _ in range(700):
        value = bytearray(whole)
        at = dice.randrange(len(value))
        if dice.random() < 0.5:
            del value[at : at + dice.randrange(1, 4)]
        else:
            value[at] = dice.choice(b'{}[]",:0e\\ \n\t\x00')
        try:
            json.loads(bytes(value).decode(), parse_constant=float)
            ok = True
        except ValueError:
            ok = False
        row = read(bytes(value))
        broken = isinstance(row, RejectedRow) and row.reason in ("not-json", "not-utf8")
        assert broken == (not ok), bytes(value)
