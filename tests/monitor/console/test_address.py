"""The parameters in a page's address: read, written, and invalid."""

from __future__ import annotations

from datetime import date, datetime
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from console_city import ZONE
from hypothesis import given
from hypothesis import strategies as st

from monitor.api.views import parse_time
from monitor.console.address import (
    FIELDS,
    FIRST_YEAR,
    KINDS,
    LAST_YEAR,
    MAX_TEXT,
    PLACES,
    SCOPES,
    SEVERITIES,
    SPANS,
    format_address,
    read_address,
)
from monitor.console.layout import PAGES

_TEXT = st.text(max_size=MAX_TEXT).filter(lambda s: s.isprintable() and s == s.strip())
_MOMENTS = st.datetimes(datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR, 12, 31))
_DAYS = st.dates(date(FIRST_YEAR, 1, 1), date(LAST_YEAR, 12, 31)).map(str)
_MINUTES = _MOMENTS.map(lambda m: m.isoformat(timespec="minutes"))
VALUES: dict[str, st.SearchStrategy[str]] = {
    "kind": st.sampled_from(KINDS),
    "severity": st.sampled_from(SEVERITIES),
    "scope": st.sampled_from(SCOPES),
    "span": st.sampled_from(tuple(SPANS)),
    "what": st.sampled_from(PLACES),
    "internal": st.sampled_from(("", "1")),
    "day": _DAYS,
    "area": st.sampled_from(("", "120.15 30.25, 120.17 30.25, 120.16 30.27", "1 1,2 1,2 2")),
    "from": _MINUTES,
    "until": _MINUTES,
}


@given(st.data())
def test_what_is_written_is_read_again(data: st.DataObject) -> None:
    """Every page, every value it may have, the default among them."""
    page = data.draw(st.sampled_from(sorted(FIELDS)))
    fields = FIELDS[page]
    values = {
        f.name: data.draw(VALUES.get(f.name, _TEXT).filter(f.valid), label=f.name) for f in fields
    }
    address = urlsplit(format_address(f"/{page}", fields, values))
    assert address.path == f"/{page}"
    assert not address.fragment  # the name of a checkpoint has a # in it
    found = read_address(fields, address.query)
    assert (found.given, found.wrong) == (values, frozenset())


@given(st.sampled_from(sorted(FIELDS)), st.text() | st.dictionaries(st.text(), st.text()).map(urlencode))
def test_an_address_that_somebody_broke_is_read_and_written_the_same(page: str, query: str) -> None:
    """Never an error; a reload and a copied link say what is wrong, too."""
    fields = FIELDS[page]
    found = read_address(fields, query)
    written = format_address(f"/{page}", fields, found.given)
    assert read_address(fields, urlsplit(written).query) == found


@given(st.data())
def test_what_cannot_be_read_is_named_and_is_no_value(data: st.DataObject) -> None:
    """A bound that was dropped showed everything."""
    page = data.draw(st.sampled_from(sorted(FIELDS)))
    field = data.draw(st.sampled_from(FIELDS[page]))
    junk = data.draw((st.text() | st.just("x" * 300) | st.just("9999-12-31 23:59")).filter(lambda s: not field.valid(s)))
    found = read_address(FIELDS[page], urlencode({field.name: junk}))
    assert found.wrong == {field.name}
    assert found.value(field.name) == ""


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("records", "kind=bicycle&from=yesterday&until=2026-13-01T00:00&plate=%00&record=%0a"),
        ("records", "plate=" + "x" * (MAX_TEXT + 1)),
        ("records", "from=0001-01-01T00:00&until=9999-12-31T23:59"),
        ("latency", "day=2026-02-30&scope=planet"),
        ("quality", "span=century&kind=VEHICLE"),
        ("bus", "internal=yes"),
    ],
)
def test_every_value_that_is_not_valid_is_named(page: str, query: str) -> None:
    """All of them at once."""
    assert read_address(FIELDS[page], query).wrong == set(dict(parse_qsl(query)))


@given(_MINUTES)
def test_every_time_that_is_valid_can_be_asked_for(moment: str) -> None:
    """The search reads it in the site's zone without an error."""
    found = read_address(FIELDS["records"], urlencode({"from": moment}))
    assert found.value("from") == moment
    assert parse_time(moment, ZONE) >= parse_time(f"{FIRST_YEAR}-01-01", ZONE)


def test_defaults_are_not_written() -> None:
    """A page as it opens has the shortest address."""
    for page, fields in FIELDS.items():
        assert format_address(f"/{page}", fields, read_address(fields, "").given) == f"/{page}"


def test_only_pages_that_exist_have_fields() -> None:
    """And no field twice."""
    assert set(FIELDS) <= set(PAGES)
    for fields in FIELDS.values():
        names = [field.name for field in fields]
        assert len(names) == len(set(names))
