"""A request that the controller cannot take is refused in the form of its own answer."""

from __future__ import annotations

import random

import pytest

from broker.handlers.error_responses import error_response
from broker.handlers.registry import SERVED, version_range
from bus.errors import ErrorCode
from bus.protocol.apis import APIS
from bus.protocol.frames import encode_response
from tests.bus.protocol.conftest import Codec, Maker, all_codecs

FORWARDED = [key for key, served in SERVED.items() if served.forwarded]


@pytest.fixture(scope="module")
def requests() -> dict[str, Codec]:
    return {codec.message.name: codec for codec in all_codecs()}


@pytest.mark.parametrize("key", FORWARDED)
def test_whatever_is_forwarded_can_be_refused(
    key: int, requests: dict[str, Codec], dice: random.Random
) -> None:
    """The controller may be away. A refusal that cannot be made left the client without an answer."""
    low, high = version_range(key)
    for version in range(low, high + 1):
        for _ in range(5):
            maker = Maker(dice, small=True)
            request = maker.message(requests[f"{APIS[key].name}Request"], version)
            answer = error_response(key, request, ErrorCode.REQUEST_TIMED_OUT)
            assert encode_response(key, version, 1, answer)
