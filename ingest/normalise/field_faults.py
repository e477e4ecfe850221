"""What is lost or doubtful of single fields of a record that is valid: keys that are nearly ours,
values of a wrong type, out of range, too long, addresses that are none. Pure.

In: a record's object and its kind. Out: `FieldFault`s, by key. Never: a word about what rejects a
record, or about a record as a whole.
The edge asks this of every record, so `faults_of` looks twice: a typed decode passes what is surely
sound (nearly all, in two microseconds), the rest is read field by field.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from bus.contracts import keys
from bus.domain.device_message import Unreadable, as_text
from bus.domain.kinds import KEYS_OF_KIND
from bus.domain.misreading_prices import UNSAID
from bus.domain.parsed_message import ParsedMessage
from bus.domain.plate_candidates import MOST_CANDIDATES, read_candidates
from bus.domain.plates import MAX_PLATE_CHARACTERS
from bus.domain.reading_price import confidence_bands, confidences_text
from bus.domain.times import BadTime, local_time

MAX_TEXT = 256  # characters; the longest names of series and models have some forty
MAX_PLATE = 32
MAX_ADDRESS = 64
MAX_URL = 4_096
MAX_LIST = 4_096  # boxes and confidences, written as text
MAX_UNKNOWN_KEYS = 50  # of a record that are looked at
MAX_KEY = 64  # of one that is told; a stranger's may be as long as it likes
_NUMBERS = {
    "车速": (0, 400),
    "车牌置信度": (0, 100),
    "置信度": (0, 100),
    "年龄下限": (0, 150),
    "年龄上限": (0, 150),
}
_WHOLE_OR_TEXT = frozenset({"设备流水号", "目标编号", "车道编号"})
_TIMES = frozenset({"入库时间", "出现时间", "消失时间"})
_CONFIDENCES, _CANDIDATES = "车牌逐字置信度", "车牌候选"
_LISTS = frozenset({"目标框", _CONFIDENCES})
_ADDRESSES = frozenset({"抓拍设备地址", "后端图片识别服务器地址"})
_UNBOUNDED = frozenset({"人脸特征", *keys.INLINE_PICTURES})  # bounded with the record
_LENGTHS = {"车牌号码": MAX_PLATE, **dict.fromkeys(_ADDRESSES, MAX_ADDRESS)}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LOOKS_NUMERIC = re.compile(r"[0-9.:]+")
# What other interfaces call the fields of ours; beside them our own English names.
_ALIASES = {
    "号牌号码": "车牌号码", "号牌": "车牌号码", "车牌": "车牌号码", "车号": "车牌号码",
    "plateno": "车牌号码", "plate": "车牌号码", "license_plate": "车牌号码",
    "licenseplate": "车牌号码",
    "号牌颜色": "车牌颜色", "车身颜色": "车辆颜色", "品牌": "车辆品牌", "速度": "车速",
    "speed": "车速", "车道号": "车道编号", "车道": "车道编号", "方向": "行驶方向",
    "设备ip": "抓拍设备地址", "设备地址": "抓拍设备地址", "相机地址": "抓拍设备地址",
    "ip": "抓拍设备地址", "ipaddress": "抓拍设备地址", "device_ip": "抓拍设备地址",
    "识别服务器地址": "后端图片识别服务器地址", "服务器地址": "后端图片识别服务器地址",
    "编号": "记录编号", "id": "记录编号", "record_id": "记录编号",
}  # fmt: skip
_NEAR = 0.75


class FieldFault(NamedTuple):
    """One field, in English and Chinese."""

    field: str
    message: str
    message_zh: str


def faults_of(message: ParsedMessage) -> list[FieldFault]:
    """Of a record that is valid."""
    try:
        _SOUND[message.kind].decode(message.value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        with suppress(Unreadable):  # hardly any: the typed read of a record skips what it need not
            return field_faults(message.object(), message.kind)
    return []


def field_faults(found: Mapping[str, object], kind: str) -> list[FieldFault]:
    """Of all fields; almost always none."""
    faults = list(_key_faults(tuple(found), kind))
    known = KEYS_OF_KIND[kind]
    for key, value in found.items():
        if value == "" or value is None or key not in known:
            continue
        if type(value) is str and len(value) <= MAX_PLATE and key not in _CHECKED:
            continue  # nearly all
        faults += _value_faults(key, value)
    return faults


_CHECKED = frozenset(_NUMBERS) | _ADDRESSES | _TIMES | {_CANDIDATES}


def _value_faults(key: str, value: object) -> Iterator[FieldFault]:
    if value == keys.UNREADABLE:
        return
    if key in _NUMBERS:
        yield from _number(key, value)
    elif key == _CANDIDATES:
        yield from _candidates(key, value)
    elif isinstance(value, str):
        most = _most(key)
        if most and len(value) > most:
            yield FieldFault(
                key,
                f"{len(value)} characters, more than {most}: kept, but found by nothing it says.",
                f"{len(value)} 个字符，超过 {most} 个：原样保存，但无法据此检索。",
            )
        elif key in _TIMES and not _is_time(value):
            yield FieldFault(
                key,
                f"{value!r} is no local time as 2017-08-24 17:25:34.123.",
                f"“{value}”不是形如 2017-08-24 17:25:34.123 的本地时间。",
            )
        elif key in _ADDRESSES and not is_address(value):
            yield FieldFault(
                key,
                f"{value!r} is no address: nobody can find the device when it fails.",
                f"“{value}”不是有效地址：设备出故障时无法定位。",
            )
    elif not _is_expected(key, value):
        read = as_text(value)
        yield FieldFault(
            key,
            f"Should be text; {'read as ' + repr(read) if read else 'ignored'}.",
            f"应为文本；{'按 ' + read + ' 读取' if read else '被忽略'}。",
        )
    elif key == _CONFIDENCES and isinstance(value, list) and not _are_confidences(value):
        yield FieldFault(
            key,
            "Should have a number per character, to 1 or to 100; ignored.",
            "每个字符应有一个不超过 1 或 100 的数字；被忽略。",
        )


def _are_confidences(written: list[object]) -> bool:
    return UNSAID not in confidence_bands(confidences_text(written), " " * len(written))


def _candidates(key: str, value: object) -> Iterator[FieldFault]:
    """Of further plates that a reader holds possible, those that no rule will try."""
    if not isinstance(value, list):
        yield FieldFault(
            key,
            "Should be a list of objects with 车牌号码 and 权重; ignored.",
            "应为包含“车牌号码”和“权重”的对象列表；被忽略。",
        )
        return
    ignored = read_candidates(value).ignored
    if ignored:
        yield FieldFault(
            key,
            f"{ignored} of {len(value)} are ignored: the first {MOST_CANDIDATES} count, each once,"
            " with a whole plate and a weight above 0, to 1 or to 100.",
            f"{len(value)} 个中有 {ignored} 个被忽略：仅取前 {MOST_CANDIDATES} 个，每个车牌计一次，"
            "须为完整车牌，权重大于 0，不超过 1 或 100。",
        )


def _is_time(text: str) -> bool:
    try:
        local_time("UTC").to_ms(text.strip())
    except BadTime:
        return False
    return True


def _is_expected(key: str, value: object) -> bool:
    """A value that is no text, where something else may stand."""
    if key in _LISTS:
        return isinstance(value, list)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return key in _WHOLE_OR_TEXT and is_number


def _most(key: str) -> int:
    """Characters of a text; 0: as many as a record holds."""
    if key in _UNBOUNDED:
        return 0
    if key in _LISTS:
        return MAX_LIST
    return _LENGTHS.get(key, MAX_URL if key.endswith("地址") else MAX_TEXT)


def _number(key: str, value: Any) -> Iterator[FieldFault]:
    low, high = _NUMBERS[key]
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not low <= number <= high:
        yield FieldFault(
            key, f"Should be a number from {low} to {high}.", f"应为 {low} 到 {high} 之间的数字。"
        )


@lru_cache(maxsize=8_192)
def is_address(text: str) -> bool:
    """An address of IP, or the name of a host."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return not _LOOKS_NUMERIC.fullmatch(text) and bool(_HOST.fullmatch(text))
    return True


