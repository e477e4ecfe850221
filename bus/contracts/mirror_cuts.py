"""Where a former primary's logs were cut when it came back: a key of each of its topics. Pure.

In/out: `CUTS_KEY`'s value. Never: a client. Who keeps positions outside of the bus (the record
store) reads it: behind a cut there are other records by now than those it has read.

`EPOCH:PARTITION=CUT-FORMER_END,…;EPOCH~:…`, the newest epoch last; `~` until all of them are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

CUTS_KEY = "mirror.cuts"
MAX_EPOCHS = 8
"""A store whose applications have not run for so many forced switches of its site is read anew by
hand."""
_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_CUT = f"{_NUMBER}={_NUMBER}-{_NUMBER}"
_EPOCH = re.compile(f"({_NUMBER})(~?):({_CUT}(?:,{_CUT})*)")


class LogCut(NamedTuple):
    """[cut, former_end) were the former primary's own records; others stand there now."""

    cut: int
    former_end: int


class TopicCuts(NamedTuple):
    """Of one topic under one site epoch, by partition. Not `is_done`: some may not be made yet, and
    whoever went back now would read the former records again."""

    epoch: int
    partitions: Mapping[int, LogCut]
    is_done: bool = True


def parse_cuts(text: str) -> tuple[TopicCuts, ...]:
    """Of a key's value; none where it is empty. Raises ValueError."""
    found = []
    for part in filter(None, text.split(";")):
        matched = _EPOCH.fullmatch(part)
        if matched is None:
            raise ValueError(f"{CUTS_KEY}: {part[:100]!r} is no cut")
        partitions = dict(map(_parse_partition, matched[3].split(",")))
        found.append(TopicCuts(int(matched[1]), partitions, not matched[2]))
    epochs = [each.epoch for each in found]
    if epochs != sorted(set(epochs)):
        raise ValueError(f"{CUTS_KEY}: epochs are not in order: {epochs}")
    return tuple(found)


def _parse_partition(text: str) -> tuple[int, LogCut]:
    partition, _, offsets = text.partition("=")
    cut, _, former_end = offsets.partition("-")
    return int(partition), LogCut(int(cut), int(former_end))


def cuts_text(cuts: Iterable[TopicCuts]) -> str:
    """The key's value."""
    return ";".join(
        f"{each.epoch}{'' if each.is_done else '~'}:"
        + ",".join(f"{at}={cut}-{end}" for at, (cut, end) in sorted(each.partitions.items()))
        for each in cuts
    )


def with_cut(
    cuts: Iterable[TopicCuts], epoch: int, partitions: Mapping[int, LogCut]
) -> tuple[TopicCuts, ...]:
    """These as well, to be made. What was said before of the same epoch stays: a command that is
    repeated finds logs that end at their cut."""
    kept = {each.epoch: each for each in cuts}
    said = kept.get(epoch, TopicCuts(epoch, {})).partitions
    kept[epoch] = TopicCuts(epoch, {**partitions, **said}, is_done=False)
    newest = sorted(number for number, each in kept.items() if each.partitions)[-MAX_EPOCHS:]
    return tuple(kept[number] for number in newest)


def all_done(cuts: Iterable[TopicCuts]) -> tuple[TopicCuts, ...]:
    """Every one of them is made."""
    return tuple(each._replace(is_done=True) for each in cuts)


def first_cut(cuts: Iterable[TopicCuts], partition: int, after_epoch: int) -> LogCut | None:
    """The lowest cut of a partition since an epoch, with the largest end that it had; None: its log
    is what it was."""
    found = [
        each.partitions[partition]
        for each in cuts
        if each.is_done and each.epoch > after_epoch and partition in each.partitions
    ]
    if not found:
        return None
    return LogCut(min(one.cut for one in found), max(one.former_end for one in found))
