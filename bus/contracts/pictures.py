"""Pictures of records by their name, whatever host a record's address has. Pure.

In: what a record says of a picture. Out: the name it has in every site's store, or nothing. Never:
a host of the record's, or a name that leaves the store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

PICTURES_PREFIX = "/pictures/"
"""What stands before a picture's name in the path of its address."""
MAX_NAME_CHARACTERS = 200
_SEGMENT = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
_MAX_SEGMENTS = 8
_ADDRESS_KEY_ENDS_WITH = "图片地址"
_FIELDS = msgspec.json.Decoder(dict[str, object])


def is_safe_name(name: str) -> bool:
    """Whether a name from outside stays inside the store: plain segments, no dots at their
    beginning."""
    segments = name.split("/")
    return len(segments) <= _MAX_SEGMENTS and all(_SEGMENT.fullmatch(s) for s in segments)


def name_in_address(recorded: str) -> str:
    """The name of a picture; empty where the address is not one of an edge's or a console's."""
    try:
        path = urlsplit(recorded).path
    except ValueError:  # a device may write anything: "http://["
        return ""
    _, _, name = path.partition(PICTURES_PREFIX)
    return name if is_safe_name(name) else ""


def picture_addresses(record: bytes | str, *more: str) -> list[str]:
    """Addresses of pictures in a record's JSON that may be in a store of ours, each once, `more`
    of them first."""
    return [url for url in keys_of_pictures(record, *more) if PICTURES_PREFIX in url]


def keys_of_pictures(record: bytes | str, *more: str) -> dict[str, str]:
    """Every address of a picture in a record's JSON, whoever's it is, and the key it stands under;
    `more` of them first, which may stand under none."""
    try:
        fields = _FIELDS.decode(record or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        fields = {}
    return addresses_in(fields, *more)


def addresses_in(fields: Mapping[str, object], *more: str) -> dict[str, str]:
    """The same of a record that is read."""
    found = dict.fromkeys(filter(None, more), "")
    for key, value in fields.items():
        if value and isinstance(value, str) and key.endswith(_ADDRESS_KEY_ENDS_WITH):
            found[value] = key
    return found


def picture_names(record: bytes | str, *more: str) -> list[str]:
    """The same by their names, each once."""
    names = dict.fromkeys(map(name_in_address, picture_addresses(record, *more)))
    names.pop("", None)
    return list(names)
