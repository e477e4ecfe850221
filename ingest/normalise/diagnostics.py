"""Every fault of a message in words, for the vendor who wrote it (`check-message`). Pure.

In: a message's bytes. Out: `Diagnostic`s: errors reject the record, warnings lose something of it.
Never: another opinion than `normalise`: there is an error here exactly when it rejects (a test sees
to it).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from bus.contracts import keys
from bus.contracts.headers import Reason
from bus.domain import kinds
from bus.domain.device_message import Unreadable, as_text, read_object
from bus.domain.kinds import COMMON_KIND, KEYS_OF_KIND
from bus.domain.parsed_message import ParsedMessage
from bus.domain.plates import is_doubtful, left_out, means_no_plate, plate_form, plate_key
from bus.domain.times import BadTime, local_time
from ingest.normalise.clock import DEFAULT, FIRST_TRUE_MS, ClockLimits, clock_off_ms
from ingest.normalise.field_faults import FieldFault, field_faults
from ingest.normalise.foreign import maker_of, maker_of_object, sentences
from ingest.normalise.multipart import boundary_in
from ingest.normalise.record import MAX_CHECKPOINT_CHARACTERS
from ingest.pictures.names import extension

_FACE_PICTURES = ("人脸特征", "人脸图片地址", "场景图片地址", "人脸图片", "场景图片")
_FLOAT_BYTES = 4
_GZIP = b"\x1f\x8b"
_JSON_TYPES_ZH = {"array": "数组", "string": "字符串", "boolean": "布尔值", "number": "数字"}
MAX_PICTURE_BYTES = 8 << 20  # the default of [edge] max_picture_bytes
CLOCK_FIELD, PLATE_FIELD = "抓拍时间", "车牌号码"
MAX_NAMED = 8  # characters of one plate
_OWN_KEYS = frozenset(keys.INLINE_PICTURES).union(*KEYS_OF_KIND.values())
_SMALLEST = (
    '{"卡口编号": "330100#6", "抓拍时间": "2017-08-24 17:25:34.123", "车牌号码": "浙A12345"}'
)
_EXAMPLE = (
    f"none of its keys is one of the bus; an example: {_SMALLEST}; all keys: docs/how-to-send.md",
    f"没有任何约定的键；示例：{_SMALLEST}；全部键见 docs/how-to-send.zh.md",
)
_FORM = (
    "it is a multipart form; send it with Content-Type: multipart/form-data; boundary=…, the record"
    " as its part 'record'",
    "这是 multipart 表单；请使用 Content-Type: multipart/form-data; boundary=…，"
    "记录放在 record 部分",
)

# (English, Chinese): one table for the edge's responses, `check-message` and the console.
REASON_TEXTS: dict[Reason, tuple[str, str]] = {
    Reason.NOT_UTF8: (
        "The message is not UTF-8; many devices send GB18030 unless told otherwise.",
        "消息不是 UTF-8 编码；许多设备默认发送 GB18030，请改为 UTF-8。",
    ),
    Reason.NOT_JSON: ("The message is not JSON.", "消息不是合法的 JSON。"),
    Reason.NOT_AN_OBJECT: (
        "A record is a JSON object { … } with the contract's keys.",
        "一条记录必须是包含约定键的 JSON 对象 { … }。",
    ),
    Reason.TOO_LARGE: (
        "The record is larger than allowed; pictures belong beside it, not inside other fields.",
        "记录超过允许的大小；图片应随记录另行发送，不要放在其他字段里。",
    ),
    Reason.NO_CHECKPOINT: (
        "卡口编号 (the checkpoint) is missing or unread.",
        "缺少卡口编号，或未识别。",
    ),
    Reason.NO_TIME: ("抓拍时间 (the capture time) is missing.", "缺少抓拍时间。"),
    Reason.BAD_TIME: (
        "抓拍时间 must be local time as 2017-08-24 17:25:34 or 2017-08-24 17:25:34.123.",
        "抓拍时间必须是本地时间，格式如 2017-08-24 17:25:34 或 2017-08-24 17:25:34.123。",
    ),
    Reason.BAD_VALUE: (
        "A known field has a value of a wrong type or length.",
        "已知字段的值类型或长度不正确。",
    ),
    Reason.ALL_UNREADABLE: (
        "All ten recognition fields read 识别异常: nothing was recognised.",
        "十个识别字段全部为“识别异常”：没有识别出任何内容。",
    ),
    Reason.NO_PICTURE_OR_FEATURE: (
        "A face record needs a picture (人脸图片地址, 场景图片地址) or a feature (人脸特征).",
        "人脸记录必须有图片（人脸图片地址、场景图片地址）或人脸特征。",
    ),
    Reason.REFUSED: (
        "The whole request was refused; its field says why, its source who sent it.",
        "整个请求被拒绝；原因见字段，发送方见来源。",
    ),
}


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where."""

    level: Literal["error", "warning"]
    reason: str
    field: str
    message: str
    message_zh: str


