"""What a page's address says beyond its path (pure): search, filters, the open record.

In: a query as a browser sends it, values as a page shows them. Out: values by name, which of them
cannot be read, an address. Never: a value that is dropped: the page would answer another question
than the one asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import get_args
from urllib.parse import parse_qsl, urlencode

from bus.domain.matchable import MATCHABLE
from bus.domain.searched_area import MAX_AREA_CHARACTERS, AreaFault, read_area
from bus.domain.tolerant_search import SEARCH_TOLERANCES
from monitor.api.views import KINDS as KINDS
from monitor.api.views import MAX_TEXT as MAX_TEXT
from monitor.api.views import SEVERITIES as SEVERITIES
from monitor.api.views import STAGES as STAGES
from monitor.questions.question import QuestionKind

QUESTION_KINDS = ("", *get_args(QuestionKind))
PLACES = ("", "device", "checkpoint", "district")
SCOPES = ("all", "district", "device")
DISTRICTS = ("", "all")
"""Whose alarms are shown: empty: of who looks."""
CASE_DAYS = ("1", "7", "30", "90", "400")
"""Of how many days alarms of a case are shown."""
SPANS = {"hour": 60, "six": 360, "day": 1440, "week": 10080}  # minutes
FIRST_YEAR, LAST_YEAR = 1970, 9998  # what has epoch milliseconds in every zone


@dataclass(frozen=True, slots=True)
class AddressField:
    """One value of a page: its name in the address, what it may be, what it is when left out."""

    name: str
    valid: Callable[[str], bool]
    default: str = ""
    most: int = MAX_TEXT
    """Characters."""


@dataclass(frozen=True, slots=True)
class PageAddress:
    """What an address says of a page's fields: as it was given, and what of it cannot be read."""

    given: Mapping[str, str]
    """By field; the default where the address has none."""
    wrong: frozenset[str]

    def value(self, field: str) -> str:
        """What is asked; empty for a field that cannot be read, or that the page does not have."""
        return "" if field in self.wrong else self.given.get(field, "")


def read_address(fields: tuple[AddressField, ...], query: str) -> PageAddress:
    """Every field of the page; what else the query says is not looked at."""
    return address_of(fields, dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True)))


def address_of(fields: tuple[AddressField, ...], given: Mapping[str, str]) -> PageAddress:
    """These values, or the default where one is not given. A longer one than any that is valid is
    cut, and stays invalid."""
    wanted = {f.name: given.get(f.name, f.default)[: f.most + 1] for f in fields}
    return PageAddress(wanted, frozenset(f.name for f in fields if not f.valid(wanted[f.name])))


def format_address(path: str, fields: tuple[AddressField, ...], given: Mapping[str, str]) -> str:
    """The shortest address that `read_address` reads as these values, wrong ones among them."""
    found = address_of(fields, given).given
    changed = {f.name: found[f.name] for f in fields if found[f.name] != f.default}
    return f"{path}?{urlencode(changed)}" if changed else path


def is_text(value: str) -> bool:
    """Printable and short; empty too."""
    return len(value) <= MAX_TEXT and value.isprintable() and value == value.strip()


def is_area(value: str) -> bool:
    """A polygon, or empty."""
    try:
        return not value or bool(read_area(value))
    except AreaFault:
        return False


def is_day(value: str) -> bool:
    """A date as ISO 8601 writes it, or empty."""
    return not value or _is_iso(value, date.fromisoformat)


def is_moment(value: str) -> bool:
    """A date with a time as ISO 8601 writes it, or empty."""
    return not value or _is_iso(value, datetime.fromisoformat)


def _is_iso(value: str, read: Callable[[str], date]) -> bool:
    try:
        year = read(value).year
    except ValueError:
        return False
    return is_text(value) and FIRST_YEAR <= year <= LAST_YEAR


def is_number(value: str) -> bool:
    """A number as people write one, or empty."""
    try:
        return not value or (is_text(value) and isfinite(float(value)))
    except ValueError:
        return False


def one_of(name: str, choices: tuple[str, ...], default: str = "") -> AddressField:
    """A field with a fixed set of values."""
    return AddressField(name, choices.__contains__, default)


RECORD, ALARM, REJECTED = (AddressField(name, is_text) for name in ("record", "alarm", "rejected"))
_SEARCH = (
    AddressField("plate", is_text),
    AddressField("checkpoint", is_text),
    AddressField("from", is_moment),
    AddressField("until", is_moment),
)
FIELDS: dict[str, tuple[AddressField, ...]] = {
    "live": (one_of("districts", DISTRICTS), RECORD, ALARM),
    "map": (
        AddressField("target", is_text),
        AddressField("checkpoint", is_text),
        AddressField("find", is_text),
        AddressField("plate", is_text),
        AddressField("from", is_moment),
        AddressField("until", is_moment),
    ),
    "watch": (
        AddressField("plate", is_text),
        one_of("kind", ("", *MATCHABLE)),
        AddressField("rule", is_text),
    ),
    "cases": (
        AddressField("case", is_text), AddressField("begins", is_text),
        one_of("days", CASE_DAYS, "7"), ALARM, RECORD,
    ),
    "lists": (AddressField("list", is_text), AddressField("plate", is_text)),
    "records": (
        one_of("kind", KINDS), one_of("tolerance", SEARCH_TOLERANCES), *_SEARCH,
        AddressField("area", is_area, most=MAX_AREA_CHARACTERS), RECORD,
    ),
    "faces": (
        AddressField("like", is_text),
        AddressField("list", is_text),
        AddressField("entry", is_text),
        AddressField("from", is_moment),
        AddressField("until", is_moment),
        AddressField("threshold", is_number),
        RECORD,
    ),
    "alarms": (
        one_of("severity", SEVERITIES),
        *_SEARCH,
        one_of("stage", STAGES),
        AddressField("owner", is_text),
        AddressField("rule", is_text),
        AddressField("changed", is_moment),
        one_of("group", ("", "target")),
        one_of("kind", KINDS),
        AddressField("district", is_text),
        one_of("districts", DISTRICTS),
        AddressField("case", is_text),
        AddressField("target", is_text),
        ALARM,
        RECORD,
    ),
    "latency": (
        AddressField("day", is_day),
        one_of("scope", SCOPES, "all"),
        AddressField("which", is_text),
    ),
    "quality": (
        one_of("span", tuple(SPANS), "six"),
        one_of("kind", KINDS),
        AddressField("camera", is_text),
        AddressField("reason", is_text),
        REJECTED,
    ),
    "register": (one_of("what", PLACES), AddressField("text", is_text)),
    "bus": (one_of("internal", ("", "1")),),
    "metadata": (AddressField("find", is_text),),
    "questions": (
        AddressField("account", is_text), one_of("kind", QUESTION_KINDS),
        AddressField("case", is_text), AddressField("text", is_text),
    ),
}
"""By page; a page that is not here has nothing that an address could carry."""
SEARCHES = ("records", "alarms")
"""Pages that show beside each of their fields what cannot be read; for the others there is a page
of its own, `pages.wrong_address`."""
