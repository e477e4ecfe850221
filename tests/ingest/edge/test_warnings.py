"""What the answer says of records that are accepted and of which something is lost or changed, and
where an unreadable one is damaged."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import httpx
import pytest

from ingest.edge import warned_devices
from ingest.edge.edge import Edge
from ingest.normalise.diagnostics import explain
from ingest.settings import EdgeSettings
from ingest.spool import SpoolEntry

URL = "/v1/records/vehicle"
GOOD = {"卡口编号": "c1", "抓拍时间": "2017-08-24 17:25:34.123", "车牌号码": "浙AWL999", "抓拍设备地址": "10.0.0.1"}  # fmt: skip
JPEG = b"\xff\xd8\xff\xe0 a picture"


@pytest.fixture(autouse=True)
def forwarder_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests read the spool themselves."""
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.start", lambda self: None)
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.stop", lambda self: None)


@pytest.fixture
def edge_settings() -> EdgeSettings:
    return EdgeSettings(spool_min_free_bytes=0, max_picture_bytes=10_000, reader_tokens={})


def text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def spooled(edge: Edge) -> list[SpoolEntry]:
    edge.spool.rewind()
    return [queued.entry for queued in edge.spool.read(1000)]


async def warned(http: httpx.AsyncClient, body: bytes, **options: Any) -> list[dict[str, Any]]:
    reply = await http.post(URL, content=body, **options)
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["warnings"]
    return found


async def test_a_sound_record_is_answered_without_warnings(http: httpx.AsyncClient) -> None:
    """Also with a picture."""
    picture = base64.b64encode(JPEG).decode()
    assert await warned(http, text({**GOOD, "车辆图片": picture})) == []


@pytest.mark.parametrize("captured", ["2099-01-01 00:00:00.0", "1970-01-01 08:00:00.0"])
async def test_a_clock_fault_is_named_counted_and_kept_as_written(
    http: httpx.AsyncClient, edge: Edge, captured: str
) -> None:
    """The record is forwarded; its time on the bus is the arrival."""
    (warning,) = await warned(http, text([GOOD, {**GOOD, "抓拍时间": captured}]))
    assert (warning["index"], warning["field"]) == (1, "抓拍时间")
    assert "arrival" in warning["message"]
    assert "到达时间" in warning["message_zh"]
    metrics = (await http.get("/metrics")).text
    assert 'databus_edge_clock_faults_total{kind="vehicle"} 1.0' in metrics
    assert 'databus_edge_device_clock_faults_total{camera_ip="10.0.0.1"} 1.0' in metrics
    assert captured.encode() in spooled(edge)[1].value


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("no base64 at all", "Not base64"),
        (base64.b64encode(b"just some text").decode(), "Not JPEG"),
        (base64.b64encode(JPEG * 1000).decode(), "more than 10000: the picture is lost"),
    ],
)
async def test_a_picture_that_is_none_or_too_large_is_told(
    http: httpx.AsyncClient, edge: Edge, picture: str, says: str
) -> None:
    """The record is accepted with a warning in the words of `check-message`. Regression: the answer
    was a plain 200."""
    body = text({**GOOD, "车辆图片": picture})
    (warning,) = await warned(http, body)
    assert warning["field"] == "车辆图片"
    assert says in warning["message"]
    known = explain(body, "vehicle", "Asia/Shanghai", max_picture_bytes=10_000)
    assert warning["message_zh"] in [fault.message_zh for fault in known]
    (entry,) = spooled(edge)
    assert entry.topic == "data.vehicle"
    assert len(entry.value) < 1_000


async def test_a_picture_beside_its_record_is_judged_in_the_same_way(
    http: httpx.AsyncClient,
) -> None:
    """In a multipart form."""
    files = {"record": (None, text(GOOD)), "车辆图片": ("a.jpg", JPEG * 1000)}
    reply = await http.post(URL, files=files)
    assert [w["field"] for w in reply.json()["warnings"]] == ["车辆图片"]


async def test_a_picture_of_no_bytes_is_called_empty(http: httpx.AsyncClient) -> None:
    """Not "no base64"; and null says that there is none, which is no fault."""
    (inline,) = await warned(http, text({**GOOD, "车辆图片": ""}))
    files = {"record": (None, text(GOOD)), "车辆图片": ("a.jpg", b"")}
    (beside,) = (await http.post(URL, files=files)).json()["warnings"]
    assert inline == beside
    assert inline["message"].startswith("Empty")
    assert await warned(http, text({**GOOD, "车辆图片": None})) == []


