"""Faces of a few people in a store that a console shows, newest first, a minute apart."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
from console_city import picture, register, wire_time

from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch
from tests.alarm.lists.made_galleries import feature, text_of, unit

MODEL, DIMENSIONS = "city-face-128/1", 128
PEOPLE = 4
UNKNOWN = "face-unknown"
"""A record of a model that nobody knows."""


def face_id(number: int) -> str:
    """Of the one so many minutes ago; its person is the rest by `PEOPLE`."""
    return f"face-{number:04d}"


def person(number: int) -> bytes:
    """As a gallery would have it."""
    return feature(unit(DIMENSIONS, number))


def plant_faces(data_path: Path, now_ms: int, faces: int) -> None:
    """Captures of one person resemble one another by 0.85 or more, those of two by less than 0.5."""
    dice = random.Random(5)
    urls = [picture(f"face-{one}", data_path / "pictures") for one in range(PEOPLE)]
    rows = [_row(dice, now_ms, number, urls[number % PEOPLE]) for number in range(faces)]
    other = msgspec.json.decode(rows[0].body) | {"特征模型": "nobody/1"}
    unknown = msgspec.structs.replace(rows[0], record_id=UNKNOWN, body=msgspec.json.encode(other))
    store = open_store(f"sqlite://{data_path}/store/records.db", "write")
    store.apply(StoreBatch(rows=[*rows, unknown]), [])
    store.close()


def _row(dice: random.Random, now_ms: int, number: int, url: str) -> RecordRow:
    captured_ms = now_ms - number * 60_000
    checkpoint = dice.choice(register().checkpoints)
    noise = np.random.default_rng(number).standard_normal(DIMENSIONS) * 0.02
    own = feature(unit(DIMENSIONS, number % PEOPLE) + noise)
    body = {
        "卡口编号": checkpoint.checkpoint_id, "抓拍时间": wire_time(captured_ms), "人脸特征": text_of(own),
        "特征模型": MODEL, "人脸图片地址": url, "抓拍设备地址": "10.1.1.1",
    }  # fmt: skip
    return RecordRow(
        record_id=face_id(number), kind="face", checkpoint_id=checkpoint.checkpoint_id,
        district_id=checkpoint.district_id, camera_ip="10.1.1.1", recognizer_ip="", captured_at_ms=captured_ms,
        received_at_ms=captured_ms + 80, picture_url=url, body=msgspec.json.encode(body),
    )  # fmt: skip
