"""What senders meet: answers per record, bounds, pictures, counters. The bus is away all the
time."""

from __future__ import annotations

import base64
import json

import httpx
import msgspec
import pytest

from bus.contracts.keys import RECOGNITION, UNREADABLE
from ingest.edge.edge import Edge
from ingest.edge.refusal_recorder import TALLY
from ingest.edge.routes import create_app
from ingest.settings import EdgeSettings
from ingest.spool import SpoolEntry
from tests.ingest.pictures.hostile_names import HOSTILE_NAMES

GOOD = {
    "卡口编号": "c1",
    "抓拍时间": "2017-08-24 17:25:34.123",
    "车牌号码": "浙AWL999",
    "抓拍设备地址": "10.0.0.1",
}
JPEG = b"\xff\xd8\xff\xe0 a picture"
URL = "/v1/records/vehicle"


def text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def spooled(edge: Edge) -> list[SpoolEntry]:
    """The content of the spool but for refused requests; the forwarder waits for its bus."""
    edge.spool.rewind()
    return [one.entry for one in edge.spool.read(1000) if one.entry.tally != TALLY]


@pytest.fixture(autouse=True)
def forwarder_does_not_read(monkeypatch: pytest.MonkeyPatch):
    """One reader at a time: these tests read the spool themselves."""
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.start", lambda self: None)
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.stop", lambda self: None)


def headers_of(entry: SpoolEntry) -> dict[str, str]:
    return {key: value.decode() for key, value in entry.headers}


