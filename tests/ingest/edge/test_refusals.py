"""Every refusal leaves its trace, within bounds: a line, a metric, a row, the beginning of its body."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from itertools import product
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.contracts import headers
from bus.contracts.sender_faults import FIRST_PEERS, RefusedGroup, SenderFaults
from bus.contracts.topics import QUARANTINE_RECORDS
from bus.domain.times import HOUR_MS, MINUTE_MS
from ingest.edge import refusals
from ingest.edge.body_start import MAX_BYTES, BodyStart
from ingest.edge.edge import Edge
from ingest.edge.refusal_recorder import TALLY
from ingest.edge.refusals import RefusalTable, RefusedRequest, RetainedBytes
from ingest.edge.routes import ROUTES, create_app
from ingest.normalise.foreign import HIKVISION
from ingest.settings import EdgeSettings
from monitor.i18n import texts
from tests.ingest.edge.camera_form import CAMERA_FORM, CAMERA_FORM_TYPE

NOW_MS = 1_800_000_000_000
SENDING = ("POST", "PUT")
RECORD = json.dumps({"卡口编号": "c1", "抓拍时间": "2026-11-28 08:00:00.000"}).encode()
BODIES = [
    (b"", None), (RECORD, None), (RECORD, "application/xml"), (b"\xff\xd8\xff\xe0", "image/jpeg"),
    (RECORD[:-3], "multipart/form-data"), (CAMERA_FORM, CAMERA_FORM_TYPE),
    (CAMERA_FORM, "multipart/form-data; boundary=other"), (b"x" * 3000, "text/html"),
]  # fmt: skip
PATHS = ("/", "/v1/records", "/v1/records/car", "/ISAPI/Event/notification/alertStream",
         "/v1/pictures/a.jpg", "/pictures/20261128/c/a.jpg", "/nowhere")  # fmt: skip


TOKENS = "with tokens"


@pytest.fixture
def edge_settings(request: pytest.FixtureRequest) -> EdgeSettings:
    tokens = {"city": "t"} if getattr(request, "param", "") == TOKENS else {}
    return EdgeSettings(
        spool_min_free_bytes=0, max_body_bytes=2000, max_picture_bytes=1000,
        tokens=tokens, reader_tokens={"r": "reads"} if tokens else {},
    )  # fmt: skip


async def senders(http: httpx.AsyncClient) -> SenderFaults:
    answer = await http.get("/v1/senders", headers={"Authorization": "Bearer reads"})
    return SenderFaults(**{
        **answer.json(),
        "groups": [RefusedGroup(**one) for one in answer.json()["groups"]],
    })  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("edge_settings", ["open", TOKENS], indirect=True)
async def test_every_route_method_body_and_status_leaves_its_trace(
    http: httpx.AsyncClient, edge: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, 400, 404, 405, 413 and 415 left nothing: wrongly set cameras looked like none."""
    caplog.set_level(logging.WARNING)
    asked = {re.sub(r"\{.*\}", "a", path.replace("{kind}", "vehicle")) for _, path, _, _ in ROUTES}
    refused, kept = Counter[str](), 0
    for method, path in product((*SENDING, "GET"), sorted(asked | set(PATHS))):
        if (method, path) == ("GET", "/v1/mirrored-ends"):
            continue  # it waits for brokers that are not there, and answers 503
        for body, kind in BODIES if method in SENDING else [(b"", None)]:
            given_headers = {"content-type": kind} if kind else {}
            answer = await http.request(method, path, content=body, headers=given_headers)
            if answer.status_code >= 400 and b'"error"' in answer.content:
                refused[answer.json()["error"]] += 1
                kept += bool(method in SENDING and body)
    metrics = (await http.get("/metrics")).text
    found = Counter[str]()
    for reason, count in re.findall(
        r'databus_edge_refused_requests_total\{maker="[^"]*",reason="([^"]+)"\} ([0-9.]+)', metrics
    ):
        found[reason] += round(float(count))
    assert found == refused
    assert edge.refusals.count == sum(refused.values())
    assert edge.spool.totals.get(TALLY, 0) == kept
    assert edge.meters.status()["arrived"] == {
        kind: sum(count for tally, count in edge.spool.totals.items() if tally.startswith(kind))
        for kind in edge.meters.status()["arrived"]  # type: ignore[attr-defined]
    }
    for reason in refused:
        assert f": {reason}: " in caplog.text
    rows = {one["reason"] for one in (await senders(http)).refused}  # type: ignore[index]
    assert rows == set(refused)