def guess_kind(value: bytes) -> str:
    """What the message seems to be, where its sender does not say."""
    try:
        return kinds.guess_kind(read_object(value))
    except Unreadable:
        return COMMON_KIND


class MessageContext(NamedTuple):
    """What a message is judged by, besides its bytes. An arrival of 0 is unknown."""

    kind: str
    zone: str
    received_at_ms: int = 0
    clock: ClockLimits = DEFAULT
    replayed: bool = False
    max_picture_bytes: int = MAX_PICTURE_BYTES


def explain(
    value: bytes,
    kind: str,
    zone: str,
    *,
    received_at_ms: int = 0,
    clock: ClockLimits = DEFAULT,
    replayed: bool = False,
    max_picture_bytes: int = MAX_PICTURE_BYTES,
) -> list[Diagnostic]:
    """All faults, errors first."""
    given = MessageContext(kind, zone, received_at_ms, clock, replayed, max_picture_bytes)
    return explain_message(ParsedMessage(value, kind), given)


def explain_message(message: ParsedMessage, given: MessageContext) -> list[Diagnostic]:
    """As `explain`, of a message that others read, too. `given` says of which kind it is taken to
    be."""
    return sorted(_faults(message, given), key=lambda fault: fault.level != "error")


def losses(
    message: ParsedMessage, given: MessageContext, faults_of_fields: Iterable[FieldFault]
) -> list[Diagnostic]:
    """Only what is lost or changed of a record that is valid; for the edge's answers."""
    found = message.object()
    faults = [*_repeated(message.value), *_pictures(found, given.max_picture_bytes)]
    text = as_text(found.get(CLOCK_FIELD)).strip()
    faults += _clock(text, local_time(given.zone).to_ms(text), given)
    if kinds.KINDS[given.kind].has_plate:
        faults += plate_left_out(found)
    return [*faults, *(_warning(*fault) for fault in faults_of_fields)]


def _faults(message: ParsedMessage, given: MessageContext) -> Iterator[Diagnostic]:
    value = message.value
    try:
        found = message.object()
    except Unreadable as error:
        maker = maker_of(value)
        if maker:
            yield _of_maker(error.reason, "", maker)
            return
        yield _error(error.reason, "", *_where(value, error))
        recovered = _from_chinese_encoding(value)
        if recovered:
            yield from _object_faults(recovered, given)
        return
    maker = maker_of_object(found)
    if maker:  # every other fault would only say again that it is none of our messages
        yield _of_maker(Reason.NO_CHECKPOINT, "卡口编号", maker)
        return
    if not _OWN_KEYS.intersection(found):
        yield _error(Reason.NO_CHECKPOINT, "卡口编号", *_EXAMPLE)
        return
    yield from _repeated(value)
    yield from _object_faults(found, given)


def _object_faults(found: dict[str, object], given: MessageContext) -> Iterator[Diagnostic]:
    kind = given.kind
    yield from _checkpoint(found)
    yield from _time(found, given)
    if kind in _OF_KIND:
        yield from _OF_KIND[kind](found)
    yield from _pictures(found, given.max_picture_bytes)
    for fault in field_faults(found, kind):  # as the edge tells of them too
        yield _warning(*fault)
    if not as_text(found.get("抓拍设备地址")).strip():
        yield _warning(
            "抓拍设备地址",
            "The device's address is missing: nobody can find the device when it fails.",
            "缺少抓拍设备地址：设备出故障时无法定位。",
        )


def _checkpoint(found: dict[str, object]) -> Iterator[Diagnostic]:
    text = as_text(found.get("卡口编号")).strip()
    if not text or text == keys.UNREADABLE:
        yield _error(Reason.NO_CHECKPOINT, "卡口编号")
    elif len(text) > MAX_CHECKPOINT_CHARACTERS:
        most = MAX_CHECKPOINT_CHARACTERS
        yield _error(Reason.BAD_VALUE, "卡口编号", f"longer than {most}", f"超过 {most} 个字符")


def _repeated(value: bytes) -> Iterator[Diagnostic]:
    """Keys that the object has twice: readers disagree which one counts."""
    pairs: list[tuple[str, object]] = []

    def note(found: list[tuple[str, object]]) -> dict[str, object]:
        pairs[:] = found  # the outermost object is the last one to be closed
        return {}

    try:
        json.loads(value.decode(), object_pairs_hook=note, parse_int=str)
    except (ValueError, RecursionError):  # numbers and depths that only the faster reader takes
        return
    for key, times in Counter(key for key, _ in pairs).items():
        if times > 1:
            yield _warning(
                key,
                f"The key stands here {times} times; the last one counts.",
                f"该键出现了 {times} 次；以最后一次为准。",
            )


