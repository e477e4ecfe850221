"""No damage to the quorum-state file or to its copy lets a voter vote twice in an epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.controller.kraft.storage.state_file import (
    QuorumStateData,
    QuorumStateError,
    encode,
    read_state,
    write_state,
)
from broker.disk.real import RealDisk

DISK = RealDisk()
VOTED = QuorumStateData(
    leader_id=-1, leader_epoch=15, voted_id=2, voted_directory_id=bytes(range(16))
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "quorum-state"


def stored(path: Path, state: QuorumStateData, voters: list[int] | None = None) -> None:
    write_state(DISK, str(path), encode(state, voters))


def damaged(data: bytes) -> Iterator[bytes]:
    """Yields the file with each bit flipped and cut to each length."""
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    yield from (data[:length] for length in range(len(data)))


@pytest.mark.parametrize(
    ("suffix", "voters"),
    [("", None), ("", [1, 2, 3]), (".checked", None)],
    ids=["version-1", "version-0", "copy"],
)
def test_no_damage_forgets_a_vote(
    path: Path, suffix: str, voters: list[int] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is refused, or still has the same vote, or has a later epoch."""
    caplog.set_level(logging.CRITICAL)  # otherwise thousands of useless lines
    stored(path, VOTED, voters)
    expected = VOTED if voters is None else replace(VOTED, voted_directory_id=bytes(16))
    hurt = path.with_name(path.name + suffix)
    recovered = 0
    for content in damaged(hurt.read_bytes()):
        hurt.write_bytes(content)
        try:
            found = read_state(DISK, str(path))
        except QuorumStateError:
            continue
        assert found is not None
        recovered += found == expected
        if found.leader_epoch <= 15:
            assert found == expected, content
    assert recovered > 20


def test_a_file_that_is_lost_is_made_up_for_by_its_copy(path: Path) -> None:
    """A voter that forgot its epoch would vote in it a second time."""
    stored(path, VOTED)
    path.unlink()
    assert read_state(DISK, str(path)) == VOTED


def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(path: Path) -> None:
    """The remedy in the error message works."""
    stored(path, VOTED)
    path.write_text("{")
    with pytest.raises(QuorumStateError, match=r"delete .*quorum-state: its copy"):
        read_state(DISK, str(path))
    path.unlink()
    assert read_state(DISK, str(path)) == VOTED


def test_a_newer_file_of_apache_kafkas_counts(path: Path) -> None:
    """Kafka does not write the copy: a later epoch counts, or the vote in the same one."""
    unvoted = replace(VOTED, voted_id=-1, voted_directory_id=bytes(16))
    for newer in (VOTED, replace(VOTED, leader_epoch=16, voted_id=3)):
        stored(path, unvoted)
        path.write_text(encode(newer))
        assert read_state(DISK, str(path)) == newer


def test_a_death_between_copy_and_file_keeps_the_newer_vote(path: Path) -> None:
    """The copy is written first."""
    stored(path, VOTED)
    before = path.read_text()
    newer = replace(VOTED, leader_epoch=16, voted_id=3)
    stored(path, newer)
    path.write_text(before)
    assert read_state(DISK, str(path)) == newer


def test_a_directory_without_a_copy_is_read_as_before(path: Path) -> None:
    """Such a directory is from an earlier version or from Apache Kafka."""
    assert read_state(DISK, str(path)) is None
    path.write_text(encode(VOTED))
    assert read_state(DISK, str(path)) == VOTED
