"""Checks the metadata log before it is opened: is anything missing that was stored?

Reads only. A torn tail is what a crash leaves, and recovery truncates it; this check finds what no
crash of a process leaves: a log that ends before its flushed end, a flushed epoch or a clean
shutdown, damage in front of valid batches, a start that no snapshot covers, an election state
without its log. Damage above the flushed end is what a loss of power leaves (`unflushed_batches`),
also with valid batches behind it; where the flushed end is not known, it is damage.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.storage import flushed_end as flushed_end_file
from broker.controller.kraft.storage import state_file
from broker.controller.kraft.storage.state_file import read_state
from broker.controller.kraft.storage.unflushed_batches import UnflushedBatches
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
    disk: Disk,
    directory: str,
    latest: OffsetAndEpoch | None,
    *,
    flushed_end: int | None = None,
    is_only_voter: bool = False,
) -> UnflushedBatches | None:
    """What is to be put aside before the log is opened. Raises MetadataLogDamaged unless it may be.
    `flushed_end`: up to where it was flushed; None where that is not known."""
    try:
        return _check(disk, directory, latest, flushed_end)
    except _Damage as fault:
        remedy = ONLY_VOTER_REMEDY if is_only_voter else REMEDY
        text = f"The metadata log in {directory} {fault}. Remedy: {remedy}."
        raise MetadataLogDamaged(text) from None


def _check(
    disk: Disk, directory: str, latest: OffsetAndEpoch | None, flushed_end: int | None
) -> UnflushedBatches | None:
    names = disk.listdir(directory)
    bases = sorted(
        base for name in names if name.endswith(LOG) and (base := base_offset_of(name)) is not None
    )
    if not bases:
        if not (latest and latest.offset):
            _check_state_file(disk, directory)
        _check_flushed_end(0, flushed_end, latest)
        return None
    if bases[0] > (latest.offset if latest is not None else 0):
        raise _Damage(f"begins at offset {bases[0]} and no snapshot covers that")
    state = read_state(disk, f"{directory}/{state_file.FILE_NAME}")
    walk = _LogWalk(disk, directory, flushed_end, state.leader_epoch if state else None)
    unflushed = walk.over(bases)
    _check_epochs(disk, directory, walk.end)
    _check_clean_shutdown(names, directory, walk.end)
    _check_flushed_end(walk.end, flushed_end, latest)
    return unflushed


@dataclass(slots=True)
class _LogWalk:
    """Over all batches, from the first segment on. Invariant: everything below `end` is sound.

    `last_epoch`: this node has taken part in no later one; None where its state is not known.
    `epoch`: of the batch before `end`.
    """

    disk: Disk
    directory: str
    flushed_end: int | None
    last_epoch: int | None
    end: int = 0
    epoch: int = 0

    def over(self, bases: list[int]) -> UnflushedBatches | None:
        """What is to be put aside behind the sound part."""
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            unflushed = self._segment(base, is_last=following is None)
            if unflushed is not None:
                return unflushed
            if following is not None and self.end > following:
                raise _Damage(f"has two segments with offset {following}")
        return None

    def _segment(self, base: int, *, is_last: bool) -> UnflushedBatches | None:
        path = f"{self.directory}/{base:020d}{LOG}"
        size = self.disk.size_of(path)
        file = self.disk.open(path)
        try:
            position, fault = self._sound_part(file, base, size)
            if not fault:
                return None
            has_more = _has_valid_batch_after(file, position, size, self.end)
        finally:
            file.close()
        if is_last and not has_more:
            return None  # a torn tail
        if self.flushed_end is not None and self.end >= self.flushed_end:
            return UnflushedBatches(base, position, self.end, fault)
        if has_more:
            raise _Damage(
                f"is damaged at byte {position} of {path.rpartition('/')[2]} ({fault}), "
                "with sound batches behind it",
            )
        return None

    def _sound_part(self, file: File, base: int, size: int) -> tuple[int, str]:
        """Where it ends in a segment, and what is wrong there; the offset and the epoch of a batch
        lie outside its CRC."""
        walk = BatchScanner(file, 0, size, base_offset=base, crc_from=0)
        self.end = base
        for found in walk:
            header = found.header
            fault = self._fault_of(header.base_offset, header.partition_leader_epoch)
            if fault:
                return found.position, fault
            self.end, self.epoch = header.end_offset, header.partition_leader_epoch
        return walk.position, walk.fault

    def _fault_of(self, offset: int, epoch: int) -> str:
        if offset != self.end:
            return f"offset {offset} comes after {self.end}"
        if epoch < self.epoch:
            return f"epoch {epoch} comes after {self.epoch}"
        if self.last_epoch is not None and epoch > self.last_epoch:
            return f"epoch {epoch}, and this node has seen {self.last_epoch} at most"
        return ""


def _check_flushed_end(end: int, flushed_end: int | None, latest: OffsetAndEpoch | None) -> None:
    """A log that a snapshot replaces may end before it: the log restarts after the snapshot."""
    covered = latest.offset if latest is not None else 0
    if flushed_end is not None and end < flushed_end and covered < flushed_end:
        raise _Damage(
            f"ends at offset {end}, but was flushed up to {flushed_end} (if Apache Kafka has run "
            f"on this directory since and cut it, delete {flushed_end_file.FILE_NAME} in it)"
        )


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
