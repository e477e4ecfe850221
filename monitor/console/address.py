"""What a page's address says beyond its path (pure): search, filters, the open record.

In: a query as a browser sends it, values as a page shows them. Out: values by name, an address.
Never: an error for a broken address: what is not valid is as if it were not
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import parse_qsl, urlencode

from bus.contracts.headers import RecordKind

KINDS = ("", *(kind.value for kind in RecordKind))
SEVERITIES = ("", "critical", "warning", "info")
PLACES = ("", "device", "checkpoint", "district")
SCOPES = ("all", "district", "device")
SPANS = {"hour": 60, "six": 360, "day": 1440, "week": 10080}  # minutes
MAX_TEXT = 256  # characters of one value; an address has to fit into a message
FIRST_YEAR, LAST_YEAR = 1970, 9998  # what has epoch milliseconds in every zone


@dataclass(frozen=True, slots=True)
class AddressField:
    """One value of a page: its name in the address, what it may be, what it is when left out."""

    name: str
    valid: Callable[[str], bool]
    default: str = ""


def read_address(fields: tuple[AddressField, ...], query: str) -> dict[str, str]:
    """The value of every field: the query's where it is valid, else the default."""
    return valid_values(fields, dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True)))


def valid_values(fields: tuple[AddressField, ...], given: Mapping[str, str]) -> dict[str, str]:
    """A value for every field, and for nothing else: the given one where it is valid."""
    wanted = {field.name: given.get(field.name, field.default) for field in fields}
    return {f.name: wanted[f.name] if f.valid(wanted[f.name]) else f.default for f in fields}


def format_address(path: str, fields: tuple[AddressField, ...], values: Mapping[str, str]) -> str:
    """The shortest address that `read_address` reads as these values."""
    sound = valid_values(fields, values)
    said = {f.name: sound[f.name] for f in fields if sound[f.name] != f.default}
    return f"{path}?{urlencode(said)}" if said else path


def is_text(value: str) -> bool:
    """Printable and short; empty too."""
    return len(value) <= MAX_TEXT and value.isprintable() and value == value.strip()


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
    "live": (RECORD, ALARM),
    "map": (
        AddressField("target", is_text),
        AddressField("checkpoint", is_text),
        AddressField("find", is_text),
    ),
    "records": (one_of("kind", KINDS), *_SEARCH, RECORD),
    "alarms": (one_of("severity", SEVERITIES), *_SEARCH, ALARM, RECORD),
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
}
"""By page; a page that is not here has nothing that an address could carry."""
