"""After a loss of power a voter starts by itself, and never without what was acknowledged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker.controller.kraft.storage.flushed_end import (
    FILE_NAME,
    SLOT_BYTES,
    FlushedEnd,
    decode_slot,
    encode_slot,
)
from broker.controller.kraft.storage.integrity import MetadataLogDamaged
from broker.controller.kraft.storage.unflushed_batches import PREFIX
from broker.disk.real import RealDisk
from bus.records.batch import HEADER_BYTES, iter_batches, seal
from tests.broker.controller.kraft.storage.test_integrity import (
    contents,
    directory,
    log_of,
    refused,
    start,
)

__all__ = ["directory"]  # the fixture of a node that ran twice


def with_unflushed(directory: Path, copies: int) -> list[int]:
    """Appends batches as a controller that has not flushed them yet; where each begins."""
    log = log_of(directory)
    data = log.read_bytes()
    at, header = list(iter_batches(data))[-1]
    places, offset = [], header.last_offset + 1
    for _ in range(copies):
        batch = bytearray(data[at:])
        batch[0:8] = offset.to_bytes(8, "big")
        seal(batch, 0, len(batch))
        places.append(len(data))
        data, offset = data + bytes(batch), offset + header.last_offset_delta + 1
    log.write_bytes(data)
    return places


def flip(directory: Path, position: int) -> None:
    data = bytearray(log_of(directory).read_bytes())
    data[position] ^= 0x10
    log_of(directory).write_bytes(data)


def put_aside(directory: Path) -> list[bytes]:
    return [
        path.read_bytes() for path in sorted(directory.iterdir()) if path.name.startswith(PREFIX)
    ]


def test_a_hole_before_sound_batches_that_were_never_flushed_is_cut_and_put_aside(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: a single machine whose power had failed waited for a person."""
    sound = log_of(directory).read_bytes()
    places = with_unflushed(directory, 3)
    flip(directory, places[0] + HEADER_BYTES + 1)
    torn = log_of(directory).read_bytes()
    assert len(start(directory)) == 10
    assert put_aside(directory) == [torn[len(sound) :]]
    assert log_of(directory).read_bytes()[: len(sound)] == sound
    assert "put aside in" in caplog.text
    assert PREFIX in caplog.text


def test_a_second_loss_of_power_at_the_same_place_keeps_both_tails(directory: Path) -> None:
    sound = log_of(directory).read_bytes()
    for _ in range(2):
        log_of(directory).write_bytes(sound)
        places = with_unflushed(directory, 2)
        flip(directory, places[0] + HEADER_BYTES + 1)
        saved = (directory / FILE_NAME).read_bytes()
        assert len(start(directory)) == 10
        (directory / FILE_NAME).write_bytes(saved)
        for path in directory.glob("*.snapshot"):
            path.unlink()
        epochs = directory / "leader-epoch-checkpoint"
        epochs.unlink()
        epochs.with_name(epochs.name + ".checked").unlink(missing_ok=True)
    assert len(put_aside(directory)) == 2


@pytest.mark.parametrize("behind", [0, 3])
def test_a_flipped_bit_below_the_flushed_end_waits_for_a_person(
    directory: Path, behind: int
) -> None:
    """Whatever is behind it: also in the last batch, which was acknowledged."""
    batches = [at for at, _ in iter_batches(log_of(directory).read_bytes())]
    with_unflushed(directory, behind)
    flip(directory, batches[-1] + HEADER_BYTES + 1)
    before = contents(directory)
    with pytest.raises(MetadataLogDamaged, match=r"sound batches behind it|was flushed up to"):
        start(directory)
    assert contents(directory) == before


def test_where_nobody_has_said_how_far_it_was_flushed_a_hole_is_damage(directory: Path) -> None:
    """As in a directory of an earlier version."""
    (directory / FILE_NAME).unlink()
    places = with_unflushed(directory, 2)
    flip(directory, places[0] + HEADER_BYTES + 1)
    refused(directory, MetadataLogDamaged, "with sound batches behind it")


def test_drawn_damage_is_cut_only_above_the_flushed_end(
    directory: Path, dice: random.Random
) -> None:
    """Any byte of the log: what was acknowledged is there afterwards, or a person is waited for."""
    flushed = len(log_of(directory).read_bytes())
    with_unflushed(directory, 4)
    before = contents(directory)
    size = log_of(directory).stat().st_size
    for _ in range(12):
        position = dice.randrange(size)
        flip(directory, position)
        if position < flushed:
            with pytest.raises(MetadataLogDamaged):
                start(directory)
            assert log_of(directory).stat().st_size == size
        else:
            assert len(start(directory)) == 10
            assert (
                log_of(directory).read_bytes()[:flushed] == before[log_of(directory).name][:flushed]
            )
        for path in directory.iterdir():
            path.unlink()
        for name, data in before.items():
            (directory / name).write_bytes(data)


def test_the_flushed_end_survives_a_torn_write_and_any_bytes(
    tmp_path: Path, dice: random.Random
) -> None:
    """A torn slot leaves the one before; bytes of anything say nothing."""
    disk = RealDisk()
    end = FlushedEnd(disk, str(tmp_path))
    assert end.offset is None
    for number, offset in enumerate([3, 9, 40], start=1):
        end.write(offset, now_ms=number)
    assert FlushedEnd(disk, str(tmp_path)).offset == 40
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    newest = SLOT_BYTES * (3 % 2)
    data[newest + dice.randrange(SLOT_BYTES)] ^= 1
    path.write_bytes(data)
    assert FlushedEnd(disk, str(tmp_path)).offset == 9
    for _ in range(200):
        path.write_bytes(dice.randbytes(dice.randrange(3 * SLOT_BYTES)))
        assert FlushedEnd(disk, str(tmp_path)).offset is None
    assert decode_slot(encode_slot(7, 1 << 62)) == (7, 1 << 62)


def test_a_truncation_lowers_the_flushed_end_and_the_next_flush_raises_it(tmp_path: Path) -> None:
    disk = RealDisk()
    end = FlushedEnd(disk, str(tmp_path))
    end.store(100)
    end.lower(200)
    assert FlushedEnd(disk, str(tmp_path)).offset == 100
    end.lower(60)
    assert FlushedEnd(disk, str(tmp_path)).offset == 60
    end.write(70, now_ms=5)
    assert FlushedEnd(disk, str(tmp_path)).offset == 70