async def test_a_record_is_spooled_as_the_device_wrote_it(http: httpx.AsyncClient, edge: Edge):
    """Bytes unchanged, headers added, keyed by plate, answered with its identity."""
    body = b'  {"x": 1.0, ' + text(GOOD)[1:]
    answer = await http.post(URL, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    (entry,) = spooled(edge)
    assert answer.json() == {
        "accepted": 1,
        "ids": [headers_of(entry)["record-id"]],
        "rejected": [],
        "warnings": [],
    }
    assert (entry.topic, entry.key, entry.value) == ("data.vehicle", "浙AWL999".encode(), body)
    added = headers_of(entry)
    assert added["received-at"] == str(entry.timestamp_ms)
    assert (added["schema"], added["source"], added["site"]) == ("vehicle/1", "10.1.2.3", "west")
    assert "replay" not in added


async def test_every_record_of_an_array_has_its_own_verdict(http: httpx.AsyncClient, edge: Edge):
    """The bad ones are named by index, reason and field, in both languages, and kept in the
    quarantine."""
    unread = {**GOOD, **dict.fromkeys(RECOGNITION, UNREADABLE)}
    answer = await http.post(URL, content=text([GOOD, {"抓拍时间": "x"}, 5, unread, GOOD]))
    found = answer.json()
    assert answer.status_code == 200
    assert found["accepted"] == 2
    assert [one is None for one in found["ids"]] == [False, True, True, True, False]
    assert [(r["index"], r["reason"], r["field"]) for r in found["rejected"]] == [
        (1, "no-checkpoint", "卡口编号"),
        (2, "not-an-object", ""),
        (3, "all-unreadable", ""),
    ]
    assert all(r["message"] and r["message_zh"] for r in found["rejected"])
    entries = spooled(edge)
    assert [e.topic for e in entries] == [
        "data.vehicle",
        *["quarantine.records"] * 3,
        "data.vehicle",
    ]
    assert entries[2].value == b"5"
    assert headers_of(entries[1])["reason"] == "no-checkpoint"
    assert headers_of(entries[1])["field"] == "卡口编号"
    assert headers_of(entries[1])["kind"] == "vehicle"


async def test_if_nothing_is_valid_the_answer_is_422_and_all_is_kept(
    http: httpx.AsyncClient, edge: Edge
):
    """Garbled JSON is one record, with its bytes."""
    answer = await http.post(URL, content=text(GOOD)[:-3])
    assert answer.status_code == 422
    assert answer.json()["rejected"][0]["reason"] == "not-json"
    (entry,) = spooled(edge)
    assert entry.value == text(GOOD)[:-3]
    status = (await http.get("/v1/status")).json()
    assert status["arrived"] == {"vehicle": 1}
    assert status["rejected"] == {"vehicle": {"not-json": 1}}


async def test_lines_are_taken_with_and_without_their_content_type(
    http: httpx.AsyncClient, edge: Edge
):
    """One object per line; a bad line spoils only itself."""
    lines = text(GOOD) + b"\n\n" + text(GOOD) + b"\n"
    assert (await http.post(URL, content=lines)).json()["accepted"] == 2
    mixed = text(GOOD) + b"\n{bad\n"
    answer = await http.post(URL, content=mixed, headers={"content-type": "application/x-ndjson"})
    assert (answer.json()["accepted"], len(answer.json()["rejected"])) == (1, 1)


async def test_a_pretty_printed_object_is_one_record(http: httpx.AsyncClient, edge: Edge):
    """Not one record per line."""
    pretty = json.dumps(GOOD, ensure_ascii=False, indent=1).encode()
    assert (await http.post(URL, content=pretty)).json()["accepted"] == 1


async def test_own_numbers_and_idempotency_keys_survive_retries(
    http: httpx.AsyncClient, edge: Edge
):
    """The same record again has the same identity; without either it is a new one."""

    async def ids(record: object, **headers: str) -> list[str]:
        return (await http.post(URL, content=text(record), headers=headers)).json()["ids"]

    numbered = {**GOOD, "记录编号": "17"}
    assert await ids(numbered) == await ids(numbered)
    assert await ids(numbered) != await ids({**numbered, "抓拍设备地址": "10.0.0.2"})
    assert await ids(numbered) != await ids({**numbered, "抓拍时间": "2017-08-24 18:00:00"})
    keyed = {"idempotency-key": "abc"}
    assert await ids([GOOD, GOOD], **keyed) == await ids([GOOD, GOOD], **keyed)
    assert len(set(await ids([GOOD, GOOD], **keyed))) == 2
    assert await ids(GOOD) != await ids(GOOD)


async def test_a_replayed_request_is_marked(http: httpx.AsyncClient, edge: Edge):
    """Left out of the latency statistic downstream."""
    await http.post(URL, content=text(GOOD), headers={"x-replay": "1"})
    assert headers_of(spooled(edge)[0])["replay"] == "1"


async def test_inline_pictures_become_addresses_before_the_record_travels(
    http: httpx.AsyncClient, edge: Edge
):
    """The picture is served; every other value keeps its bytes."""
    picture = base64.b64encode(JPEG).decode()
    body = (
        b'{"a": 1.50, "\xe8\xbd\xa6\xe8\xbe\x86\xe5\x9b\xbe\xe7\x89\x87": "data:image/jpeg;base64,'
        + picture.encode()
        + b'", '
        + text(GOOD)[1:]
    )
    assert (await http.post(URL, content=body)).json()["accepted"] == 1
    (entry,) = spooled(edge)
    found = msgspec.json.decode(entry.value)
    assert b"1.50" in entry.value
    assert "车辆图片" not in found
    served = await http.get(httpx.URL(found["车辆图片地址"]).path)
    assert served.content == JPEG
    assert served.headers["content-type"] == "image/jpeg"
    assert served.headers["x-content-type-options"] == "nosniff"


async def test_pictures_come_beside_the_record_too(http: httpx.AsyncClient, edge: Edge):
    """Multipart; a face is valid by a picture that has no address yet."""
    face = {"卡口编号": "c1", "抓拍时间": "2017-08-24 17:25:34"}
    files = {
        "record": ("r.json", text(face), "application/json"),
        "人脸图片": ("f.jpg", JPEG, "image/jpeg"),
    }
    answer = await http.post("/v1/records/face", files=files)
    assert answer.json()["accepted"] == 1, answer.text
    (entry,) = spooled(edge)
    assert (await http.get(httpx.URL(json.loads(entry.value)["人脸图片地址"]).path)).content == JPEG
    without = await http.post("/v1/records/face", content=text(face))
    assert without.json()["rejected"][0]["reason"] == "no-picture-or-feature"


@pytest.mark.parametrize(
    "files",
    [{"人脸图片": ("f.jpg", JPEG)}, {"record": ("r", b"{}"), "what": ("f.jpg", JPEG)}],
    ids=["no record", "unknown part"],
)
async def test_a_form_that_is_not_the_contracts_is_told_so(
    http: httpx.AsyncClient, files: dict[str, object]
):
    """400, with the parts that are known."""
    answer = await http.post("/v1/records/face", files=files)
    assert answer.status_code == 400
    assert "record" in answer.json()["message"]


async def test_a_picture_may_come_first_by_put(http: httpx.AsyncClient, edge: Edge):
    """Its address is answered; a retry is fine, another picture under the name is not."""
    first = await http.put("/v1/pictures/a.jpg", content=JPEG)
    assert first.status_code == 201
    assert (await http.put("/v1/pictures/a.jpg", content=JPEG)).json() == first.json()
    assert first.json()["warnings"] == []
    assert (await http.put("/v1/pictures/a.jpg", content=b"other")).status_code == 409
    assert (await http.get(httpx.URL(first.json()["url"]).path)).content == JPEG
    assert (await http.put("/v1/pictures/..%2Fa.jpg", content=JPEG)).status_code in (400, 404)
    assert (await http.get("/pictures/../spool/records/lock")).status_code == 404
    for name in ("%2e%2e/spool/records/lock", *HOSTILE_NAMES):
        assert (await http.get(f"/pictures/{name}")).status_code == 404, name


async def test_what_is_put_is_judged_as_any_other_picture(http: httpx.AsyncClient):
    """Bytes that are no picture are kept with a warning; nothing at all does not take the name."""
    reply = await http.put("/v1/pictures/b.jpg", content=b"just some text")
    assert reply.status_code == 201
    (warning,) = reply.json()["warnings"]
    assert "Not JPEG" in warning["message"]
    empty = await http.put("/v1/pictures/c.jpg", content=b"")
    assert (empty.status_code, empty.json()["error"]) == (400, "empty")
    assert (await http.put("/v1/pictures/c.jpg", content=JPEG)).status_code == 201
    strange = (await http.put("/v1/pictures/车.jpg", content=JPEG)).json()
    assert strange["error"] == "bad-name"
    assert "a-z" in strange["message"]
    assert "英文字母" in strange["message_zh"]


async def test_counters_go_to_their_topic(http: httpx.AsyncClient, edge: Edge):
    """One or a list; the answer to a wrong one says where."""
    sent = {
        "producer": "s1",
        "epoch": 1,
        "kind": "vehicle",
        "camera_ip": "10.0.0.1",
        "minute_ms": 60000,
        "sent": 3,
    }
    assert (await http.post("/v1/counters", json=[sent, sent])).json() == {"accepted": 2}
    assert (await http.post("/v1/counters", json=sent)).json() == {"accepted": 1}
    wrong = await http.post("/v1/counters", json=[{**sent, "sent": "3"}])
    assert wrong.status_code == 422
    assert "sent" in wrong.json()["message"]
    for field, value in {"sent": 1 << 63, "minute_ms": 1 << 63, "kind": "boat"}.items():
        wrong = await http.post("/v1/counters", json={**sent, field: value})
        assert (wrong.status_code, field in wrong.json()["message"]) == (422, True)
        assert field in wrong.json()["message_zh"]
    assert [e.topic for e in spooled(edge)] == ["meter.sent"] * 3
    assert spooled(edge)[0].key == b"s1"


async def test_a_path_with_a_slash_too_many_is_told_so(http: httpx.AsyncClient):
    """Before, the answer was a redirection, which few clients follow with their records."""
    reply = await http.post(URL + "/", content=text(GOOD))
    assert (reply.status_code, reply.json()["error"]) == (404, "no-such-path")


async def test_unknown_kinds_and_content_types_are_refused(http: httpx.AsyncClient):
    """404 and 415, before anything is read."""
    assert (await http.post("/v1/records/boat", content=text(GOOD))).status_code == 404
    answer = await http.post(URL, content=b"<x/>", headers={"content-type": "application/xml"})
    assert answer.status_code == 415


class TestBounds:
    @pytest.fixture
    def edge_settings(self) -> EdgeSettings:
        return EdgeSettings(
            max_body_bytes=20_000, max_records_per_request=3, max_record_bytes=2_000, spool_max_bytes=9_000,
            max_picture_bytes=100, spool_min_free_bytes=0, tokens={"server-1": "secret"}, reader_tokens={"prometheus": "read"},
        )  # fmt: skip

    @pytest.fixture
    def http(self, http: httpx.AsyncClient) -> httpx.AsyncClient:
        http.headers["authorization"] = "Bearer secret"
        return http

    async def test_bodies_and_batches_have_a_bound(self, http: httpx.AsyncClient, edge: Edge):
        """413, and nothing of the request is taken."""

        async def endless():
            for _ in range(100):
                yield b"x" * 1000

        assert (await http.post(URL, content=b"x" * 20_001)).status_code == 413
        assert (await http.post(URL, content=endless())).status_code == 413
        assert (await http.post(URL, content=text([GOOD] * 4))).status_code == 413
        assert (await http.put("/v1/pictures/a.jpg", content=b"x" * 101)).status_code == 413
        assert spooled(edge) == []

    async def test_a_record_that_is_too_large_is_kept_as_far_as_it_may_be(
        self, http: httpx.AsyncClient, edge: Edge
    ):
        """Rejected like any other, with its beginning and its size."""
        answer = await http.post(URL, content=text({**GOOD, "x": "y" * 3000}))
        assert answer.json()["rejected"][0]["reason"] == "too-large"
        (entry,) = spooled(edge)
        assert len(entry.value) == 2_000
        assert int(headers_of(entry)["truncated"]) > 3000

    async def test_at_the_spools_bound_the_answer_is_503_with_a_time(
        self, http: httpx.AsyncClient, edge: Edge
    ):
        """Well-formed records are refused only there; counted per device, not as arrived."""
        for _ in range(100):
            answer = await http.post(URL, content=text(GOOD))
            if answer.status_code != 200:
                break
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        taken = len(spooled(edge))
        assert (await http.get("/v1/status")).json()["arrived"] == {"vehicle": taken}
        metrics = (await http.get("/metrics", headers={"authorization": "Bearer read"})).text
        assert (
            'databus_edge_device_records_total{camera_ip="10.0.0.1",outcome="refused"} 1.0'
            in metrics
        )

    async def test_with_tokens_only_known_senders_are_heard(self, http: httpx.AsyncClient):
        """401 without or with a wrong one; the edge's own figures stay open."""
        for given in ("", "Bearer wrong", "Basic secret"):
            answer = await http.post(URL, content=text(GOOD), headers={"authorization": given})
            assert answer.status_code == 401
        assert (await http.post(URL, content=text(GOOD))).status_code == 200
        assert (await http.get("/v1/status", headers={"authorization": ""})).status_code == 200


async def test_a_request_that_stumbles_is_answered_500_and_counted(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
):
    """What a sender's bytes provoke must not end the edge, nor go unnoticed."""

    def stumble(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("ingest.edge.edge.admit", stumble)
    transport = httpx.ASGITransport(app=create_app(edge), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://edge") as client:
        answer = await client.post("/v1/records/vehicle", json={"车牌号码": "京A12345"})
        assert answer.status_code == 500
        assert "databus_edge_failed_requests_total 1.0" in (await client.get("/metrics")).text
        assert (await client.get("/v1/status")).status_code == 200
