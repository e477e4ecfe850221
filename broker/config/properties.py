"""Reads Kafka's ``server.properties`` (Java's property file syntax); the last of equal names wins.

Handled: comments with # and !, = : or blanks as separator, lines continued by a backslash, the
escapes \\t \\n \\r \\f \\uXXXX.
"""

from __future__ import annotations

import re

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<separator>\s*[=:]\s*|\s+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """The properties in a file's text."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if _is_continued(line):
            pending = line[:-1]
            continue
        pending = None
        lines.append(line)
    return [*lines, pending] if pending else lines


def _is_continued(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str) -> tuple[str, str]:
    match = _SEPARATOR.search(line)
    if match is None:
        return line, ""
    return line[: match.start("separator")], line[match.end("separator") :]


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED.get(code, code)

    return _ESCAPE.sub(character, text)