def _time(found: dict[str, object], given: MessageContext) -> Iterator[Diagnostic]:
    text = as_text(found.get("抓拍时间")).strip()
    if not text:
        yield _error(Reason.NO_TIME, "抓拍时间")
        return
    try:
        captured_at_ms = local_time(given.zone).to_ms(text)
    except BadTime:
        found_text = repr(text[:40])
        yield _error(Reason.BAD_TIME, "抓拍时间", f"found {found_text}", f"收到的是 {found_text}")
        return
    yield from _clock(text, captured_at_ms, given)
    if "." not in text:
        yield _warning(
            "抓拍时间",
            "Without milliseconds the latency cannot be measured finely.",
            "没有毫秒，无法精确统计延时。",
        )


def _clock(text: str, captured_at_ms: int, given: MessageContext) -> Iterator[Diagnostic]:
    if captured_at_ms < FIRST_TRUE_MS:
        yield _warning(
            CLOCK_FIELD,
            f"{text}: the device's clock was never set; the record is ordered by its arrival.",
            f"{text}：设备时钟似乎从未校准；该记录按到达时间排序。",
        )
        return
    off_ms = clock_off_ms(
        captured_at_ms, given.received_at_ms, given.clock, replayed=given.replayed
    )
    if off_ms:
        hours = f"{abs(off_ms) / 3_600_000:,.1f}"
        where, where_zh = ("ahead of", "超前") if off_ms > 0 else ("behind", "落后")
        yield _warning(
            CLOCK_FIELD,
            f"{text}: a clock fault, {hours} h {where} the arrival; ordered by the arrival.",
            f"{text}：设备时钟故障，比到达时间{where_zh} {hours} 小时；该记录按到达时间排序。",
        )


def _recognition(found: dict[str, object]) -> Iterator[Diagnostic]:
    unread = [key for key in keys.RECOGNITION if found.get(key) == keys.UNREADABLE]
    if len(unread) == len(keys.RECOGNITION):
        yield _error(Reason.ALL_UNREADABLE, "")
    elif unread:
        listed = "、".join(unread)
        yield _warning(
            listed, "Unread: stored, counted as partly read.", "未识别：入库，计为部分识别。"
        )
    yield from plate_left_out(found)
    yield from _unread_plate(as_text(found.get(PLATE_FIELD)))


def plate_left_out(found: dict[str, Any]) -> Iterator[Diagnostic]:
    """What of a plate is no part of it: kept in the record, in no search, rule or key."""
    gone = left_out(as_text(found.get(PLATE_FIELD)))
    if gone:
        listed = ", ".join(gone[:MAX_NAMED]) + (" …" if len(gone) > MAX_NAMED else "")
        yield _warning(
            PLATE_FIELD,
            f"{listed}: no letter or digit, left out of the plate for rules and search.",
            f"{listed}：不是字母或数字，布控和检索时已从车牌中去除。",
        )


def _unread_plate(plate: str) -> Iterator[Diagnostic]:
    printable = "".join(sign if sign.isprintable() else "\ufffd" for sign in plate[:20])
    if is_doubtful(plate_form(plate)):
        yield _warning(
            PLATE_FIELD,
            f"{printable!r}: the hyphen may separate or stand for an unread character; rules and"
            " search find it by either, an alarm says that it is doubtful.",
            f"“{printable}”中的连字符可能是分隔符，也可能表示未识别字符；布控和检索两种都匹配，"
            "告警注明存疑。",
        )
    elif not means_no_plate(plate) and not plate_key(plate):
        yield _warning(
            PLATE_FIELD,
            f"{printable!r} names no vehicle (masked or unread characters); no rule matches it.",
            f"“{printable}”含未识别或遮盖字符，无法用于布控匹配。",
        )


def _face(found: dict[str, Any]) -> Iterator[Diagnostic]:
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


# What is said of a kind beyond place, time, types and keys.
_OF_KIND: dict[str, Callable[[dict[str, object]], Iterator[Diagnostic]]] = {
    "vehicle": _recognition,
    "face": _face,
}


def _pictures(found: dict[str, Any], max_bytes: int) -> Iterator[Diagnostic]:
    for key in keys.INLINE_PICTURES:
        value = found.get(key)
        if value is None:
            continue  # no picture, and none was meant
        data = _base64(as_text(value).rpartition(",")[2])
        if data or value == "":
            yield from picture_faults(key, data, max_bytes)
        else:
            yield _warning(key, "Not base64: the picture is lost.", "不是 base64：图片丢失。")


