"""A text with a mark under one of its characters, for a terminal. Pure."""

from __future__ import annotations

import unicodedata

_SHOWN_CHARACTERS = 36  # before and behind the mark


def marked(text: str, column: int) -> str:
    """Two lines: the part of the text around a character, which is counted from 1, and the mark."""
    at = max(0, min(column - 1, len(text)))
    begin, end = max(0, at - _SHOWN_CHARACTERS), at + _SHOWN_CHARACTERS
    before, behind = _one_line(text[begin:at]), _one_line(text[at:end])
    return f"{before}{behind}\n{' ' * sum(map(_cells, before))}^"


def _one_line(text: str) -> str:
    """What cannot be printed as `�`, so that each character has its place."""
    return "".join(one if one.isprintable() else "�" if not one.isspace() else " " for one in text)


def _cells(character: str) -> int:
    """How wide a terminal shows it."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
