"""Requests and responses between us and the package `kio`, an independent codec in Python.

kio turns numbers into times and error codes, so the numbers here are small; the whole range is
tested against Kafka's own classes in `test_against_java.py`.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
from kio import index
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from bus.protocol.generator.types import snake

VALUES_PER_VERSION = 3
QUICK_VERSIONS = 15


def _pairs(codecs: list[Any]) -> list[tuple[Any, int, Any]]:
    """Our codec, a version, and how to load kio's class, for everything both sides have."""
    kinds = {"request": EntityType.request, "response": EntityType.response}
    pairs = []
    for codec in codecs:
        kind = kinds.get(codec.message.kind)
        name = snake(codec.message.name.removesuffix("Request").removesuffix("Response"))
        for version in schema_name_map.get(name, {}) if kind else ():
            if version in codec.decoders:
                pairs.append((codec, version, kind))
    return pairs


def test_kio_agrees_on_some_versions(codecs: list[Any], small_maker: Any) -> None:
    pairs = _pairs(codecs)
    assert len(pairs) > 500
    for codec, version, kind in small_maker.dice.sample(pairs, QUICK_VERSIONS):
        _check(codec, version, kind, small_maker)


@pytest.mark.slow
def test_kio_agrees_on_all_versions(codecs: list[Any], small_maker: Any) -> None:
    for codec, version, kind in _pairs(codecs):
        _check(codec, version, kind, small_maker)


def _check(codec: Any, version: int, kind: Any, maker: Any) -> None:
    load = index.load_request_schema if kind is EntityType.request else index.load_response_schema
    theirs = load(codec.message.key, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    for _ in range(VALUES_PER_VERSION):
        ours = codec.encode(maker.message(codec, version), version)
        entity, size = read(ours, 0)
        out = io.BytesIO()
        write(out, entity)
        where = (codec.message.name, version)
        assert size == len(ours), where
        assert out.getvalue() == ours, where
        assert codec.encode(codec.decoders[version](out.getvalue(), 0)[0], version) == ours, where
