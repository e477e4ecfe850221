"""`ssl.principal.mapping.rules`: which user the name in a certificate is. Pure.

In: Kafka's rules, `RULE:pattern/replacement/[LU]` and `DEFAULT`, separated by commas; a name. Out:
a user's name. Raises MappingRuleError for what is no rule. Never: a name that no rule fits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_NEXT = re.compile(rf"\s*(?:{_RULE})\s*(?:,\s*|$)")
_REFERENCE = re.compile(r"\$(\d)|\\(.)|(.)", re.DOTALL)


class MappingRuleError(Exception):
    """The text is no list of rules."""


@dataclass(frozen=True, slots=True)
class PrincipalRule:
    """One rule; `pattern` is None for DEFAULT, which fits every name and leaves it as it is."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def user(self, name: str) -> str | None:
        """The user, if the rule fits the whole of the name."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        user = self.pattern.sub(lambda found: replaced(self.replacement, found), name)
        return {"L": user.lower(), "U": user.upper()}.get(self.case, user)


def replaced(replacement: str, found: re.Match[str]) -> str:
    """As Java's replaceAll: $1 is a group, \\ takes what follows as it is; a number of no group
    stands for itself."""
    groups = found.re.groups
    written, at, text = [], 0, replacement
    while at < len(text):
        match = _REFERENCE.match(text, at)
        if match is None:
            break
        at = match.end()
        if match[1] is None:
            written.append(match[2] or match[3] or "")
            continue
        end = at
        number = match[1]
        while end < len(text) and text[end].isdecimal() and int(number + text[end]) <= groups:
            number += text[end]
            end += 1
        if int(number) > groups:
            written.append("$" + number)
        else:
            written.append(found[int(number)] or "")
        at = end
    return "".join(written)


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """Rules in their order."""

    rules: tuple[PrincipalRule, ...]

    def user(self, name: str) -> str | None:
        """By the first rule that fits; None: there is none."""
        return next((user for one in self.rules if (user := one.user(name)) is not None), None)


def parse_principal_rules(text: str) -> PrincipalRules:
    """Raises MappingRuleError, which names the part that is no rule."""
    found, at, text = [], 0, text.strip()
    while at < len(text):
        match = _NEXT.match(text, at)
        if match is None or match.end() == at:
            raise MappingRuleError(f"{text[at:]!r} does not begin with DEFAULT or "
                            "RULE:pattern/replacement/, or with L or U after it")  # fmt: skip
        at = match.end()
        if match[1]:
            found.append(PrincipalRule(None))
            continue
        try:
            pattern = re.compile(match[2])
        except re.error as error:
            raise MappingRuleError(f"{match[2]!r} is no regular expression here: {error}") from None
        found.append(PrincipalRule(pattern, match[3], match[4]))
    return PrincipalRules(tuple(found) or (PrincipalRule(None),))
