"""The notation of the schema tables: what it says, and that its mistakes are found."""

from __future__ import annotations

import pytest

from bus.protocol.generator.layout import layout_of
from bus.protocol.generator.model import Versions
from bus.protocol.generator.parse import SchemaError, parse_api, parse_messages
from bus.protocol.generator.types import snake

TABLE = """\
data Shelf versions 1-5 flexible 3+
  name       string?2-3          # nullable in two versions only
  old        int32  -2  = -1
  books      [Book]  4+
    title    string
    pages    int16  5+  @0  = 7
  best       Shared
  struct Shared
    weights  [int64]?  = null
"""


def test_ranges_are_relative_to_what_surrounds_them() -> None:
    (message,) = parse_messages(TABLE, "shelf.txt")
    fields = {field.name: field for field in message.fields}
    assert fields["old"].versions == Versions(1, 2)
    assert fields["books"].versions == Versions(4, 5)
    assert fields["name"].nullable == Versions(2, 3)
    title, pages = message.structs["Book"]
    assert title.versions == Versions(4, 5)
    assert (pages.versions, pages.tag, pages.default) == (Versions(5, 5), 0, "7")
    assert message.structs["Shared"][0].default == "null"


def test_a_layout_has_the_fields_of_its_version_only() -> None:
    (message,) = parse_messages(TABLE, "shelf.txt")
    assert list(layout_of(message, 1).present) == ["name", "old", "best"]
    newest = layout_of(message, 5)
    assert newest.flexible
    assert list(newest.present) == ["name", "books", "best"]
    assert layout_of(message, 1) != layout_of(message, 2)  # name becomes nullable


@pytest.mark.parametrize(
    "table",
    [
        "data X versions 0 flexible none\n  name  text\n",
        "data X versions 0 flexible none\n  name string string\n",
        "data X versions 0 flexible none\n      name  string\n",
        "data X versions 0 flexible none\n  inner  Empty\n",
        "data X version 0\n  name  string\n",
    ],
)
def test_a_mistake_is_named_with_its_place(table: str) -> None:
    with pytest.raises(SchemaError, match=r"x\.txt"):
        parse_messages(table, "x.txt")


def test_an_api_needs_both_messages() -> None:
    with pytest.raises(SchemaError, match="request and a response"):
        parse_api("api 1 X\nversions 0\nflexible none\nlisteners broker\nrequest\n", "x.txt")


def test_names_become_snake_case() -> None:
    assert snake("KRaftVersionRecord") == "kraft_version_record"
    assert snake("V3AndBelowTopics") == "v3_and_below_topics"
    assert snake("SASLHandshake") == "sasl_handshake"
