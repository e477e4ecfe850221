"""Who may do what at the edge, with and without tokens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from bus.settings import BusSettings, SiteSettings
from ingest.edge.app import open_edge
from ingest.edge.caller import EdgePermission
from ingest.edge.routes import ROUTES, create_app
from ingest.settings import EdgeSettings, PictureSettings

NO_BUS = BusSettings(bootstrap_servers="127.0.0.1:1")

RECORD = {"卡口编号": "c1", "抓拍时间": "2017-08-24 17:25:34.123", "抓拍设备地址": "10.0.0.1"}
SENDER = {"authorization": "Bearer secret of a sender"}
READER = {"authorization": "Bearer secret of a reader"}
WRONG = {"authorization": "Bearer unknown"}


@pytest.fixture(autouse=True)
def forwarder_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no bus here."""
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.start", lambda self: None)
    monkeypatch.setattr("ingest.edge.forwarder.SpoolForwarder.stop", lambda self: None)


async def answers(
    tmp_path: Path, settings: EdgeSettings, headers: dict[str, str]
) -> dict[str, int]:
    """A record and its picture are there; then one request of each kind, by who asks."""
    site = SiteSettings(name="west", data_dir=str(tmp_path))
    async with open_edge(site, NO_BUS, settings, PictureSettings()) as edge:
        transport = httpx.ASGITransport(app=create_app(edge), client=("10.1.2.3", 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://edge") as http:
            put = await http.put("/v1/pictures/a.jpg", content=b"\xff\xd8\xff", headers=SENDER)
            await http.post("/v1/records/vehicle", content=json.dumps(RECORD), headers=SENDER)
            picture = httpx.URL(put.json()["url"]).path
            metrics = await http.get("/metrics", headers=headers)
            return {
                "send": (
                    await http.post("/v1/records/vehicle", content="{}", headers=headers)
                ).status_code,
                "picture": (await http.get(picture, headers=headers)).status_code,
                "guessed": (await http.get("/pictures/x.jpg", headers=headers)).status_code,
                "metrics": metrics.status_code,
                "addresses": int('camera_ip="10.0.0.1"' in metrics.text),
                "totals": metrics.text.count("databus_edge_records_total{"),
                "status": (await http.get("/v1/status", headers=headers)).status_code,
                "healthz": (await http.get("/healthz", headers=headers)).status_code,
            }


TOKENS = EdgeSettings(
    spool_min_free_bytes=0,
    tokens={"server-1": "secret of a sender"},
    reader_tokens={"prometheus": "secret of a reader"},
)


@pytest.mark.parametrize("headers", [{}, WRONG, {"authorization": "Bearer "}], ids=str)
async def test_a_stranger_sees_no_picture_and_no_address_of_a_camera(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """Regression: both were public, also with tokens set. The health check and totals stay
    public."""
    found = await answers(tmp_path, TOKENS, headers)
    assert (found["send"], found["picture"], found["guessed"]) == (401, 401, 401)
    assert (found["metrics"], found["addresses"]) == (200, 0)
    assert found["totals"] > 0


async def test_a_reader_reads_and_does_not_send(tmp_path: Path) -> None:
    """Its token is in Prometheus' and other people's files: it must not be worth a record."""
    found = await answers(tmp_path, TOKENS, READER)
    assert (found["send"], found["picture"], found["guessed"]) == (403, 200, 404)
    assert found["addresses"] == 1


async def test_a_sender_sends_and_does_not_read(tmp_path: Path) -> None:
    """A camera's token, taken from its pole, does not open the city's pictures."""
    found = await answers(tmp_path, TOKENS, SENDER)
    assert (found["send"], found["picture"]) == (422, 403)
    assert found["addresses"] == 0


async def test_without_any_token_everything_is_open(tmp_path: Path) -> None:
    """As the set-up of one machine, which listens on it alone, has it."""
    found = await answers(tmp_path, EdgeSettings(spool_min_free_bytes=0), {})
    assert (found["send"], found["picture"], found["addresses"]) == (422, 200, 1)


async def test_tokens_of_senders_alone_shut_the_pictures(tmp_path: Path) -> None:
    """The console shows them behind its own log-in."""
    settings = EdgeSettings(spool_min_free_bytes=0, tokens={"server-1": "secret of a sender"})
    assert (await answers(tmp_path, settings, {}))["picture"] == 401


PAGE_TOKEN = "token-of-the-pages"
PAGE = {"authorization": f"Bearer {PAGE_TOKEN}"}
MIRROR = {"authorization": "Bearer secret of a mirror"}
PAGES = [path for method, path, _, permission in ROUTES if permission is EdgePermission.PAGE]
READ_ROUTES = [path.replace("{name:path}", "x.jpg") for method, path, _, _ in ROUTES if method == "GET"]


@pytest.fixture
async def closed_edge(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """One with every kind of token."""
    settings = msgspec.structs.replace(TOKENS, mirror_tokens={"mirror": "secret of a mirror"})
    site = SiteSettings(name="west", data_dir=str(tmp_path))
    async with open_edge(
        site, NO_BUS, settings, PictureSettings(), page_token=PAGE_TOKEN
    ) as edge:
        transport = httpx.ASGITransport(app=create_app(edge), client=("10.1.2.3", 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://edge") as http:
            yield http


@pytest.mark.parametrize(
    "headers",
    [{}, WRONG, {"authorization": "Bearer "}, {"authorization": f"Basic {PAGE_TOKEN}"},
     {"authorization": b"Bearer \xff\xfe"}, {"authorization": f"Bearer {PAGE_TOKEN * 5000}"}],
    ids=range(6),
)  # fmt: skip
async def test_whatever_a_stranger_reads_asks_for_a_token(
    closed_edge: httpx.AsyncClient, headers: dict[str, Any]
) -> None:
    """Of all routes that there are; that it lives is all that it says."""
    assert set((await closed_edge.get("/healthz", headers=headers)).json()) == {"status"}
    for path in set(READ_ROUTES) - {"/healthz"}:
        reply = await closed_edge.get(path, headers=headers)
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer"), path
        assert reply.json()["error"] == "denied"
        assert PAGE_TOKEN not in reply.text


async def test_a_page_opens_for_its_token_and_for_readers_and_mirrors(
    closed_edge: httpx.AsyncClient,
) -> None:
    """A sender's token is of a pole in the street; what is behind it is no state of the city."""
    for path in PAGES:
        for headers in (PAGE, READER, MIRROR):
            status = (await closed_edge.get(path, headers=headers)).status_code
            assert status in (200, 204, 503), path  # 503: there is no bus here
        assert (await closed_edge.get(path, headers=SENDER)).status_code == 403, path


async def test_the_token_of_pages_opens_nothing_else(closed_edge: httpx.AsyncClient) -> None:
    """No address of a camera, no picture, no record: it stands in many files."""
    for path in set(READ_ROUTES) - set(PAGES) - {"/healthz"}:
        assert (await closed_edge.get(path, headers=PAGE)).status_code == 403, path
    sent = await closed_edge.post("/v1/records/vehicle", json=RECORD, headers=PAGE)
    assert sent.status_code == 403
    await closed_edge.post("/v1/records/vehicle", json=RECORD, headers=SENDER)
    seen = {
        who: "10.0.0.1" in (await closed_edge.get("/metrics", headers=headers)).text
        for who, headers in (("page", PAGE), ("reader", READER))
    }
    assert seen == {"page": False, "reader": True}
