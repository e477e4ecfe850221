"""Regular expressions of operators, by RE2: linear in time, whatever is written. Pure.

In: a pattern. Out: a test of values, and a text that every value it accepts contains. Never:
Python's `re` for what a person wrote, which may take years for one value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bus.domain.expressions.tree import ExpressionError
from bus.domain.rule_values import normal

MAX_PATTERN_CHARACTERS = 200
MAX_PROGRAM_BYTES = 128 * 1024  # RE2's budget for one pattern; it gets slower then, never wrong
# Escapes that are one atom and name no character; of any other nothing is concluded.
_CLASS_ESCAPES = frozenset("dDwWsSbBAz")
_repeat = re.compile(r"\{\d+(,\d*)?\}").match
"""Of ours: a repetition is a plain text of digits, in time that is bounded by its length."""


def compiled(pattern: str) -> Callable[[str], bool]:
    """Whether a whole value in comparable form matches. Raises `ExpressionError`."""
    import re2  # 40 ms that only who compiles a pattern needs, not all who read rules

    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ExpressionError(
            f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters", "pattern_length"
        )
    options = re2.Options()
    options.max_mem = MAX_PROGRAM_BYTES
    options.log_errors = False
    options.case_sensitive = False
    options.never_capture = True
    try:
        fullmatch = re2.compile(pattern, options).fullmatch
    except (re2.error, UnicodeError) as error:
        raise ExpressionError(
            f"{pattern!a} is no regular expression of RE2: {_reason(error)}", "no_pattern"
        ) from None
    return lambda value: fullmatch(value) is not None


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is no text in UTF-8"
    words = error.args[0] if error.args else ""
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)


def required_text(pattern: str) -> str:
    """The longest text that each value contains which the pattern accepts, in comparable form;
    empty where that is not certain. It reads plain characters outside of brackets only."""
    try:
        return max(_runs(pattern), key=len, default="")
    except _UncertainError:
        return ""


class _UncertainError(Exception):
    """Something stands there that this reading does not know."""


def _runs(pattern: str) -> Iterator[str]:
    run, at, depth = "", 0, 0
    while at < len(pattern):
        sign, length = pattern[at], 1
        if sign == "\\":
            _check_escape(pattern, at)
            length = 2
        elif sign == "[":
            length = _class_end(pattern, at) - at
        elif sign in "*?{":
            run = run[:-1]
            found = _repeat(pattern, at)
            length = found.end() - at if found else 1
        elif sign == "|" and not depth:
            raise _UncertainError
        depth += (sign == "(") - (sign == ")")
        if not depth and _is_plain(sign):
            run += sign.upper()
        else:
            yield run
            run = ""
        at += length
    yield run


def _is_plain(sign: str) -> bool:
    """One character that values in comparable form have as it is."""
    is_one_case = sign.isascii() or sign.upper() == sign.lower()
    return sign.isalnum() and is_one_case and normal(sign) == sign.upper()


def _check_escape(pattern: str, at: int) -> None:
    sign = pattern[at + 1 : at + 2]
    if sign not in _CLASS_ESCAPES and (not sign or sign.isalnum()):
        raise _UncertainError


def _class_end(pattern: str, at: int) -> int:
    """Where the class in brackets that begins there is over."""
    at += 1
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"
    while pattern[at : at + 1] != "]":
        if at >= len(pattern) or pattern.startswith("[:", at):
            raise _UncertainError
        if pattern[at] == "\\":
            _check_escape(pattern, at)
            at += 1
        at += 1
    return at + 1
