"""One record for every reason for rejection, each with a unique text by which it can be found.

In: a name for the set. Out: bytes with the reason for which they must be rejected. Never: a check.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka

from bus.contracts.headers import Reason
from bus.contracts.keys import RECOGNITION, UNREADABLE
from bus.contracts.meters import Sent
from bus.domain.kinds import TOPIC_OF_KIND
from ingest.settings import EdgeSettings
from ingest.store.port import Counts

CAMERA = "10.99.0.7"  # not a device of the city
TOO_LARGE_BYTES = 600 * 1024  # more than the edge accepts, less than the broker does


class Bad(NamedTuple):
    """A record that must be rejected as `reason`."""

    kind: str
    reason: Reason
    body: bytes


def message(token: str, **changes: Any) -> dict[str, Any]:
    """A valid vehicle record; a change of None leaves the key out."""
    valid = {
        "卡口编号": "330191#9#9#0", "抓拍时间": "2026-03-01 08:00:00.250", "抓拍设备地址": CAMERA,
        "车牌号码": "浙A12345", "车辆颜色": "白色", "备注": token,
    }  # fmt: skip
    return {key: value for key, value in {**valid, **changes}.items() if value is not None}


def encoded(token: str, **changes: Any) -> bytes:
    return json.dumps(message(token, **changes), ensure_ascii=False).encode()


def bad_records(lot: str) -> Iterator[Bad]:
    """One record for each reason."""
    yield Bad(
        "vehicle", Reason.NOT_UTF8, json.dumps(message(lot), ensure_ascii=False).encode("gbk")
    )
    yield Bad("vehicle", Reason.NOT_JSON, encoded(lot)[:-1])
    yield Bad("face", Reason.NOT_AN_OBJECT, json.dumps(lot).encode())
    yield Bad("video", Reason.TOO_LARGE, encoded(lot, 垫="x" * TOO_LARGE_BYTES))
    yield Bad("vehicle", Reason.NO_CHECKPOINT, encoded(lot, 卡口编号=None))
    yield Bad("video", Reason.NO_TIME, encoded(lot, 抓拍时间=None))
    yield Bad("face", Reason.BAD_TIME, encoded(lot, 抓拍时间="yesterday"))
    yield Bad("video", Reason.BAD_VALUE, encoded(lot, 卡口编号="9" * 300))
    nothing_read = dict.fromkeys(RECOGNITION, UNREADABLE)
    yield Bad("vehicle", Reason.ALL_UNREADABLE, encoded(lot, **nothing_read))
    yield Bad("face", Reason.NO_PICTURE_OR_FEATURE, encoded(lot))


def produce(bootstrap: str, records: list[Bad]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failed: list[object] = []
    for bad in records:
        producer.produce(
            TOPIC_OF_KIND[bad.kind], bad.body,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert failed == []


def _counter(kind: str, sent: int) -> dict[str, Any]:
    now_ms = int(time.time() * 1000)
    counter = Sent(
        producer="test", epoch=now_ms, kind=kind, camera_ip=CAMERA,
        minute_ms=now_ms // 60_000 * 60_000, sent=sent,
    )  # fmt: skip
    return {name: getattr(counter, name) for name in counter.__struct_fields__}


def counters_of(records: list[Bad]) -> list[dict[str, Any]]:
    """The producer's counters of sent records, by kind."""
    return [_counter(kind, sent) for kind, sent in Counter(bad.kind for bad in records).items()]


def kept(bad: Bad) -> bytes:
    """Its original bytes, up to the maximum length of a message."""
    return bad.body[: EdgeSettings().max_record_bytes]


def rejected_since(before: Counts, now: Counts) -> Counter[tuple[str, str]]:
    """The number of rejections since `before`, by kind and reason."""

    def counted(counts: Counts) -> Counter[tuple[str, str]]:
        kinds = counts.rejected.items()
        return Counter({(kind, reason): n for kind, by in kinds for reason, n in by.items()})

    return counted(now) - counted(before)