@pytest.mark.parametrize("plate", [["浙AWL999"], {"号码": "浙AWL999"}, True])
async def test_a_plate_of_another_type_does_not_vanish_without_a_word(
    http: httpx.AsyncClient, plate: object
) -> None:
    """It is not a plate, and the sender gets a warning."""
    (warning,) = await warned(http, text({**GOOD, "车牌号码": plate}))
    assert (warning["field"], "ignored" in warning["message"]) == ("车牌号码", True)


async def test_a_key_that_stands_there_twice_is_told(http: httpx.AsyncClient) -> None:
    """The last one counts; before, the sender did not learn of it."""
    twice = b'{"\xe5\x8d\xa1\xe5\x8f\xa3\xe7\xbc\x96\xe5\x8f\xb7": "c0", ' + text(GOOD)[1:]
    (warning,) = await warned(http, twice)
    assert warning["field"] == "卡口编号"
    assert "2 times" in warning["message"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"\xef\xbb\xbf" + text(GOOD), "byte order mark"),
        (text(GOOD)[:-20], "as if cut off"),
        (text(GOOD).replace(b",", b";", 1), "line 1, column 14"),
        (json.dumps(GOOD, ensure_ascii=False).encode("gb18030"), "it reads as GB18030"),
        (gzip.compress(text(GOOD)), "Content-Encoding: gzip"),
        (b"", "it is empty"),
        (b"[[1]]", "a JSON array"),
        (b"[" * 5_000, "nested too deeply"),
    ],
)
async def test_an_unreadable_record_is_told_where_it_is_damaged(
    http: httpx.AsyncClient, body: bytes, says: str
) -> None:
    """`not-json` alone does not say where; the Chinese says the place in Chinese."""
    reply = await http.post(URL, content=body)
    assert reply.status_code == 422
    (rejected,) = reply.json()["rejected"]
    assert says in rejected["message"]
    english = rejected["message"].partition("(")[2].rstrip(")")
    place = rejected["message_zh"].partition("（")[2]
    assert place
    assert english not in place


async def test_warnings_of_one_request_are_bounded(http: httpx.AsyncClient) -> None:
    """All records are accepted; only the first hundred get warnings."""
    body = text([{**GOOD, "车牌号码": ["x"]}] * 150)
    reply = (await http.post(URL, content=body)).json()
    assert (reply["accepted"], len(reply["warnings"])) == (150, 100)


async def test_what_check_message_knows_is_told_counted_by_device_and_shown(
    http: httpx.AsyncClient,
) -> None:
    """A misspelt key lost the plate with 200 and no word. Counted of all records, told of the first
    hundred."""
    misspelt = {("车牌号" if key == "车牌号码" else key): value for key, value in GOOD.items()}
    records = [misspelt] * 150 + [{**GOOD, "车速": "fast", "抓拍设备地址": "999.1.1.1"}]
    told = await warned(http, text(records))
    assert {(one["field"], one["index"] < 100) for one in told} == {("车牌号", True)}
    assert len(told) == 100
    rows = (await http.get("/v1/senders")).json()["warned"]
    assert {(one["camera_ip"], one["field"]): one["records"] for one in rows} == {
        ("10.0.0.1", "车牌号"): 150, ("999.1.1.1", "车速"): 1, ("999.1.1.1", "抓拍设备地址"): 1,
    }  # fmt: skip
    assert all(one["message"] and one["message_zh"] for one in rows)
    metrics = (await http.get("/metrics")).text
    assert 'databus_edge_warned_records_total{kind="vehicle"} 151.0' in metrics
    assert 'databus_edge_device_warned_records_total{camera_ip="10.0.0.1"} 150.0' in metrics


def test_the_table_of_warned_devices_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses and keys are what devices write: the oldest row goes, names are cut."""
    monkeypatch.setattr(warned_devices, "MAX_ROWS", 3)
    table = warned_devices.WarnedDevices()
    for number in (1, 2, 3, 4, 2):
        table.add(f"10.0.0.{number}", "k" * 1000, "m" * 1000, "m", number)
    rows = table.rows(10)
    assert [(one.camera_ip, one.records) for one in rows] == [
        ("10.0.0.2", 2), ("10.0.0.4", 1), ("10.0.0.3", 1),
    ]  # fmt: skip
    assert (len(rows[0].field), len(rows[0].message)) == (64, 300)
    assert len(table.rows(2)) == 2
