"""A message is parsed once and handed on: however many ask, its bytes are read once in each way."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.keys import INLINE_PICTURES
from bus.domain import device_message, parsed_message
from bus.domain.device_message import Unreadable, read, read_object
from bus.domain.kinds import KEYS_OF_KIND
from bus.domain.parsed_message import ParsedMessage
from ingest.edge.admission import PostedRecord, RequestInfo, admit
from ingest.edge.edge import Edge
from ingest.edge.responses import records_response
from ingest.normalise import diagnostics, field_faults
from tests.ingest.edge.test_routes import GOOD, JPEG, headers_of, spooled, text

REQUEST = RequestInfo(
    sender="s", source="10.9.9.9", received_at_ms=1_772_330_401_000, day="20260301", site="west",
    zone="Asia/Shanghai", idempotency_key="", replayed=False, max_record_bytes=1 << 20,
)  # fmt: skip
PICTURE = base64.b64encode(JPEG).decode()
VALUES = st.sampled_from(["", "x", "识别异常", "浙A12345", "10.0.0.1", PICTURE, "2026-03-01 10:00:00"]) | st.none() | (
    st.integers(-5, 500)
)
FIELDS = st.dictionaries(
    st.sampled_from([*KEYS_OF_KIND["vehicle"], *INLINE_PICTURES, "品牌", "别的"]), VALUES, max_size=9
)


def sound(found: dict[str, Any]) -> bytes:
    return text({"卡口编号": "c1", "抓拍时间": "2026-03-01 10:00:00.1", **found})


MESSAGES = (
    st.builds(sound, FIELDS)
    | st.builds(text, FIELDS)
    | st.builds(lambda found, cut: text(found)[:-cut], FIELDS, st.integers(1, 9))
    | st.sampled_from([b"", b"[1]", b"\xff{}", b'{"\\u8bb0\\u5f55\\u7f16\\u53f7": "7"}', b"7"])
)


class CountedReads:
    """How often each way of reading was taken of each value."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, bytes]] = Counter()

    def counted(self, way: str, decode: Callable[[Any], Any]) -> Any:
        def decoded(value: Any) -> Any:
            self.counts[way, bytes(value)] += 1
            return decode(value)

        return SimpleNamespace(decode=decoded)


@contextmanager
def counted_reads() -> Iterator[CountedReads]:
    found = CountedReads()

    def table(way: str, decoders: dict[str, Any]) -> dict[str, Any]:
        return {kind: found.counted(way, one.decode) for kind, one in decoders.items()}

    with (
        patch.object(device_message, "_DECODERS", table("fields", device_message._DECODERS)),
        patch.object(device_message, "_ANY", found.counted("object", device_message._ANY.decode)),
        patch.object(parsed_message, "_RAW_FIELDS",
                     found.counted("raw fields", parsed_message._RAW_FIELDS.decode)),
        patch.object(field_faults, "_SOUND", table("sound", field_faults._SOUND)),
        patch.object(diagnostics, "_repeated", _counted_repeated(found)),
    ):  # fmt: skip
        yield found


def _counted_repeated(found: CountedReads) -> Callable[[bytes], Any]:
    repeated = diagnostics._repeated

    def counted(value: bytes) -> Any:
        found.counts["keys", value] += 1
        return repeated(value)

    return counted


@given(MESSAGES, st.sampled_from(sorted(KEYS_OF_KIND)), st.booleans())
def test_the_edge_reads_the_bytes_of_a_message_once_in_each_way(
    value: bytes, kind: str, with_pictures: bool
) -> None:
    """Identity, verdict, pictures, warnings and the answer: before, each read them for itself."""
    posted = PostedRecord(kind, value, {"场景图片": JPEG} if with_pictures else {})
    with counted_reads() as reads:
        admitted = admit(posted, 0, REQUEST, bytes(10), lambda name: f"http://p/{name}")
        records_response([admitted], "UTC")
    is_unreadable = admitted.reason.startswith("not-")  # then it may be another maker's: see `maker_of`
    assert all(
        count <= (2 if is_unreadable and way == "object" else 1)
        for (way, read_value), count in reads.counts.items() if read_value == value
    ), reads.counts  # fmt: skip


@given(MESSAGES, st.sampled_from(sorted(KEYS_OF_KIND)))
def test_what_is_handed_on_is_what_a_look_at_the_bytes_finds(value: bytes, kind: str) -> None:
    """In any order of asking, and again and again."""

    def told(ask: Callable[[], object]) -> object:
        try:
            return ask()
        except Unreadable as error:
            return error.reason, str(error)

    message = ParsedMessage(value, kind)
    for _ in range(2):
        assert told(message.wire) == told(lambda: read(value, kind))
        assert told(message.object) == told(lambda: read_object(value))
        raw = {key: json.loads(bytes(one)) for key, one in message.raw_fields().items()}
        found = told(message.object)
        assert raw == (found if isinstance(found, dict) else {})


@pytest.fixture(autouse=True)
def forwarder_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests read the spool themselves."""
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.start", lambda self: None)
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.stop", lambda self: None)


async def test_records_of_several_kinds_are_accepted_together_without_http(edge: Edge) -> None:
    """As a form of another maker would hand them over: each to its topic, counted as its kind."""
    face = {key: value for key, value in GOOD.items() if key != "车牌号码"}
    posted = [
        PostedRecord("vehicle", text(GOOD)),
        PostedRecord("face", text(face), {"人脸图片": JPEG}),
        PostedRecord("video", b"{"),
    ]
    admitted = await edge.accept(posted, REQUEST)
    assert [one.reason for one in admitted] == ["", "", "not-json"]
    entries = spooled(edge)
    assert [one.topic for one in entries] == ["data.vehicle", "data.face", "quarantine.records"]
    assert headers_of(entries[2])["kind"] == "video"
    [name] = admitted[1].pictures
    assert await edge.picture_writer.read(name) == JPEG
    metrics = edge.meters.text(with_devices=False).decode()
    for kind, outcome in (("vehicle", "accepted"), ("face", "accepted"), ("video", "not-json")):
        assert f'databus_edge_records_total{{kind="{kind}",outcome="{outcome}"}} 1.0' in metrics
