"""The sparse indexes in memory and in their files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker.disk.real import RealDisk
from broker.log.files import FilePool
from broker.log.index import OffsetIndex, TimeIndex


def naive_floor(entries: list[tuple[int, int]], field: int, wanted: int) -> tuple[int, int] | None:
    return next((e for e in reversed(entries) if e[field] <= wanted), None)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@pytest.mark.parametrize("seed", range(8))
def test_look_ups_agree_with_a_search_from_end_to_end_active_and_frozen(
    tmp_path: Path, kind: type[OffsetIndex] | type[TimeIndex], seed: int
) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    disk = RealDisk()
    index = kind(str(tmp_path / "i"), disk, FilePool(disk))
    entries: list[tuple[int, int]] = []
    key = value = dice.randrange(100)
    for i in range(dice.choice([0, 1, 5, 700, 2000])):
        entries.append((key, value))
        index.append(key, value)
        key += dice.randrange(1, 50)
        value += dice.randrange(1, 5000)
        if i % 97 == 0:
            index.save()
    for state in ("active", "frozen", "thawed"):
        if state == "frozen":
            index.seal()
        if state == "thawed":
            index.load()
        assert len(index) == len(entries)
        for wanted in [0, key, value, *(dice.randrange(max(key, 1)) for _ in range(40))]:
            assert index.floor_key(wanted) == naive_floor(entries, 0, wanted)
            assert index.floor_value(wanted) == naive_floor(entries, 1, wanted)
        assert index.last() == (entries[-1] if entries else None)
    data = (tmp_path / "i").read_bytes()
    assert data == b"".join(kind.entry.pack(*entry) for entry in entries)


def test_a_frozen_index_holds_no_entries_in_memory(tmp_path: Path) -> None:
    disk = RealDisk()
    index = OffsetIndex(str(tmp_path / "i"), disk, FilePool(disk))
    for i in range(10_000):
        index.append(i, i)
    index.seal()
    assert len(index._keys) == len(index._values) == 0


def test_keeping_the_first_entries_shortens_the_file_too(tmp_path: Path) -> None:
    disk = RealDisk()
    index = OffsetIndex(str(tmp_path / "i"), disk, FilePool(disk))
    for i in range(10):
        index.append(i, i * 100)
    index.save()
    index.truncate(index.count_values_below(350))
    assert (tmp_path / "i").stat().st_size == 4 * 8
    index.append(9, 900)
    index.save()
    assert (tmp_path / "i").read_bytes()[-8:] == bytes.fromhex("00000009 00000384")


def test_the_pool_keeps_no_more_files_open_than_its_limit(tmp_path: Path) -> None:
    disk = RealDisk()
    for i in range(5):
        disk.open(str(tmp_path / str(i)), create=True).append(b"%d" % i)
    pool = FilePool(disk, limit=2)
    for _ in range(2):
        for i in range(5):
            assert pool.get(str(tmp_path / str(i))).read(0, 9) == b"%d" % i
            assert len(pool) <= 2
