"""Every fault of a message in words, for the vendor who wrote it (`check-message`). Pure.

In: a message's bytes. Out: `Fault`s: errors reject the record, warnings lose something of it.
Never: another opinion than `normalise`: there is an error here exactly when it rejects (a test sees
to it).
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import unicodedata
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from bus.contracts import keys
from bus.contracts.headers import Reason
from bus.contracts.plates import plate_key, says_no_plate
from ingest.normalise.faults import texts
from ingest.normalise.local_time import BadTime, local_time
from ingest.normalise.record import MAX_CHECKPOINT_CHARACTERS
from ingest.normalise.wire import Unreadable, as_text, read_object

KEYS_OF_KIND = {"vehicle": keys.VEHICLE, "face": keys.FACE, "video": keys.VIDEO}
_NUMBERS = {
    "车速": (0, 400),
    "车牌置信度": (0, 100),
    "置信度": (0, 100),
    "年龄下限": (0, 150),
    "年龄上限": (0, 150),
}
_NOT_TEXT = frozenset(_NUMBERS) | {"目标框", "车牌逐字置信度", "设备流水号", "目标编号", "车道编号"}
_FACE_PICTURES = ("人脸特征", "人脸图片地址", "场景图片地址", "人脸图片", "场景图片")
_FLOAT_BYTES = 4


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where."""

    level: Literal["error", "warning"]
    reason: str
    field: str
    message: str
    message_zh: str


def guess_kind(value: bytes) -> str:
    """What the message seems to be, where its sender does not say."""
    try:
        found = read_object(value).keys()
    except Unreadable:
        return "vehicle"
    own = {
        "vehicle": keys.RECOGNITION.keys(),
        "face": keys.FACE.keys() - keys.VEHICLE.keys() | {"人脸图片"},
        "video": keys.VIDEO.keys() - keys.VEHICLE.keys() | {"目标图片"},
    }
    return max(own, key=lambda kind: len(found & own[kind]))


def explain(value: bytes, kind: str, zone: str) -> list[Fault]:
    """All faults, errors first."""
    faults = list(_faults(value, kind, zone))
    return sorted(faults, key=lambda fault: fault.level != "error")


def _faults(value: bytes, kind: str, zone: str) -> Iterator[Fault]:
    try:
        found = read_object(value)
    except Unreadable as error:
        yield _error(error.reason, "", _where(value, error))
        recovered = _from_chinese_encoding(value)
        if recovered:
            yield from _object_faults(recovered, kind, zone)
        return
    yield from _object_faults(found, kind, zone)


def _object_faults(found: dict[str, Any], kind: str, zone: str) -> Iterator[Fault]:
    yield from _checkpoint(found)
    yield from _time(found, zone)
    if kind == "vehicle":
        yield from _recognition(found)
    if kind == "face":
        yield from _face(found)
    yield from _pictures(found)
    yield from _types(found, kind)
    yield from _unknown_keys(found, kind)
    if not as_text(found.get("抓拍设备地址")).strip():
        yield _warning(
            "抓拍设备地址",
            "The device's address is missing: nobody can find the device when it fails.",
            "缺少抓拍设备地址：设备出故障时无法定位。",
        )


def _checkpoint(found: dict[str, Any]) -> Iterator[Fault]:
    text = as_text(found.get("卡口编号")).strip()
    if not text or text == keys.UNREADABLE:
        yield _error(Reason.NO_CHECKPOINT, "卡口编号")
    elif len(text) > MAX_CHECKPOINT_CHARACTERS:
        yield _error(Reason.BAD_VALUE, "卡口编号", f"longer than {MAX_CHECKPOINT_CHARACTERS}")


def _time(found: dict[str, Any], zone: str) -> Iterator[Fault]:
    text = as_text(found.get("抓拍时间")).strip()
    if not text:
        yield _error(Reason.NO_TIME, "抓拍时间")
        return
    try:
        local_time(zone).to_ms(text)
    except BadTime:
        yield _error(Reason.BAD_TIME, "抓拍时间", f"found {text[:40]!r}")
        return
    if text.startswith(("1970", "1980", "2000-01-01")):
        yield _warning(
            "抓拍时间",
            f"{text}: the device's clock was never set.",
            f"{text}：设备时钟似乎从未校准。",
        )
    if "." not in text:
        yield _warning(
            "抓拍时间",
            "Without milliseconds the latency cannot be measured finely.",
            "没有毫秒，无法精确统计延时。",
        )