_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_SOUND_TIME = (
    r"\A([12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])[ T]([01][0-9]|2[0-3])(:[0-5][0-9]){2}"
    r"(\.[0-9]{1,9})?)?\Z"
)


def _sound_type(key: str) -> Any:
    """What surely has no fault; what has none may be more."""
    most = _most(key)
    text: Any = Annotated[str, Meta(max_length=most)] if most else str
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        bound = Meta(ge=low, le=high)
        text = Annotated[str, Meta(pattern=rf"\A([0-9]{{1,2}}|{keys.UNREADABLE})?\Z")]
        return Annotated[int, bound] | Annotated[float, bound] | text | None
    if key in keys.INLINE_PICTURES:
        return msgspec.Raw
    if key in _ADDRESSES:
        text = Annotated[str, Meta(pattern=rf"\A(({_OCTET}\.){{3}}{_OCTET})?\Z")]
    elif key in _TIMES:
        text = Annotated[str, Meta(pattern=_SOUND_TIME)]
    elif key == _CANDIDATES:
        return None  # few send them, and those are looked at
    elif key == _CONFIDENCES:
        one = Annotated[int, Meta(ge=0, le=100)] | Annotated[float, Meta(ge=0, le=100)]
        return text | Annotated[list[one], Meta(max_length=MAX_PLATE_CHARACTERS)] | None
    elif key in _LISTS:
        return text | list[Any] | None
    elif key in _WHOLE_OR_TEXT:
        return int | float | text | None
    return text | None


