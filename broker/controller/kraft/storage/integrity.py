"""Checks the metadata log before it is opened: is anything missing that was stored?

Reads only. A torn tail is what a crash leaves, and recovery truncates it; this check finds what no
crash of a process leaves: a log that ends before a flushed epoch or a clean shutdown, damage in
front of valid batches, a start that no snapshot covers, an election state without its log.
"""

from __future__ import annotations

from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.storage import state_file
from broker.controller.kraft.storage.state_file import read_state
from broker.disk.port import Disk, File
from broker.log.batch_scanner import BatchScanner, is_plausible_header
from broker.log.checkpoint import read_epochs
from broker.log.epochs import FILE_NAME as EPOCHS_FILE
from broker.log.files import LOG, SNAPSHOT, base_offset_of
from bus.records.batch import HEADER_BYTES, RecordsError, check_crc, header_at

LOOK_AHEAD_BYTES = 4 * 1024 * 1024
"""How far after damage a valid batch is searched for; a torn tail is one append, far below this."""

REMEDY = (
    "restore the directory from a backup; or, if other voters have the metadata, move the "
    "directory away and start again, so that this node fetches it; nothing was changed"
)
ONLY_VOTER_REMEDY = (
    "restore the directory from a backup; this node is the only voter, nobody else has the "
    "metadata, and without them every topic would be unknown: keep the directory where it is; "
    "nothing was changed"
)


class MetadataLogDamaged(Exception):
    """The metadata log lost data. The text names the remedy."""


class _Damage(Exception):
    """What is wrong with it."""


def check_integrity(
    disk: Disk, directory: str, latest: OffsetAndEpoch | None, *, is_only_voter: bool = False
) -> None:
    """Raises MetadataLogDamaged unless the log may be opened."""
    try:
        _check(disk, directory, latest)
    except _Damage as fault:
        remedy = ONLY_VOTER_REMEDY if is_only_voter else REMEDY
        text = f"The metadata log in {directory} {fault}. Remedy: {remedy}."
        raise MetadataLogDamaged(text) from None


def _check(disk: Disk, directory: str, latest: OffsetAndEpoch | None) -> None:
    names = disk.listdir(directory)
    bases = sorted(
        base for name in names if name.endswith(LOG) and (base := base_offset_of(name)) is not None
    )
    if not bases:
        if not (latest and latest.offset):
            _check_state_file(disk, directory)
        return
    if bases[0] > (latest.offset if latest is not None else 0):
        raise _Damage(f"begins at offset {bases[0]} and no snapshot covers that")
    end = bases[0]
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        end = _end_of(disk, directory, base)
        if following is not None and end > following:
            raise _Damage(f"has two segments with offset {following}")
    _check_epochs(disk, directory, end)
    _check_clean_shutdown(names, directory, end)


def _check_state_file(disk: Disk, directory: str) -> None:
    state = read_state(disk, f"{directory}/{state_file.FILE_NAME}")
    if state is not None and state.leader_id >= 0:
        raise _Damage(f"is empty, but this node followed a leader in epoch {state.leader_epoch}")


def _check_epochs(disk: Disk, directory: str, end: int) -> None:
    entries, is_sound = read_epochs(disk, f"{directory}/{EPOCHS_FILE}")
    if is_sound and entries and entries[-1][1] >= end:
        epoch, start = entries[-1]
        raise _Damage(f"ends at offset {end}, but epoch {epoch} was flushed from {start} on")


def _check_clean_shutdown(names: list[str], directory: str, end: int) -> None:
    """A clean shutdown writes a producer snapshot (an empty one) at the end of the flushed log."""
    stops = [base for name in names if name.endswith(SNAPSHOT) and (base := base_offset_of(name))]
    if max(stops, default=0) > end:
        raise _Damage(f"ends at offset {end}, but was closed at {max(stops)}, all flushed")


def _end_of(disk: Disk, directory: str, base: int) -> int:
    path = f"{directory}/{base:020d}{LOG}"
    size = disk.size_of(path)
    file = disk.open(path)
    try:
        walk = BatchScanner(file, 0, size, base_offset=base, crc_from=0)
        end = base
        for found in walk:
            end = found.header.end_offset
        if walk.fault and _has_valid_batch_after(file, walk.position, size, end):
            raise _Damage(
                f"is damaged at byte {walk.position} of {path.rpartition('/')[2]} ({walk.fault}), "
                "with sound batches behind it",
            )
    finally:
        file.close()
    return end


def _has_valid_batch_after(file: File, position: int, size: int, end_offset: int) -> bool:
    """Whether a whole batch with a correct CRC begins somewhere after the damage."""
    data = file.read(position, min(LOOK_AHEAD_BYTES, size - position))
    at = 1
    while (found := data.find(b"\x02", at + 16)) >= 0:  # the magic is byte 16 of a header
        at = found - 16
        if _is_valid_batch(data, at, end_offset):
            return True
        at += 1
    return False


def _is_valid_batch(data: bytes, at: int, end_offset: int) -> bool:
    if at + HEADER_BYTES > len(data):
        return False
    header = header_at(data, at)
    whole = is_plausible_header(header) and at + header.size_bytes <= len(data)
    if not whole or header.base_offset < end_offset:
        return False
    try:
        check_crc(data, at)
    except RecordsError:
        return False
    return True
