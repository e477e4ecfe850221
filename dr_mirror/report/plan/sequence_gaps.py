"""Which numbers are missing among records of devices that number them (`设备流水号`). Pure.

In: records as they stand on the bus. Out: gaps per device. Never: a gap before a device's first
record or behind its last one, of which nothing is known; one over a device's restart.

Whether a device numbers its kinds of records together or each by itself nobody says: together where
no two kinds have a number in common and fewer are missing so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bus.protocol.wire import Buffer

MAX_GAP = 10_000
"""A larger jump is another numbering: some devices number by their clocks."""
MAX_DIGITS = 18
LISTED_RANGES = 5


class _NumberedBody(msgspec.Struct, frozen=True):
    """Of a record's body, in the keys of the wire."""

    camera_ip: str = msgspec.field(name="抓拍设备地址", default="")
    captured_at: str = msgspec.field(name="抓拍时间", default="")
    number: int | str | None = msgspec.field(name="设备流水号", default=None)


class NumberedRecord(NamedTuple):
    """One record that its device has numbered. `captured_at` as the device wrote it."""

    camera_ip: str
    kind: str
    captured_at: str
    number: int


class SequenceGap(msgspec.Struct, frozen=True, kw_only=True):
    """Of one device. `kind` empty: it numbers all its records together. `ranges`: first and last of
    what is missing, the first `LISTED_RANGES`."""

    camera_ip: str
    kind: str
    present: int
    missing: int
    ranges: tuple[tuple[int, int], ...]


def numbered_record(body: Buffer | None, kind: str) -> NumberedRecord | None:
    """None: it has no number, or cannot be read."""
    try:
        found = _DECODER.decode(body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    text = str(found.number)
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    if not is_number or not found.camera_ip:
        return None
    return NumberedRecord(found.camera_ip, kind, found.captured_at, int(text))


def sequence_gaps(records: Iterable[NumberedRecord]) -> list[SequenceGap]:
    """Of all devices that have any, the most missing first."""
    devices: dict[str, dict[str, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        devices[one.camera_ip][one.kind].append((one.captured_at, one.number))
    found: list[SequenceGap] = []
    for camera, kinds in devices.items():
        apart = [_gap(camera, kind, of_kind) for kind, of_kind in kinds.items()]
        together = _gap(camera, "", [one for of_kind in kinds.values() for one in of_kind])
        is_joint = (
            len(apart) > 1
            and together.present == sum(one.present for one in apart)
            and together.missing < sum(one.missing for one in apart)
        )
        found += [together] if is_joint else apart
    with_gaps = [one for one in found if one.missing]
    return sorted(with_gaps, key=lambda one: (-one.missing, one.camera_ip, one.kind))


def _gap(camera_ip: str, kind: str, numbers: Sequence[tuple[str, int]]) -> SequenceGap:
    ranges = missing_ranges(numbers)
    return SequenceGap(
        camera_ip=camera_ip, kind=kind, present=len({number for _, number in numbers}),
        missing=sum(last - first + 1 for first, last in ranges),
        ranges=tuple(ranges[:LISTED_RANGES]),
    )  # fmt: skip


def missing_ranges(numbers: Iterable[tuple[str, int]]) -> list[tuple[int, int]]:
    """First and last of each run of numbers that is not there. `numbers` with the times at which
    the device took them; one that is smaller than one before it begins a new count."""
    found: list[tuple[int, int]] = []
    newest, newest_at = -1, ""
    for captured_at, number in sorted(set(numbers)):
        is_new_count = number < newest and captured_at > newest_at
        if newest >= 0 and not is_new_count and 1 < number - newest <= MAX_GAP:
            found.append((newest + 1, number - 1))
        if is_new_count or number >= newest:
            newest, newest_at = number, captured_at
    return found


_DECODER = msgspec.json.Decoder(_NumberedBody)
