"""`sasl.kerberos.principal.to.local.rules`: which user a Kerberos name is. Pure.

In: Kafka's rules, `RULE:[n:format](match)s/from/to/g/L`, and `DEFAULT`; the realm of DEFAULT; a
name. Out: a user's name. Raises LocalNameError for what is no rule or no name. Never: a user with
`/` or `@` in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from broker.security.principal_rules import replaced

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = (
    r"(?P<default>DEFAULT)"
    r"|(?:(?:RULE:\[(?P<parts>[0-9]*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?)/?(?P<case>[LU])?)"
)
_PARAMETER = re.compile(r"\$([0-9]*)")
_REFERENCE = re.compile(r"\\.|\\|\$([0-9]?)", re.DOTALL)
_SHORT = re.compile(r"[^/@]*")


class LocalNameError(Exception):
    """The text is no rule, or no Kerberos name, or a rule makes no user's name of it."""


@dataclass(frozen=True, slots=True)
class LocalNameRule:
    """One rule; `format` is None for DEFAULT, which takes the first part of names of its realm."""

    parts: int = 0
    format: str | None = None
    match: re.Pattern[str] | None = None
    old: re.Pattern[str] | None = None
    new: str = ""
    is_for_all: bool = False
    case: str = ""

    def user(self, name: Sequence[str], realm: str) -> str | None:
        """The user, if the rule fits; `name` is the realm and one or two parts. Raises
        LocalNameError."""
        if self.format is None:
            user = name[1] if name[0] == realm else None
        else:
            user = self._user(name)
        if user is None:
            return None
        if not _SHORT.fullmatch(user):
            raise LocalNameError(f"a rule makes {user!r} of it, which is no short name")
        return {"L": user.lower(), "U": user.upper()}.get(self.case, user)

    def _user(self, name: Sequence[str]) -> str | None:
        if len(name) - 1 != self.parts:
            return None
        base = _PARAMETER.sub(lambda found: _part(found[1], name), self.format or "")
        if self.match is not None and not self.match.fullmatch(base):
            return None
        if self.old is None:
            return base
        return self.old.sub(self._replaced, base, 0 if self.is_for_all else 1)

    def _replaced(self, found: re.Match[str]) -> str:
        for reference in _REFERENCE.finditer(self.new):
            number = reference[1]
            if reference[0] == "\\" or number == "" or int(number or 0) > found.re.groups:
                raise LocalNameError(f"{self.new!r} has {reference[0]}, which is no group of it")
        return replaced(self.new, found)


def _part(number: str, name: Sequence[str]) -> str:
    if not number or int(number) >= len(name):
        raise LocalNameError(f"${number} is none of the {len(name) - 1} parts of this name")
    return name[int(number)]


@dataclass(frozen=True, slots=True)
class LocalNames:
    """Rules in their order, and the realm of DEFAULT."""

    rules: tuple[LocalNameRule, ...]
    realm: str

    def user(self, principal: str) -> str | None:
        """By the first rule that fits; None: there is none. Raises LocalNameError."""
        found = _NAME.fullmatch(principal)
        if found is None:
            if "@" in principal:
                raise LocalNameError(f"{principal!r} is no Kerberos name")
            return principal
        first, second, realm = found.groups()
        name = (realm, first) if second is None else (realm, first, second)
        users = (rule.user(name, self.realm) for rule in self.rules)
        return next((user for user in users if user is not None), None)


def parse_local_names(texts: Iterable[str], realm: str) -> LocalNames:
    """Raises LocalNameError, which names what is no rule."""
    return LocalNames(tuple(_rule(text) for text in texts), realm)


def _rule(text: str) -> LocalNameRule:
    found = re.fullmatch(_RULE, text)
    if found is None:
        raise LocalNameError(
            f"{text!r} is neither DEFAULT nor RULE:[n:format](match)s/from/to/g, with /L or /U "
            "after it"
        )
    if found["default"]:
        return LocalNameRule()
    if not found["parts"]:
        raise LocalNameError(f"{text!r} has no number of parts")
    return LocalNameRule(
        int(found["parts"]), found["format"], _compiled(found["match"]), _compiled(found["old"]),
        found["new"] or "", found["all"] is not None, found["case"] or "",
    )  # fmt: skip


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise LocalNameError(f"{pattern!r} is no regular expression here: {error}") from None
