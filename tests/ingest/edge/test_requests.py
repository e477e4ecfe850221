"""Requests as vendors really send them: compressed, for another interface, unfinished."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from bus.domain.parsed_message import ParsedMessage
from bus.runtime import wall_clock
from ingest.edge import protocol
from ingest.edge.edge import Edge
from ingest.edge.protocol import EdgeProtocol
from ingest.edge.refusal_recorder import TALLY
from ingest.edge.responses import MAX_EXPLAINED
from ingest.edge.routes import ROUTES, create_app
from ingest.normalise.diagnostics import MessageContext, explain_message
from ingest.settings import EdgeSettings

URL = "/v1/records/vehicle"
RECORD = json.dumps({"卡口编号": "c1", "抓拍时间": "2017-08-24 17:25:34.123"}).encode()


@pytest.fixture(autouse=True)
def forwarder_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no bus here."""
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.start", lambda self: None)
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.stop", lambda self: None)


@pytest.fixture
def edge_settings() -> EdgeSettings:
    return EdgeSettings(spool_min_free_bytes=0, max_body_bytes=100_000)


async def post(http: httpx.AsyncClient, body: bytes, **headers: str) -> httpx.Response:
    return await http.post(
        URL, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(RECORD)),
        ("GZIP ", gzip.compress(RECORD)),
        ("x-gzip", gzip.compress(RECORD[:20]) + gzip.compress(RECORD[20:])),
        ("deflate", zlib.compress(RECORD)),
        ("identity", RECORD),
    ],
)
async def test_a_packed_body_is_unpacked(
    http: httpx.AsyncClient, encoding: str, body: bytes
) -> None:
    """Regression: it was rejected as "not UTF-8, perhaps GB18030"."""
    reply = await post(http, body, content_encoding=encoding)
    assert (reply.status_code, reply.json()["accepted"]) == (200, 1)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "error"),
    [
        ("gzip", gzip.compress(b"x" * 50_000_000), 413, "too-large"),
        ("gzip", gzip.compress(gzip.compress(b"x" * 50_000_000)), 422, ""),
        ("gzip", gzip.compress(RECORD)[:-9], 400, "bad-encoding"),
        ("gzip", b"", 400, "bad-encoding"),
        ("gzip", RECORD, 400, "bad-encoding"),
        ("gzip", gzip.compress(RECORD) + b"rest", 400, "bad-encoding"),
        ("br", RECORD, 415, "unknown-encoding"),
        ("gzip, gzip", RECORD, 415, "unknown-encoding"),
    ],
)
async def test_unpacking_has_a_bound_and_what_cannot_be_unpacked_is_told(
    http: httpx.AsyncClient, edge: Edge, encoding: str, body: bytes, status: int, error: str
) -> None:
    """A few kilobytes may unpack to gigabytes; memory never holds more than the bound."""
    reply = await post(http, body, content_encoding=encoding)
    assert (reply.status_code, reply.json().get("error", "")) == (status, error)
    tally = "vehicle/rejected/not-utf8" if status == 422 else TALLY
    assert edge.spool.totals == ({tally: 1} if body else {})


@pytest.mark.parametrize(
    "kind", ["application/VIID+JSON", "application/vnd.acme.alpr+json; charset=utf-8"]
)
async def test_any_kind_of_json_is_json(http: httpx.AsyncClient, kind: str) -> None:
    """RFC 6839; Chinese platforms write application/VIID+JSON."""
    reply = await post(http, RECORD, content_type=kind)
    assert (reply.status_code, reply.json()["accepted"]) == (200, 1)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "says"),
    [
        ("POST", "/VIID/MotorVehicles", {}, 404, "GA/T 1400"),
        ("POST", "/NotificationInfo/TollgateInfo", {}, 404, "Dahua"),
        ("POST", "/ISAPI/Event/notification", {}, 404, "Hikvision"),
        ("GET", "/", {}, 404, "POST /v1/records/{kind}"),
        ("GET", URL, {}, 405, "POST /v1/records/{kind}"),
        ("POST", "/v1/records/boat", {}, 404, "vehicle, face, video"),
        ("POST", URL, {"content-type": "application/xml"}, 415, "application/xml"),
    ],
)
async def test_what_is_not_understood_points_to_how_to_send(
    http: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], status: int, says: str
) -> None:
    """The answer has the same form as all others, not the framework's."""
    reply = await http.request(method, path, content=b"<a/>", headers=headers)
    found = reply.json()
    assert (reply.status_code, found["see"]) == (status, "docs/how-to-send.md")
    assert says in found["message"]
    assert found["message_zh"]
    assert found["error"]
    assert status != 405 or reply.headers["allow"] == "POST"


async def test_an_xml_alert_is_known_for_whose_it_is(http: httpx.AsyncClient) -> None:
    """Most cameras of the world send this one."""
    alert = b'<?xml version="1.0"?><EventNotificationAlert><eventType>ANPR</eventType></EventNotificationAlert>'
    reply = await post(http, alert, content_type="application/xml")
    assert reply.status_code == 415
    assert "Hikvision" in reply.json()["message"]


def test_every_route_names_its_operation() -> None:
    """No route is public because its operation was forgotten."""
    assert {(method, path): operation.value for method, path, _, operation in ROUTES} == {
        ("POST", "/v1/records/{kind}"): "send",
        ("POST", "/v1/counters"): "send",
        ("PUT", "/pictures/{name:path}"): "copy",
        ("PUT", "/v1/pictures/{name}"): "send",
        ("GET", "/pictures/{name:path}"): "read",
        ("GET", "/healthz"): "probe",
        ("GET", "/metrics"): "page",
        ("GET", "/v1/status"): "page",
        ("GET", "/v1/senders"): "read",
        ("GET", "/v1/mirrored-ends"): "page",
        ("GET", "/v1/sent-again"): "page",
    }


