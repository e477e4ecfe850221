"""Bodies into records, records without their pictures: nothing but what is asked changes."""

from __future__ import annotations

import base64
import json
import random

import msgspec
import pytest

from bus.contracts.keys import INLINE_PICTURES
from bus.domain.parsed_message import ParsedMessage
from ingest.edge.batch_parser import UnknownType, split
from ingest.edge.inline_pictures import extract_pictures, with_urls


def parsed(value: bytes) -> ParsedMessage:
    return ParsedMessage(value, "vehicle")


def test_array_elements_keep_their_bytes():
    """Spaces, escapes and number spellings are the device's own."""
    parts = [b'{"a" : 1.0}', b'{"b":"\\u8f66"}', b"null"]
    assert split(b" [" + b" , ".join(parts) + b"]\n", "application/json; charset=utf-8") == parts
    assert split(b"[]", "") == []


def test_a_broken_array_is_one_record_with_all_bytes():
    """Its own check will say what is wrong."""
    assert split(b'[{"a": 1}, {"a": ', "") == [b'[{"a": 1}, {"a": ']
    assert split(b"[" * 100_000, "") == [b"[" * 100_000]
    assert split(b"", "") == [b""]


def test_an_unknown_type_is_refused():
    """Not guessed."""
    with pytest.raises(UnknownType):
        split(b"{}", "image/jpeg")


def test_any_bytes_are_split_without_an_exception(dice: random.Random):
    """Any bytes over the wire."""
    for _ in range(500):
        body = bytes(dice.choice(b'[]{},:"\n \\a1\xff') for _ in range(dice.randrange(40)))
        for kind in ("", "application/x-ndjson"):
            assert all(isinstance(value, bytes) for value in split(body, kind))
            for value in split(body, kind):
                assert not any(extract_pictures(parsed(value)).values())


def test_pictures_are_taken_out_and_everything_else_stays(dice: random.Random):
    """For random records: same keys, same values, addresses instead of pictures."""
    for _ in range(200):
        fields = {
            f"k{i}": dice.choice([1, 2.5, "x", None, [1, {"y": "z"}]])
            for i in range(dice.randrange(5))
        }
        chosen = dice.sample(list(INLINE_PICTURES), dice.randrange(1, 4))
        data = {key: dice.randbytes(dice.randrange(1, 50)) for key in chosen}
        message = {**fields, **{key: base64.b64encode(one).decode() for key, one in data.items()}}
        value = json.dumps(message, ensure_ascii=dice.random() < 0.5).encode()
        assert extract_pictures(parsed(value)) == data
        urls = {key: f"http://x/{i}.jpg" for i, key in enumerate(chosen)}
        expected = {**fields, **{INLINE_PICTURES[key]: url for key, url in urls.items()}}
        assert msgspec.json.decode(with_urls(parsed(value), urls)) == expected


def test_what_is_no_base64_stays_where_it_is():
    """A device's habit we do not know is not destroyed."""
    value = '{"车辆图片": "http://somewhere/1.jpg", "人脸图片": 5, "场景图片": ""}'.encode()
    assert not any(extract_pictures(parsed(value)).values())
    assert with_urls(parsed(value), {}) is value
