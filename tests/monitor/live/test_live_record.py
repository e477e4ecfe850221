"""Messages of the data topics to live rows."""

from __future__ import annotations

import json
import random
from zoneinfo import ZoneInfo

from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, DATA_VIDEO
from monitor.live.live_record import (
    MAX_TEXT_CHARACTERS,
    LiveRecord,
    parse_device_time,
    parse_live_record,
)

ZONE = ZoneInfo("Asia/Shanghai")


def see(body: bytes, topic: str = DATA_VEHICLE) -> LiveRecord | None:
    return parse_live_record(topic, body, record_id="r", received_at_ms=5, zone=ZONE)


def test_a_vehicle_record_of_the_book_becomes_a_row() -> None:
    """With the site's clock turned into epoch milliseconds."""
    row = see(
        '{"卡口编号": "110110#1#0#0", "车牌号码": "浙AWL999", "车辆颜色": "白色", "车型类别": "SUV",'
        '"抓拍时间": "2017-08-24 17:25:34", "车辆图片地址": "http://e/pictures/1.jpg"}'.encode()
    )
    assert row is not None
    assert (row.kind, row.checkpoint_id, row.plate_number) == (
        "vehicle",
        "110110#1#0#0",
        "浙AWL999",
    )
    assert row.captured_at_ms == 1503566734000
    assert row.features == {"vehicle_color": "白色", "vehicle_type": "SUV"}
    assert row.picture_url == "http://e/pictures/1.jpg"


def test_a_track_is_a_person_or_a_mover_and_a_face_a_face() -> None:
    """The class is the device's word."""
    for topic, target, kind in (
        (DATA_VIDEO, "person", "person"),
        (DATA_VIDEO, "unknown", "mover"),
        (DATA_FACE, "", "face"),
    ):
        row = see(json.dumps({"目标类别": target}).encode(), topic)
        assert row is not None
        assert row.kind == kind


def test_times_of_devices() -> None:
    """Milliseconds are kept; what cannot be read is 0."""
    assert parse_device_time("2017-08-24 17:25:34.123", ZONE) == 1503566734123
    for text in ("", "昨天", "2017-13-01 00:00:00", "0000-00-00 00:00:00", "9" * 400):
        assert parse_device_time(text, ZONE) == 0


def test_nothing_a_sender_writes_raises_or_grows_without_bound() -> None:
    """Property: random damage to a record gives a row or None, and rows are small."""
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    good = json.dumps(
        {
            "卡口编号": "1#2",
            "车牌号码": "浙A12345",
            "车系": "长" * 5000,
            "抓拍时间": "2017-08-24 17:25:34",
            "x": [1, {"y": None}],
        },
        ensure_ascii=False,
    ).encode()
    for _ in range(2000):
        damaged = bytearray(good)
        for _ in range(dice.randint(0, 5)):
            at = dice.randrange(len(damaged))
            damaged[at : at + dice.randint(0, 8)] = dice.randbytes(dice.randint(0, 6))
        row = see(bytes(damaged), dice.choice((DATA_VEHICLE, DATA_FACE, DATA_VIDEO)))
        if row is not None:
            assert all(len(v) <= MAX_TEXT_CHARACTERS for v in row.features.values()), f"seed {seed}"


def test_json_that_is_no_record_is_none() -> None:
    """Lists, numbers, half an object, nothing."""
    for body in (b"[]", b"1", b"{", b"", b"null", b"\xff", b"[" * 100_000):
        assert see(body) is None
