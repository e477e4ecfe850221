"""The text checkpoints and the leader epoch cache built on one of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker.disk.real import RealDisk
from broker.log.checkpoint import read_offsets, write_offsets
from broker.log.epochs import LeaderEpochs


def test_offsets_are_written_in_kafkas_form_and_read_back(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    offsets = {("b.topic", 2): 7, ("a-topic", 10): 1 << 40, ("a-topic", 9): 0}
    write_offsets(RealDisk(), path, offsets)
    assert Path(path).read_text() == f"0\n3\na-topic 9 0\na-topic 10 {1 << 40}\nb.topic 2 7\n"
    assert read_offsets(RealDisk(), path) == offsets
    assert {p.name for p in tmp_path.iterdir()} == {"c", "c.checked"}


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_checkpoint_never_raises_and_never_invents_partitions(
    tmp_path: Path, seed: int
) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    path = tmp_path / "c"
    offsets = {(f"t{i}", i): i * 1000 for i in range(5)}
    write_offsets(RealDisk(), str(path), offsets)
    data = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 5)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data[: dice.randrange(len(data) + 1)])
    assert len(read_offsets(RealDisk(), str(path))) <= len(offsets)


def test_a_missing_checkpoint_is_empty(tmp_path: Path) -> None:
    assert read_offsets(RealDisk(), str(tmp_path / "none")) == {}


@pytest.mark.parametrize("seed", range(20))
def test_epochs_agree_with_the_epoch_of_every_single_offset(tmp_path: Path, seed: int) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    path = str(tmp_path / "leader-epoch-checkpoint")
    cache, truth, start = LeaderEpochs(RealDisk(), path), list[int](), 0
    epoch = 0
    for _ in range(40):
        action = dice.random()
        if action < 0.7:
            epoch += dice.randrange(0, 3)
            cache.assign(epoch, len(truth))
            truth += [epoch] * dice.randrange(1, 5)
        elif action < 0.85:
            del truth[dice.randrange(start, len(truth) + 1) :]
            cache.truncate_from_end(len(truth))
        else:
            start = dice.randrange(start, len(truth) + 1)
            cache.truncate_from_start(start)
        if dice.random() < 0.2:
            cache.save()
            cache = LeaderEpochs(RealDisk(), path)
        for offset in range(start, len(truth)):
            assert cache.epoch_for_offset(offset) == truth[offset]
        newest = max(truth[start:], default=-1)
        if len(truth) > start:
            assert cache.end_of(newest + 1, len(truth)) == (-1, -1), "the asker is ahead of us"
        for asked in range(newest + 1):
            end = cache.end_of(asked, len(truth))
            below = [e for e in truth[start:] if e <= asked]
            if below:
                expected = start + max(i for i, e in enumerate(truth[start:]) if e <= asked) + 1
                assert end == (max(below), expected)


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochs(RealDisk(), str(path))
    cache.assign(0, 0)
    cache.assign(2, 17)
    cache.save()
    assert path.read_text() == "0\n2\n0 0\n2 17\n"
