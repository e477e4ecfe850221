"""A register as entries, the changes from one to another, and what is wrong with one. Pure.

In: registers, entries in the order of their topic. Out: registers, entries, faults in words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from bus.contracts.register import Checkpoint, Device, District, Register, Road
from bus.contracts.register_entry import RegisterEntry
from bus.domain import register_shapes as shape_faults
from bus.domain.kinds import KINDS
from bus.domain.register_shapes import RegisterFault

Entries = dict[str, RegisterEntry]
"""By key."""
MAX_CHARACTERS = 256  # of an id or a name: they end up in row keys and on pages
DEVICE_KINDS = tuple(KINDS)


def entries_of(register: Register) -> Entries:
    """Every entry; of two with one key the last."""
    found = list(entries_from([], register.site))
    found += [_district(one) for one in register.districts]
    found += [_checkpoint(one) for one in register.checkpoints]
    found += [_device(one) for one in register.devices]
    found += [_road(one) for one in register.roads]
    return {entry.key: entry for entry in found}


def standing(entry: RegisterEntry) -> RegisterEntry | None:
    """What a message leaves under its key; None: nothing. Who wrote it and when is in the message,
    not in the register."""
    return None if entry.op == "remove" else msgspec.structs.replace(entry, author="", version=0)


def entry_version(entry: RegisterEntry, record_at_ms: int) -> int:
    """Of two messages the one with the greater version counts."""
    return entry.version or max(record_at_ms, 0)


def register_of(entries: Mapping[str, RegisterEntry]) -> Register:
    """Sorted by key, so that equal entries make equal registers in any order of arrival."""
    found = [entries[key] for key in sorted(entries)]
    site = next((one.name for one in found if one.kind == "site"), Register().site)
    return Register(
        site=site,
        districts=tuple(one.district for one in found if one.district is not None),
        checkpoints=tuple(one.checkpoint for one in found if one.checkpoint is not None),
        devices=tuple(one.device for one in found if one.device is not None),
        roads=tuple(one.road for one in found if one.road is not None),
    )


def changes(before: Mapping[str, RegisterEntry], after: Mapping[str, RegisterEntry]) -> Entries:
    """What has to be said so that `before` becomes `after`; removals first, so that a device never
    stands at a checkpoint that has gone."""
    gone = sorted(before.keys() - after.keys(), key=_order, reverse=True)
    removed = {key: RegisterEntry(kind=before[key].kind, id=before[key].id, op="remove")
               for key in gone}  # fmt: skip
    put = {key: after[key] for key in sorted(after, key=_order) if before.get(key) != after[key]}
    return removed | put


def merged(before: Mapping[str, RegisterEntry], given: Mapping[str, RegisterEntry]) -> Entries:
    """`before` with what is given beside or instead; nothing is removed."""
    return dict(before) | dict(given)


def faults(
    entries: Mapping[str, RegisterEntry], unread: Collection[str] = ()
) -> Iterator[RegisterFault]:
    """What would be refused: places that are none, references to nothing, texts that are too
    long. `unread`: keys that are there, too, although what they stand for could not be read."""
    districts, checkpoints = (
        {key.partition("/")[2] for key in (*entries, *unread) if key.startswith(kind)}
        for kind in ("district/", "checkpoint/")
    )
    for key, one in entries.items():
        yield from _texts(key, one)
        if one.checkpoint is not None:
            yield from _of_checkpoint(key, one.checkpoint, districts)
        if one.device is not None:
            yield from _of_device(key, one.device, checkpoints)
            yield from shape_faults.of_device(key, one.device)
        if one.district is not None:
            yield from shape_faults.of_district(key, one.district)
        if one.road is not None:
            yield from shape_faults.of_road(key, one.road, checkpoints)


def _of_checkpoint(key: str, one: Checkpoint, districts: set[str]) -> Iterator[RegisterFault]:
    yield from shape_faults.of_place(key, one.latitude, one.longitude)
    if one.district_id not in districts:
        yield RegisterFault(
            key,
            f"there is no district {one.district_id!r}: add it, or write one that there is",
            f"没有区域“{one.district_id}”：请先添加，或改为已有的区域",
        )


def _of_device(key: str, one: Device, checkpoints: set[str]) -> Iterator[RegisterFault]:
    if one.checkpoint_id not in checkpoints:
        yield RegisterFault(
            key,
            f"there is no checkpoint {one.checkpoint_id!r}: add it, or write one that there is",
            f"没有卡口“{one.checkpoint_id}”：请先添加，或改为已有的卡口",
        )
    if one.kind not in DEVICE_KINDS:
        known = ", ".join(DEVICE_KINDS)
        yield RegisterFault(
            key, f"a device is one of {known}, not {one.kind!r}", f"设备类别应为 {known}"
        )


def _texts(key: str, one: RegisterEntry) -> Iterator[RegisterFault]:
    if one.kind != "site" and not one.id.strip():
        yield RegisterFault(key, "it has no id", "缺少编号")
    found = one.district or one.checkpoint or one.device or one.road or one
    for name, value in msgspec.structs.asdict(found).items():
        if isinstance(value, str) and not _is_writable(value):
            yield RegisterFault(key, f"{name} holds half a character", f"{name} 含有无效字符")
        if isinstance(value, str) and len(value) > MAX_CHARACTERS:
            yield RegisterFault(
                key, f"{name} is longer than {MAX_CHARACTERS} characters",
                f"{name} 超过 {MAX_CHARACTERS} 个字符",
            )  # fmt: skip


def _is_writable(text: str) -> bool:
    """JSON may name half of a pair of surrogates, which is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_ORDER = {"site": 0, "district": 1, "checkpoint": 2, "device": 3, "road": 4}


def _order(key: str) -> tuple[int, str]:
    """What is referred to comes first."""
    return _ORDER.get(key.partition("/")[0], len(_ORDER)), key


def _district(one: District) -> RegisterEntry:
    return RegisterEntry(kind="district", id=one.district_id, district=one)


def _checkpoint(one: Checkpoint) -> RegisterEntry:
    return RegisterEntry(kind="checkpoint", id=one.checkpoint_id, checkpoint=one)


def _device(one: Device) -> RegisterEntry:
    return RegisterEntry(kind="device", id=one.camera_ip, device=one)


def _road(one: Road) -> RegisterEntry:
    return RegisterEntry(kind="road", id=one.name, road=one)


def entries_from(
    parts: Iterable[District | Checkpoint | Device | Road], site: str = ""
) -> Iterator[RegisterEntry]:
    """Entries of parts as a file names them; a site without a name of its own needs none."""
    if site not in ("", Register().site):
        yield RegisterEntry(kind="site", id="", name=site)
    for part in parts:
        if isinstance(part, District):
            yield _district(part)
        elif isinstance(part, Checkpoint):
            yield _checkpoint(part)
        elif isinstance(part, Device):
            yield _device(part)
        else:
            yield _road(part)