@pytest.fixture
async def port(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The edge on a real socket, with checks a hundred times as frequent."""
    monkeypatch.setattr(protocol, "CHECK_S", 0.05)
    config = uvicorn.Config(create_app(edge), http=EdgeProtocol, access_log=False)
    config.load()
    state = ServerState()

    def connection() -> Any:
        return EdgeProtocol(
            config=config, server_state=state, app_state={},
            on_refused=edge.refusals.on_connection,
        )  # fmt: skip

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST /v1/rec", b"POST /v1/records/vehicle HTTP/1.1\r\nHost: e\r\nContent-Le",
     b"POST /v1/records/vehicle HTTP/1.1\r\nHost: e\r\nContent-Length: 100\r\n\r\n{",
     b"GET /healthz HTTP/1.1\r\nHost: e\r\n\r\nPOST /v1/records/vehicle HTTP/1.1\r\n"],
)  # fmt: skip
async def test_a_request_that_is_not_finished_ends(edge: Edge, port: int, begun: bytes) -> None:
    """Regression: it stayed open as long as the sender wanted. A connection alone is no refusal:
    proxies and browsers open some in advance."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begun)
    answer = await asyncio.wait_for(reader.read(), 30)  # to the end of the connection
    assert b"HTTP/1.1 408" in answer
    assert b'"error":"unfinished"' in answer
    rows = edge.refusals.table.peers(wall_clock.now_ms(), 10)
    assert [(one.reason, one.peer) for one in rows] == [("unfinished", "127.0.0.1")] * bool(begun)
    writer.close()


async def test_a_slow_sender_is_not_a_silent_one(port: int) -> None:
    """Occasional bytes keep the request open; it is answered when complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {URL} HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Length: {len(RECORD)}"
    whole = head.encode() + b"\r\n\r\n" + RECORD
    for start in range(0, len(whole), 16):
        writer.write(whole[start : start + 16])
        await asyncio.sleep(protocol.CHECK_S / 2)
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_a_client_that_leaves_is_counted_and_writes_no_traceback(
    edge: Edge, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: it wrote twenty lines."""
    caplog.set_level(logging.DEBUG)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/records/vehicle HTTP/1.1\r\nHost: e\r\nContent-Length: 100\r\n\r\n{")
    await writer.drain()
    writer.close()
    async with asyncio.timeout(30):
        while edge.meters.abandoned._value.get() == 0:
            await asyncio.sleep(0.01)
    assert "Traceback" not in caplog.text
    assert edge.spool.end_sequence == 0


@pytest.mark.parametrize("begun", [b"\x16\x03\x01\x02\x00\x01\x00", b"POST / HTTP/9\r\n\r\n"])
async def test_what_is_no_http_is_told_in_the_shape_of_every_answer(
    edge: Edge, port: int, begun: bytes
) -> None:
    """A device that was set to TLS, above all; a street of them is one group."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begun)
    head, _, body = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    problem = json.loads(body)
    assert (problem["error"], "TLS" in problem["message_zh"]) == ("no-http", True)
    [group] = edge.refusals.table.groups(wall_clock.now_ms(), with_peers=True)
    assert (group.reason, group.first_peers) == ("no-http", ["127.0.0.1"])
    writer.close()


async def test_a_sender_of_too_much_reads_why(edge: Edge, port: int) -> None:
    """Regression: the connection was closed with unread bytes, so the kernel reset it and the
    sender never saw the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    size = edge.settings.max_body_bytes * 15 // 10
    head = f"POST {URL} HTTP/1.1\r\nHost: e\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    writer.write(head.encode())
    for _ in range(15):
        writer.write(b"x" * (size // 15))
        await writer.drain()
        await asyncio.sleep(0)
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_who_asks_first_is_refused_without_sending(port: int) -> None:
    """With `Expect: 100-continue` no part of an oversized body is requested."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST {URL} HTTP/1.1\r\nHost: e\r\nConnection: close\r\n"
        "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n".encode()
    )
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_what_only_grows_is_a_counter_and_what_goes_up_and_down_is_none(
    http: httpx.AsyncClient,
) -> None:
    """Regression: totals were gauges, for which `rate()` is wrong at every restart."""
    text = (await http.get("/metrics")).text
    kinds = dict(re.findall(r"^# TYPE databus_edge_(\w+) (\w+)$", text, re.MULTILINE))
    totals = {name for name in kinds if name.endswith("_total")}
    for name in ("spooled", "drained", "pictures_kept", "pictures_lost", "spool_damaged"):
        assert f"{name}_total" in totals
    assert {kinds[name] for name in totals} == {"counter"}
    gauges = {name for name, kind in kinds.items() if kind == "gauge" and "_created" not in name}
    assert gauges == {"spool_bytes", "spool_backlog", "pictures_waiting_bytes"}


async def test_of_ten_thousand_broken_records_only_the_first_are_looked_into(
    edge: Edge, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is rejected and kept, but finding the damage costs more than the rejection. Regression:
    one such request blocked all others for three seconds."""
    explained = []

    def recording_explain(message: ParsedMessage, given: MessageContext) -> Any:
        explained.append(message)
        return explain_message(message, given)

    monkeypatch.setattr("ingest.edge.responses.explain_message", recording_explain)
    reply = await post(http, b"[" + b",".join([b"{}"] * 10_000) + b"]")
    assert reply.status_code == 422
    assert len(reply.json()["rejected"]) == 10_000
    assert len(explained) == MAX_EXPLAINED
