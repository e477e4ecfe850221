"""Which topics are mirrored: a white list and a black list of RE2 patterns. Pure.

In: patterns and names. Out: yes or no, with the reason. Never: a pattern that can stall us; RE2
matches in time linear in the name, and a pattern's program is bounded in memory.

A pattern matches a whole name. The black list wins over the white one, and `NEVER` over both: two
sites would both act on commands, what the applications of a site derive they derive at both, and
`heartbeats` and what ends in `internal` is what mirrors keep for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dr_mirror.policy.topic_names import MIRRORS_OWN

WHITE_LIST = (r"data\..*", r"meter\.sent", r"meter\.arrived", r"quarantine\.records")
BLACK_LIST: tuple[str, ...] = ()
NEVER = (
    r"__.*", r"control\..*", r"state\..*", r"event\..*", r"meter\.latency", r"meter\.quality",
    *MIRRORS_OWN,
)  # fmt: skip

MAX_PATTERN_CHARACTERS = 1000
"""A list of a hundred topic names in one pattern; longer ones are several patterns."""
MAX_PROGRAM_BYTES = 1 << 20
"""What RE2 may build of one pattern."""


class SelectionError(ValueError):
    """A pattern that cannot be used; the text names it."""


class TopicSelection:
    """The lists, compiled."""

    def __init__(
        self,
        white_list: Iterable[str] = WHITE_LIST,
        black_list: Iterable[str] = BLACK_LIST,
        never: Sequence[Any] | None = None,
    ) -> None:
        """`never`: compiled patterns in place of those of topics. Raises SelectionError."""
        self._never = _NEVER if never is None else never
        self._white = [_compile(each) for each in white_list]
        self._black = [_compile(each) for each in black_list]

    def selects(self, topic: str) -> bool:
        """Whether this topic is mirrored."""
        if any(each.fullmatch(topic) for each in self._never):
            return False
        if any(each.fullmatch(topic) for each in self._black):
            return False
        return any(each.fullmatch(topic) for each in self._white)


def _compile(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise SelectionError(
            f"{pattern[:40]!r}… has more than {MAX_PATTERN_CHARACTERS} characters; write several"
        )
    import re2  # half a megabyte and 40 ms that only who mirrors needs, not all who read settings

    options = re2.Options()
    options.max_mem = MAX_PROGRAM_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        words = error.args[0] if error.args else ""
        text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        raise SelectionError(f"{pattern!r} is no pattern of RE2: {text}") from None


def never_patterns(patterns: Iterable[str]) -> list[Any]:
    """Compiled."""
    return [_compile(each) for each in patterns]


_NEVER = never_patterns(NEVER)