def picture_faults(key: str, data: bytes, max_bytes: int) -> Iterator[Diagnostic]:
    """What is wrong with the bytes of a picture that came in a record or beside it."""
    if not data:
        yield _warning(key, "Empty: there is no picture.", "内容为空：没有图片。")
    elif len(data) > max_bytes:
        yield _warning(
            key,
            f"{len(data)} bytes, more than {max_bytes}: the picture is lost.",
            f"{len(data)} 字节，超过 {max_bytes} 字节：图片丢失。",
        )
    elif extension(data) == "bin":
        yield _warning(
            key,
            "Not JPEG, PNG, GIF, BMP or WebP: kept as bytes, shown nowhere as a picture.",
            "不是 JPEG、PNG、GIF、BMP 或 WebP：按原始字节保存，无法作为图片显示。",
        )


def _where(value: bytes, error: Unreadable) -> tuple[str, str]:
    """The place of the damage, as an editor shows it: (English, Chinese)."""
    if boundary_in(value):
        return _FORM
    if error.reason is Reason.NOT_UTF8:
        return _utf8_place(value)
    if error.reason is Reason.NOT_AN_OBJECT:
        kind = str(error).rpartition(" ")[2]
        return str(error), f"收到的是 JSON {_JSON_TYPES_ZH.get(kind, kind)}"
    if not value.strip():
        return "it is empty", "内容为空"
    if value.startswith(b"\xef\xbb\xbf"):
        return "it begins with a byte order mark; leave it out", "开头有字节顺序标记（BOM），请去掉"
    try:
        # Of bytes it would guess UTF-16 where one of the first is 0; and Python refuses to read
        # numbers of more than 4,300 digits.
        json.loads(value.decode(), parse_int=str)
    except json.JSONDecodeError as damage:
        return _json_place(damage)
    except RecursionError:
        return "nested too deeply", "嵌套过深"
    return str(error), str(error)


def _json_place(damage: json.JSONDecodeError) -> tuple[str, str]:
    line, column = damage.lineno, damage.colno
    place, place_zh = f"{damage.msg}, line {line}, column {column}", f"第 {line} 行第 {column} 列"
    if damage.pos >= len(damage.doc.rstrip()) or damage.msg.startswith("Unterminated"):
        return f"{place}; it ends there, as if cut off", f"{place_zh}处结束，似乎被截断"
    return place, f"{place_zh}：{damage.msg}"


def _utf8_place(value: bytes) -> tuple[str, str]:
    if value.startswith(_GZIP):
        return (
            "these are bytes of gzip; say so with Content-Encoding: gzip",
            "这是 gzip 压缩的内容；请加上 Content-Encoding: gzip",
        )
    if extension(value) != "bin":
        return (
            "these are the bytes of a picture; it goes into the record or beside it",
            "这是图片的内容；图片应放在记录中或随记录发送",
        )
    try:
        value.decode()
    except UnicodeDecodeError as damage:
        at = damage.start
        if _from_chinese_encoding(value):
            return f"byte {at}; it reads as GB18030", f"第 {at} 字节；按 GB18030 可以读出"
        return f"byte {at}", f"第 {at} 字节"
    return "", ""


def _from_chinese_encoding(value: bytes) -> dict[str, object]:
    """The object a GB18030 device meant, so that its other faults are reported too."""
    try:
        meant = value.decode("gb18030").encode()
        return read_object(meant) if meant != value else {}
    except (UnicodeDecodeError, Unreadable):
        return {}


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _of_maker(reason: Reason, field: str, maker: str) -> Diagnostic:
    """Whose message it is, and nothing else: what it lacks of ours is not its fault."""
    english, chinese = sentences(maker)
    return Diagnostic(
        level="error", reason=reason.value, field=field,
        message=english[:1].upper() + english[1:], message_zh=chinese,
    )  # fmt: skip


def _error(reason: Reason, field: str, detail: str = "", detail_zh: str = "") -> Diagnostic:
    english, chinese = reason_texts(reason.value)
    more = f" ({detail})" if detail else ""
    more_zh = f"（{detail_zh}）" if detail_zh else ""
    return Diagnostic(
        level="error",
        reason=reason.value,
        field=field,
        message=english + more,
        message_zh=chinese + more_zh,
    )


def _warning(field: str, message: str, message_zh: str) -> Diagnostic:
    return Diagnostic(
        level="warning", reason="", field=field, message=message, message_zh=message_zh
    )


def reason_texts(reason: str) -> tuple[str, str]:
    """(English, Chinese) of a reason's value; a reason of a later release speaks for itself."""
    try:
        return REASON_TEXTS[Reason(reason)]
    except ValueError:
        return reason, reason