@pytest.mark.slow
async def test_a_cameras_own_push_is_recognised_and_kept(
    http: httpx.AsyncClient, edge: Edge
) -> None:
    """Its maker stands in the answer, the metric, the group, and beside the bytes that are kept."""
    answer = await http.post(
        "/v1/records/vehicle", content=CAMERA_FORM,
        headers={"content-type": CAMERA_FORM_TYPE, "Authorization": "Bearer t"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["error"]) == (400, "foreign-form")
    assert HIKVISION in answer.json()["message"]
    assert HIKVISION in answer.json()["message_zh"]
    assert f'maker="{HIKVISION}",reason="foreign-form"' in (await http.get("/metrics")).text
    [group] = (await senders(http)).groups
    assert (group.maker, group.peers, group.first_peers) == (HIKVISION, 1, ["10.1.2.3"])
    edge.spool.rewind()
    [entry] = [queued.entry for queued in edge.spool.read(10)]
    assert (entry.topic, entry.value, entry.slot) == (QUARANTINE_RECORDS, CAMERA_FORM, None)
    told = dict(entry.headers)
    assert told[headers.REASON] == b"refused"
    assert told[headers.FIELD] == f"foreign-form {HIKVISION}".encode()
    assert headers.KIND not in told  # so no account has it


@pytest.mark.parametrize("edge_settings", [TOKENS], indirect=True)
async def test_addresses_are_for_readers_only(http: httpx.AsyncClient) -> None:
    """The open status says how many; who they are, a reader's token tells."""
    assert (await http.post("/v1/records/vehicle")).status_code == 401
    [plain] = (await http.get("/v1/status")).json()["refused"]["groups"]
    reader = {"Authorization": "Bearer reads"}
    [full] = (await http.get("/v1/status", headers=reader)).json()["refused"]["groups"]
    assert (plain["peers"], plain["first_peers"]) == (1, [])
    assert full["first_peers"] == ["10.1.2.3"]
    assert (await http.get("/v1/senders")).status_code == 401


async def test_a_body_is_read_to_its_end_and_only_its_beginning_is_kept(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is closed over unread bytes is reset; memory keeps 64 KiB."""
    start = BodyStart()
    for _ in range(100):
        start.feed(b"x" * 1000)
    assert (len(start.data), start.size) == (MAX_BYTES, 100_000)
    monkeypatch.setattr(refusals, "RETAINED_BYTES", 0)
    transport = httpx.ASGITransport(app=create_app(edge), client=("10.1.2.3", 1))
    read = 0

    async def chunks():  # type: ignore[no-untyped-def]
        nonlocal read
        for _ in range(3):
            read += 1
            yield b"x" * 1000

    async with httpx.AsyncClient(transport=transport, base_url="http://edge") as http:
        assert (await http.post("/nowhere", content=chunks())).status_code == 404
    assert read == 3


def refusal(reason: str, maker: str, peer: str, could_be_record: bool = True) -> RefusedRequest:
    return RefusedRequest(reason, maker, peer, "POST /x", could_be_record)


events = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.sampled_from(["", "M"]), st.integers(0, 30),
        st.booleans(), st.integers(0, 20 * MINUTE_MS),
    ),
    max_size=150,
)  # fmt: skip


@settings(max_examples=60)
@given(events, st.integers(3, 40))
def test_the_table_is_bounded_and_counts_what_it_holds(
    made: list[tuple[str, str, int, bool, int]], most: int
) -> None:
    """Against a plain list of all refusals; beyond the bound the oldest peers go."""
    table, now_ms, lines = RefusalTable(), NOW_MS, Counter[int]()
    all_rows: dict[tuple[str, str, str], list[int]] = {}
    records: set[tuple[str, str, str]] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "MAX_PEERS", most)
        for reason, maker, number, could_be_record, wait_ms in made:
            now_ms += wait_ms
            key = (reason, maker, f"p{number}")
            lines[now_ms // MINUTE_MS] += table.add(
                refusal(*key, could_be_record=could_be_record), now_ms
            )
            times = all_rows.pop(key, [])
            all_rows[key] = [*times, now_ms]
            records |= {key} if could_be_record else set()
            for gone in list(all_rows)[:-most]:
                del all_rows[gone]
                records.discard(gone)
    assert max(lines.values(), default=0) <= refusals.MAX_LINES
    rows = table.peers(now_ms, 10**6)
    assert len(rows) <= most
    assert {(r.reason, r.maker, r.peer): r.requests for r in rows} == {
        key: len(times) for key, times in all_rows.items() if now_ms - times[-1] <= 24 * HOUR_MS
    }
    due = {k: t for k, t in all_rows.items() if k in records and now_ms - t[-1] <= HOUR_MS}
    groups = table.groups(now_ms, with_peers=True)
    assert {(g.reason, g.maker): (g.peers, g.requests) for g in groups} == {
        group: (
            sum(k[:2] == group for k in due), sum(len(t) for k, t in due.items() if k[:2] == group)
        )
        for group in {k[:2] for k in due}
    }  # fmt: skip
    for group in groups:
        assert len(group.first_peers) == min(group.peers, FIRST_PEERS)


def test_a_street_is_one_group_with_its_number_and_its_first_hundred() -> None:
    """And a hundred cameras that say the same write twenty lines in a minute."""
    table = RefusalTable()
    lines = sum(table.add(refusal("r", "M", f"10.0.0.{n}"), NOW_MS + n) for n in range(250))
    [group] = table.groups(NOW_MS + 250, with_peers=True)
    assert (group.peers, group.first_peers) == (250, [f"10.0.0.{n}" for n in range(100)])
    assert lines == refusals.MAX_LINES
    assert not table.add(refusal("r", "M", "10.0.0.0"), NOW_MS + MINUTE_MS)  # told already
    assert table.add(refusal("r", "M", "10.0.0.0"), NOW_MS + refusals.LINE_EVERY_MS)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, MAX_BYTES), st.integers(0, 10 * MINUTE_MS)),
        max_size=120,
    )
)
def test_so_many_bytes_an_hour_of_a_peer_and_of_all(made: list[tuple[int, int, int]]) -> None:
    """Never more, and always what still fits."""
    kept, now_ms, total_of = RetainedBytes(), NOW_MS, Counter[tuple[int, int]]()
    for peer, size, wait_ms in made:
        now_ms += wait_ms
        hour = now_ms // HOUR_MS
        fits = total_of[hour, peer] + size <= refusals.RETAINED_BYTES_OF_PEER
        assert kept.reserve(f"p{peer}", size, now_ms) == fits
        total_of[hour, peer] += size * fits


def test_many_peers_have_a_bound_together() -> None:
    """By bytes and by number."""
    kept = RetainedBytes()
    taken = sum(kept.reserve(f"p{n}", MAX_BYTES, NOW_MS) for n in range(1000))
    assert taken == refusals.RETAINED_BYTES // MAX_BYTES
    small = RetainedBytes()
    assert sum(small.reserve(f"p{n}", 1, NOW_MS) for n in range(9000)) == refusals.MAX_RETAINED


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_reason_has_a_name_in_both_languages(language: str) -> None:
    """Those in the sources of the edge are all there are."""
    named = texts(language).group("refusal").keys()
    sources = [path.read_text() for path in Path("ingest/edge").glob("*.py")]
    found = {
        code
        for text in sources
        for code in re.findall(
            r'\bproblem\(\s*\d+,\s*"([a-z-]+)"|Problem\(\s*error="([a-z-]+)"|reason, text = "([a-z-]+)"',
            text,
        )
    }
    codes = {one for codes in found for one in codes if one} - {"full", "no-bus"}
    assert codes == named
