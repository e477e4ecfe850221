"""One record for every reason to reject it, each with a text of its own to find it by.

In: a name for the lot. Out: bytes with the reason they must be rejected for. Never: judging them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from bus.contracts.headers import Reason
from bus.contracts.keys import RECOGNITION, UNREADABLE

CAMERA = "10.99.0.7"  # no device of the city
TOO_LARGE_BYTES = 600 * 1024  # more than the edge takes, less than the broker does


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
    """All reasons once."""
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
