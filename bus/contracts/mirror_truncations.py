"""Where a former primary's logs were cut when it came back: a key of each of its topics. Pure.

In/out: `TRUNCATIONS_KEY`'s value. Never: a client. Who keeps positions outside of the bus (the
record store) reads it: behind a cut there are other records by now than those it has read.

`EPOCH:PARTITION=CUT-FORMER_END,…;EPOCH~:…`, the newest epoch last; `~` until all of them are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TRUNCATIONS_KEY = "mirror.cuts"
MAX_EPOCHS = 8
"""A store whose applications have not run for so many forced switches of its site is read anew by
hand."""
_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_CUT = f"{_NUMBER}={_NUMBER}-{_NUMBER}"
_EPOCH = re.compile(f"({_NUMBER})(~?):({_CUT}(?:,{_CUT})*)")


class LogTruncation(NamedTuple):
    """[cut, former_end) were the former primary's own records; others stand there now."""

    cut: int
    former_end: int


class TopicTruncations(NamedTuple):
    """Of one topic under one site epoch, by partition. Not `is_done`: some may not be made yet, and
    whoever went back now would read the former records again."""

    epoch: int
    partitions: Mapping[int, LogTruncation]
    is_done: bool = True


def parse_truncations(text: str) -> tuple[TopicTruncations, ...]:
    """Of a key's value; none where it is empty. Raises ValueError."""
    found = []
    for part in filter(None, text.split(";")):
        matched = _EPOCH.fullmatch(part)
        if matched is None:
            raise ValueError(f"{TRUNCATIONS_KEY}: {part[:100]!r} is no cut")
        partitions = dict(map(_parse_partition, matched[3].split(",")))
        found.append(TopicTruncations(int(matched[1]), partitions, not matched[2]))
    epochs = [each.epoch for each in found]
    if epochs != sorted(set(epochs)):
        raise ValueError(f"{TRUNCATIONS_KEY}: epochs are not in order: {epochs}")
    return tuple(found)


def _parse_partition(text: str) -> tuple[int, LogTruncation]:
    partition, _, offsets = text.partition("=")
    cut, _, former_end = offsets.partition("-")
    return int(partition), LogTruncation(int(cut), int(former_end))


def truncations_text(cuts: Iterable[TopicTruncations]) -> str:
    """The key's value."""
    return ";".join(
        f"{each.epoch}{'' if each.is_done else '~'}:"
        + ",".join(f"{at}={cut}-{end}" for at, (cut, end) in sorted(each.partitions.items()))
        for each in cuts
    )


def with_truncation(
    cuts: Iterable[TopicTruncations], epoch: int, partitions: Mapping[int, LogTruncation]
) -> tuple[TopicTruncations, ...]:
    """These as well, to be made. What was said before of the same epoch stays: a command that is
    repeated finds logs that end at their cut."""
    kept = {each.epoch: each for each in cuts}
    said = kept.get(epoch, TopicTruncations(epoch, {})).partitions
    kept[epoch] = TopicTruncations(epoch, {**partitions, **said}, is_done=False)
    newest = sorted(number for number, each in kept.items() if each.partitions)[-MAX_EPOCHS:]
    return tuple(kept[number] for number in newest)


def all_done(cuts: Iterable[TopicTruncations]) -> tuple[TopicTruncations, ...]:
    """Every one of them is made."""
    return tuple(each._replace(is_done=True) for each in cuts)


def first_truncation(
    cuts: Iterable[TopicTruncations], partition: int, after_epoch: int
) -> LogTruncation | None:
    """The lowest cut of a partition since an epoch, with the largest end that it had; None: its log
    is what it was."""
    found = [
        each.partitions[partition]
        for each in cuts
        if each.is_done and each.epoch > after_epoch and partition in each.partitions
    ]
    if not found:
        return None
    return LogTruncation(min(one.cut for one in found), max(one.former_end for one in found))
