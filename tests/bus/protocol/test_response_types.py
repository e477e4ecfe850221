"""A request says what answers it, so that a client's answers have their types."""

from __future__ import annotations

from typing import Any

import pytest

from bus.protocol.apis import APIS, ApiInfo
from bus.protocol.frames import decode_response, encode_response

GENERATED = [info for info in APIS.values() if info.module_name is not None]


def request_of(info: ApiInfo) -> Any:
    return getattr(info.module, f"{info.name}Request")()


@pytest.mark.parametrize("info", GENERATED, ids=lambda info: info.name)
def test_the_response_that_a_request_names_is_the_one_that_is_read(info: ApiInfo) -> None:
    """In every version; an answer of another class would have other fields than its reader sees."""
    kind = request_of(info).response_type()
    for version in range(info.first_version, info.last_version + 1):
        [frame] = encode_response(info.key, version, 7, kind())
        assert type(decode_response(info.key, version, frame[4:])[1]) is kind, version


def test_each_api_has_a_response_of_its_own() -> None:
    kinds = [request_of(info).response_type() for info in GENERATED]
    assert len(set(kinds)) == len(GENERATED)