def _recognition(found: dict[str, Any]) -> Iterator[Fault]:
    unread = [key for key in keys.RECOGNITION if found.get(key) == keys.UNREADABLE]
    if len(unread) == len(keys.RECOGNITION):
        yield _error(Reason.ALL_UNREADABLE, "")
    elif unread:
        listed = "、".join(unread)
        yield _warning(
            listed, "Unread: stored, counted as partly read.", "未识别：入库，计为部分识别。"
        )
    plate = as_text(found.get("车牌号码"))
    if not says_no_plate(plate) and not plate_key(plate):
        yield _warning(
            "车牌号码",
            f"{plate[:20]!r} names no vehicle (masked or unread characters); no rule matches it.",
            f"“{plate[:20]}”含未识别或遮盖字符，无法用于布控匹配。",
        )


def _face(found: dict[str, Any]) -> Iterator[Fault]:
    if all(as_text(found.get(k)).strip() in ("", keys.UNREADABLE) for k in _FACE_PICTURES):
        yield _error(Reason.NO_PICTURE_OR_FEATURE, "人脸图片地址")
    feature = as_text(found.get("人脸特征")).strip()
    if feature and feature != keys.UNREADABLE:
        data = _base64(feature)
        if not data or len(data) % _FLOAT_BYTES:
            yield _warning(
                "人脸特征",
                "Not the base64 of little-endian 32-bit floats: it cannot be compared.",
                "不是小端 32 位浮点数的 base64：无法比对。",
            )
        if not as_text(found.get("特征模型")).strip():
            yield _warning(
                "特征模型",
                "Without the model's name the feature cannot be compared.",
                "没有特征模型名称，特征无法比对。",
            )


def _pictures(found: dict[str, Any]) -> Iterator[Fault]:
    for key in keys.INLINE_PICTURES:
        if key in found and not _base64(as_text(found[key]).rpartition(",")[2]):
            yield _warning(key, "Not base64: the picture is lost.", "不是 base64：图片丢失。")


def _types(found: dict[str, Any], kind: str) -> Iterator[Fault]:
    """Known keys whose value is of another type, or a number out of its range."""
    for key in KEYS_OF_KIND[kind]:
        value = found.get(key)
        if key in _NUMBERS:
            yield from _number(key, value)
        elif value is not None and not isinstance(value, str) and key not in _NOT_TEXT:
            read = as_text(value)
            yield _warning(
                key,
                f"Should be text; {'read as ' + repr(read) if read else 'ignored'}.",
                f"应为文本；{'按 ' + read + ' 读取' if read else '被忽略'}。",
            )


def _number(key: str, value: Any) -> Iterator[Fault]:
    if value is None or value in ("", keys.UNREADABLE):
        return
    low, high = _NUMBERS[key]
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not low <= number <= high:
        yield _warning(
            key, f"Should be a number from {low} to {high}.", f"应为 {low} 到 {high} 之间的数字。"
        )


def _unknown_keys(found: dict[str, Any], kind: str) -> Iterator[Fault]:
    """Unknown keys are kept; only those that look like a slip of the pen are worth a word."""
    known = [*KEYS_OF_KIND[kind], *keys.INLINE_PICTURES]
    absent = [key for key in known if key not in found]
    for key in found.keys() - set(known):
        plain = unicodedata.normalize("NFKC", key).strip()
        near = [plain] if plain in absent else difflib.get_close_matches(plain, absent, 1, 0.75)
        if near:
            yield _warning(
                key, f"Unknown key; did you mean {near[0]}?", f"未知的键；是否应为“{near[0]}”？"
            )


def _where(value: bytes, error: Unreadable) -> str:
    """The place of the damage, as an editor shows it."""
    if error.reason is Reason.NOT_UTF8:
        return _utf8_place(value)
    if value.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark; leave it out"
    try:
        json.loads(value)
    except json.JSONDecodeError as damage:
        return f"{damage.msg}, line {damage.lineno}, column {damage.colno}"
    except RecursionError:
        return "nested too deeply"
    return str(error)


def _utf8_place(value: bytes) -> str:
    try:
        value.decode()
    except UnicodeDecodeError as damage:
        guess = "; it reads as GB18030" if _from_chinese_encoding(value) else ""
        return f"byte {damage.start}{guess}"
    return ""


def _from_chinese_encoding(value: bytes) -> dict[str, Any]:
    """The object a GB18030 device meant, so that its other faults are told at once."""
    try:
        return read_object(value.decode("gb18030").encode())
    except (UnicodeDecodeError, Unreadable):
        return {}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _error(reason: Reason, field: str, detail: str = "") -> Fault:
    english, chinese = texts(reason.value)
    more = f" ({detail})" if detail else ""
    return Fault(
        level="error",
        reason=reason.value,
        field=field,
        message=english + more,
        message_zh=chinese + more,
    )


def _warning(field: str, message: str, message_zh: str) -> Fault:
    return Fault(level="warning", reason="", field=field, message=message, message_zh=message_zh)
