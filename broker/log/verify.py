"""All segments of a log directory against their checksums, whether a broker runs on it or not.

Reads a disk and yields how much was read and each damaged range. Writes nothing, and does not
report what a running broker has not finished writing, truncating or deleting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from broker.disk.port import Disk, DiskError, PathMissing
from broker.log.audit import Damage, audit
from broker.log.batch_scanner import ScannedBatch
from broker.log.files import LOG, base_offset_of, is_partition, parse_directory


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """One damaged range of a file. ``to_offset`` -1: no valid batch follows in the file."""

    path: str
    topic: str
    partition: int
    position: int
    end_position: int
    from_offset: int
    to_offset: int
    fault: str


@dataclass(slots=True)
class VerifyResult:
    """What was read, and what was found."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    damaged: list[DamagedRange] = field(default_factory=list)


def verify(
    disk: Disk,
    directory: str,
    *,
    records: bool,
    pause: Callable[[], None],
    wanted: Callable[[str], bool] = lambda topic: True,
) -> Iterator[VerifyResult]:
    """Yields each partition's outcome; ``wanted`` selects topics.

    ``pause`` waits a moment: what seems damaged is checked twice, because a running broker writes
    to the newest segment, and its cleaner puts one segment in the place of several: then the file
    holds more than up to where the next one began.
    """
    for name in disk.listdir(directory):
        if is_partition(name) and wanted(parse_directory(name)[0]):
            outcome = VerifyResult(partitions=1)
            for base, end in _segments(disk, f"{directory}/{name}"):
                path = f"{directory}/{name}/{base:020d}{LOG}"
                damaged = _segment(disk, path, base, end, records, outcome)
                if damaged:
                    pause()
                    segments = dict(_segments(disk, f"{directory}/{name}"))
                    end = segments.get(base, end)
                    again = _segment(disk, path, base, end, records, VerifyResult())
                    damaged = [one for one in damaged if one in again]
                outcome.damaged += damaged
            yield outcome


def _segments(disk: Disk, directory: str) -> list[tuple[int, int | None]]:
    """Where each begins and the next one does."""
    try:
        names = disk.listdir(directory)
    except PathMissing:
        return []
    bases = sorted(b for n in names if n.endswith(LOG) and (b := base_offset_of(n)) is not None)
    return list(zip(bases, [*bases[1:], None], strict=True))


def _segment(
    disk: Disk, path: str, base: int, end: int | None, records: bool, outcome: VerifyResult
) -> list[DamagedRange]:
    topic, index = parse_directory(path.rpartition("/")[0])
    damaged = []
    try:
        file = disk.open(path)
        try:
            size = file.size()
            for one in audit(file, size, base, end_offset=end, records=records):
                outcome.batches += isinstance(one, ScannedBatch)
                if isinstance(one, Damage):
                    damaged.append(
                        DamagedRange(path, topic, index, one.position, one.end_position,
                               one.from_offset, one.to_offset, one.fault)
                    )  # fmt: skip
            outcome.segments += 1
            outcome.bytes += size
        finally:
            file.close()
    except PathMissing:
        return []  # retention has deleted it meanwhile
    except DiskError as error:
        damaged.append(DamagedRange(path, topic, index, 0, 0, base, -1, f"cannot be read: {error}"))
    return damaged
