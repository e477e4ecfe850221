"""Who may do what at the edge, with and without tokens."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from bus.settings import BusSettings, SiteSettings
from ingest.edge.app import open_edge
from ingest.edge.routes import create_app
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
