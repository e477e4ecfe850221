"""How far each compacted partition is cleaned, by the brokers' own pages of metrics (pure).

In: pages as brokers show them. Out: a row per broker and partition. Never: a request; an error for
a page that is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

_MANAGER = "kafka_log_logcleanermanager_"
DIRTY_PERCENT = f"{_MANAGER}dirtypercent"
OLDEST_DIRTY_MS = f"{_MANAGER}oldestdirtyrecordagems"
LAST_CLEAN_MS = f"{_MANAGER}lastcleanagems"
UNCLEANABLE = f"{_MANAGER}uncleanable"
UNCLEANABLE_FOR_MS = f"{_MANAGER}uncleanableforms"
SINCE_LAST_RUN_MS = f"{_MANAGER}time_since_last_run_ms"
DEAD = "kafka_log_logcleaner_deadthreadcount"

_LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? ([^ ]+)(?: [0-9]+)?")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPED = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class CleanedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a compacted partition. Ages in milliseconds; None: there is no such record,
    and no pass of this process yet. `uncleanable_ms`: for how long it cannot be cleaned, where its
    broker says so; `fault`: what kind of thing keeps it from that; `reason`: its broker's words."""

    broker: int
    topic: str
    partition: int
    dirty_percent: float | None = None
    oldest_dirty_ms: int | None = None
    last_clean_ms: int | None = None
    uncleanable: bool = False
    uncleanable_ms: int | None = None
    fault: str = ""
    reason: str = ""


class BrokerCleaner(msgspec.Struct, frozen=True, kw_only=True):
    """The cleaner of one broker. `answers`: whether its page tells of one at all."""

    broker: int
    answers: bool
    since_last_run_ms: int | None = None
    dies: bool = False
    partitions: list[CleanedPartition] = []


class FaultTexts(Protocol):
    """The words for a value, in one language."""

    def word(self, group: str, value: str) -> str: ...


class _Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


def cleaner_of(broker: int, page: str) -> BrokerCleaner:
    """What a broker's page says; a page without a cleaner (Apache Kafka's, an earlier version's)
    does not answer."""
    figures: dict[tuple[str, int], dict[str, float]] = {}
    whys: dict[tuple[str, int], Mapping[str, str]] = {}
    own: dict[str, float] = {}
    for name, labels, value in _samples(page):
        index = labels.get("partition", "")
        if name in (SINCE_LAST_RUN_MS, DEAD):
            own[name] = value
        elif "topic" in labels and index.isdecimal() and len(index) < 10:
            place = (labels["topic"], int(index))
            figures.setdefault(place, {})[name] = value
            if name == UNCLEANABLE_FOR_MS:
                whys[place] = labels
    return BrokerCleaner(
        broker=broker,
        answers=SINCE_LAST_RUN_MS in own,
        since_last_run_ms=_whole(own.get(SINCE_LAST_RUN_MS)),
        dies=own.get(DEAD, 0) > 0,
        partitions=[
            CleanedPartition(
                broker=broker, topic=topic, partition=index,
                dirty_percent=found.get(DIRTY_PERCENT),
                oldest_dirty_ms=_whole(found.get(OLDEST_DIRTY_MS)),
                last_clean_ms=_whole(found.get(LAST_CLEAN_MS)),
                uncleanable=found.get(UNCLEANABLE, 0) > 0 or (topic, index) in whys,
                uncleanable_ms=_whole(found.get(UNCLEANABLE_FOR_MS)),
                fault=whys.get((topic, index), {}).get("fault", ""),
                reason=whys.get((topic, index), {}).get("reason", ""),
            )
            for (topic, index), found in sorted(figures.items())
        ],
    )  # fmt: skip


def worst_first(cleaners: Iterable[BrokerCleaner]) -> list[CleanedPartition]:
    """Those that cannot be cleaned, then the dirtiest."""
    rows = [row for cleaner in cleaners for row in cleaner.partitions]
    return sorted(
        rows,
        key=lambda one: (
            not one.uncleanable, -(one.dirty_percent or 0), one.topic, one.partition, one.broker,
        ),
    )  # fmt: skip


def why_uncleanable(one: CleanedPartition, words: FaultTexts) -> str:
    """Why a partition cannot be cleaned, and one sentence on what to do about it. A broker of an
    earlier version gives no reason."""
    advice = words.word("uncleanable", one.fault or "unknown")
    if advice == one.fault:  # a kind that only a later broker knows
        advice = words.word("uncleanable", "unknown")
    return f"{one.reason}. {advice}" if one.reason else advice


def _samples(page: str) -> Iterator[_Sample]:
    """Those of the cleaner."""
    for line in page.split("\n"):
        if not line.startswith((_MANAGER, DEAD)) or (found := _LINE.fullmatch(line)) is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield _Sample(found[1], _labels(found[2] or ""), value)


def _labels(text: str) -> dict[str, str]:
    return {
        name: re.sub(r"\\.", lambda escaped: _ESCAPED.get(escaped[0], escaped[0]), value)
        for name, value in _LABEL.findall(text)
    }


def _whole(value: float | None) -> int | None:
    """-1 and what is no number: nothing is known."""
    return int(value) if value is not None and 0 <= value < 1 << 63 else None
