"""Which of two mirrors may append: the newer generation. Pure.

In: the clock, the generations that the target's topics carry. Out: a generation above them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

GENERATION_KEY = "mirror.generation"
"""The topic config at the target that keeps the fence over a change of leaders."""


def generation_of(configs: Mapping[str, str]) -> int:
    """Of one topic; 0 where none was set or it is no number."""
    text = configs.get(GENERATION_KEY, "0")
    return int(text) if text.isdecimal() else 0


def next_generation(now_ms: int, topics: Iterable[Mapping[str, str]]) -> int:
    """Of an instance that starts now: its clock, or one more than any before it where clocks are
    apart."""
    return max(now_ms, 1 + max(map(generation_of, topics), default=0))
