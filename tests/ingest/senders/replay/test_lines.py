"""Every line becomes one message with an identity of its own, and nothing makes the parser fail."""

from __future__ import annotations

import base64
import os
import random

import msgspec

from ingest.senders.replay.lines import KINDS, parse_line
from ingest.senders.replay.routing import route

SEED = int(os.environ["DATABUS_SEED"])
ZONE = "Asia/Shanghai"
VEHICLE = {
    "卡口编号": "110110#1#0#0", "车牌号码": "浙AWL999", "车辆颜色": "白色",
    "抓拍时间": "2017-08-24 17:25:34", "抓拍设备地址": "192.168.1.1",
}  # fmt: skip


def encoded(message: object) -> bytes:
    return msgspec.json.encode(message)


def test_an_envelope_keeps_id_kind_and_the_very_bytes_of_the_record() -> None:
    body = b'{ "\xe5\x8d\xa1\xe5\x8f\xa3\xe7\xbc\x96\xe5\x8f\xb7" : "c" }'
    line = b'{"kind": "face", "id": "own-1", "record": ' + body + b"}"
    recorded = parse_line(line, "vehicle", "f", 1)
    assert (recorded.kind, recorded.record_id, recorded.body) == ("face", "own-1", body)


def test_raw_bytes_that_are_no_json_survive() -> None:
    line = encoded({"kind": "vehicle", "id": "x", "raw": base64.b64encode(b"\xff{").decode()})
    assert parse_line(line, "", "f", 1).body == b"\xff{"


def test_a_plain_message_is_sent_as_it_is_and_its_keys_tell_the_kind() -> None:
    line = encoded(VEHICLE)
    assert parse_line(line, "", "f", 1).body == line
    kinds = [
        parse_line(encoded(m), "", "f", 1).kind
        for m in (
            VEHICLE,
            {"卡口编号": "c", "人脸特征": "x"},
            {"卡口编号": "c", "目标类别": "person"},
        )
    ]
    assert kinds == ["vehicle", "face", "video"]
    assert parse_line(line, "face", "f", 1).kind == "face"


def test_the_identity_is_the_senders_number_else_the_place_in_the_file() -> None:
    numbered = encoded(VEHICLE | {"记录编号": "7"})
    assert parse_line(numbered, "", "f", 1).record_id == parse_line(numbered, "", "g", 9).record_id
    plain = encoded(VEHICLE)
    ids = {parse_line(plain, "", file, n).record_id for file in "fg" for n in (1, 2)}
    assert len(ids) == 4
    assert parse_line(plain, "", "f", 1) == parse_line(plain, "", "f", 1)


def test_good_lines_go_to_their_topic_by_plate_and_bad_ones_to_quarantine_with_reason() -> None:
    good = route(parse_line(encoded(VEHICLE), "", "f", 1), ZONE)
    assert (good.topic, good.key, good.reason) == ("data.vehicle", "浙AWL999".encode(), "")
    bad = route(parse_line(encoded(VEHICLE | {"抓拍时间": "gestern"}), "", "f", 1), ZONE)
    assert (bad.topic, bad.key, bad.reason) == ("quarantine.records", None, "bad-time")
    assert ("reason", "bad-time") in bad.headers
    assert ("replay", "1") in good.headers


def test_no_line_whatever_makes_the_parser_or_the_judge_fail() -> None:
    rng = random.Random(SEED)
    envelope = encoded({"kind": "vehicle", "id": "x", "record": VEHICLE})
    sources = [envelope, encoded(VEHICLE), b'{"kind":"video","raw":"?"}', b"[" * 3000, b"null"]
    for number in range(2000):
        line = bytearray(rng.choice(sources))
        for _ in range(rng.randrange(4)):
            line[rng.randrange(len(line))] = rng.randrange(256)
        recorded = parse_line(bytes(line[: rng.randrange(1, len(line) + 1)]), "", "f", number)
        assert recorded.kind in KINDS, SEED
        assert recorded.record_id
        route(recorded, ZONE)
