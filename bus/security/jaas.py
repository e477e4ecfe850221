"""Login settings in the syntax of Java's JAAS: Kafka's keys `…sasl.jaas.config`, and whole files as
java.security.auth.login.config names them. Pure.

In: `MODULE required name="value" …;` as text, or sections of them. Out: `LoginModule`. Raises
JaasError, whose text has nothing of the settings: anything there may be a password. Never: a file
that is opened, or what a module does. The words are those of Java's StreamTokenizer as Kafka sets
it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

USER_PREFIX = "user_"
"""Before a name: the value is the password of this user (Kafka's PlainLoginModule)."""

_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
_SKIPPED = re.compile(r"[\x00-\x20]+|//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*", re.DOTALL)
_WORD = r"[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*"
"""Compiled where it is used: that takes 5 ms, and every broker imports this file."""
_NUMBER = re.compile(r"[0-9.\-][0-9.]*")
_ESCAPED = {
    "a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\x0b",
}  # fmt: skip
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


class JaasError(ValueError):
    """The text is no setting of one login module."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One module and its options."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, of the options `user_NAME`."""
        return {
            key.removeprefix(USER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(USER_PREFIX)
        }


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a quoted text or one character; numbers and characters are no words."""

    text: str
    is_word: bool = True

    def is_character(self, one: str) -> bool:
        return not self.is_word and self.text == one


def parse_jaas(text: str) -> LoginModule:
    """The one module of `text`. Raises JaasError."""
    tokens = _tokens(text)
    name = next(tokens, None)
    if name is None:
        raise JaasError("no login module is named")
    module = _module(name, tokens)
    if next(tokens, None) is not None:
        raise JaasError("there must be one login module only")
    return module


def parse_jaas_file(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The modules of each section, `NAME { MODULE required …; };`. Raises JaasError."""
    tokens = _tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    for name in tokens:
        if not name.is_word:
            raise JaasError("something stands where a section's name must")
        if name.text in sections:
            raise JaasError("a section stands twice")
        _expect(tokens, "{")
        sections[name.text] = tuple(_modules(tokens))
        _expect(tokens, ";")
    return sections


def _modules(tokens: Iterator[_Token]) -> Iterator[LoginModule]:
    """Up to the end of a section, one or more."""
    is_first = True
    for token in tokens:
        if token.is_character("}") and not is_first:
            return
        yield _module(token, tokens)
        is_first = False
    raise JaasError("a section must end with };")


def _expect(tokens: Iterator[_Token], character: str) -> None:
    token = next(tokens, None)
    if token is None or not token.is_character(character):
        raise JaasError("a section is NAME { MODULE required …; };")


def _module(name: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if not name.is_word:
        raise JaasError("it must begin with the name of a login module")
    flag = next(tokens, None)
    if flag is None or not flag.is_word or flag.text.lower() not in _CONTROL_FLAGS:
        flags = ", ".join(_CONTROL_FLAGS)
        raise JaasError(f"after the login module's name must stand one of {flags}")
    return LoginModule(name.text, _options(tokens))


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key in tokens:
        if key.is_character(";"):
            return options
        if not key.is_word:
            raise JaasError("something stands where an option's name or ; must")
        equals, value = next(tokens, None), next(tokens, None)
        if equals is None or not equals.is_character("=") or value is None or not value.is_word:
            raise JaasError('an option has no value; write NAME="VALUE"')
        options[key.text] = value.text
    raise JaasError("the login module must end with ;")


def _tokens(text: str) -> Iterator[_Token]:
    word_at = re.compile(_WORD).match
    at = 0
    while at < len(text):
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
        elif text[at] in "\"'":
            token, at = _quoted(text, at)
            yield token
        elif word := word_at(text, at):
            at = word.end()
            yield _Token(word[0])
        elif number := _NUMBER.match(text, at):
            at = number.end()
            yield _Token(number[0], is_word=False)
        else:
            yield _Token(text[at], is_word=False)
            at += 1


def _quoted(text: str, at: int) -> tuple[_Token, int]:
    """A quoted text ends with its quote, or with its line, as in Java."""
    quote, end = text[at], at + 1
    while end < len(text) and text[end] not in (quote, "\n", "\r"):
        end += 2 if text[end] == "\\" else 1
    content = _ESCAPE.sub(_unescaped, text[at + 1 : end])
    closed = end < len(text) and text[end] == quote
    return _Token(content), end + 1 if closed else end


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPED.get(code, code)