def _sound_decoder(kind: str) -> msgspec.json.Decoder[object]:
    """Of a record with known keys only, whose values are as they should be."""
    known = [*KEYS_OF_KIND[kind], *keys.INLINE_PICTURES]
    names = {f"field{number}": key for number, key in enumerate(known)}
    fields = [
        (name, _sound_type(key), msgspec.Raw(b"") if key in keys.INLINE_PICTURES else None)
        for name, key in names.items()
    ]
    made = msgspec.defstruct(
        f"Sound{kind.title()}", fields, rename=names, forbid_unknown_fields=True, gc=False
    )
    return msgspec.json.Decoder(made)


_SOUND = {kind: _sound_decoder(kind) for kind in KEYS_OF_KIND}


@lru_cache(maxsize=1_024)
def _key_faults(names: tuple[str, ...], kind: str) -> tuple[FieldFault, ...]:
    """Unknown keys are kept; only those that look like a slip of the pen are worth a word. A device
    writes the same keys in the same order every time."""
    known = [*KEYS_OF_KIND[kind], *keys.INLINE_PICTURES]
    absent = [key for key in known if key not in names]
    faults = []
    unknown = [key for key in names if key not in known and len(key) <= MAX_KEY]
    for key in unknown[:MAX_UNKNOWN_KEYS]:
        meant = _meant(key, absent, kind)
        if meant:
            faults.append(
                FieldFault(
                    key, f"Unknown key; did you mean {meant}?", f"未知的键；是否应为“{meant}”？"
                )
            )
    return tuple(faults)


def _meant(key: str, absent: list[str], kind: str) -> str:
    """Which key of ours is meant by one that is unknown; empty: none."""
    plain = "".join(unicodedata.normalize("NFKC", key).split())
    if plain in absent:
        return plain
    small = plain.casefold()
    english = {attribute: name for name, attribute in KEYS_OF_KIND[kind].items()}
    called = _ALIASES.get(small) or english.get(small) or english.get(small.replace("-", "_"), "")
    if called in absent:
        return called
    near = difflib.get_close_matches(plain, absent, 1, _NEAR)
    return near[0] if near else ""
