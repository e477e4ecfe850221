"""The console's services and clients as the tests make them, for conftest and tests alike."""

from __future__ import annotations

import base64
import json
from functools import partial
from pathlib import Path

import httpx
import itsdangerous
from console_city import ListedAlarms, alarms, incidents
from fastapi import FastAPI

from alarm.dispatch.reader import OperationsReader
from alarm.face_search import face_piece
from alarm.preview import preview_piece
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.settings import BusSettings, SiteSettings
from deploy.supervisor.state_file import supervised
from ingest.pictures.store import PictureStore
from ingest.store.open import open_store
from monitor.api.services import ConsoleServices, build_services
from monitor.settings import ConsoleSettings
from monitor.watch.incident_reader import newest_in_file

NOBODY_LISTENS = "127.0.0.1:1"


def make_services(
    data_path: Path, now_ms: int, bootstrap: str = NOBODY_LISTENS, policy: PolicySettings = NO_POLICY,
    operations: Path | None = None,
) -> ConsoleServices:
    """As `deploy` wires them; without `operations` its alarms are those of the city."""
    listed, told = alarms(now_ms), incidents(now_ms)
    return build_services(
        SiteSettings(data_dir=str(data_path)),
        BusSettings(bootstrap_servers=bootstrap),
        ConsoleSettings(),
        lambda: open_store(f"sqlite://{data_path}/store/records.db"),
        lambda: OperationsReader(operations) if operations else ListedAlarms(listed, told),
        PictureStore(str(data_path / "pictures"), "").serve,
        preview_piece,
        lambda: supervised(data_path),
        read_incidents=partial(newest_in_file, data_path / "watch" / "watch.db"),
        policy=policy,
        find_faces=face_piece,
    )


def client_of(app: FastAPI) -> httpx.AsyncClient:
    """A browser without cookies."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console")


def signed(session: dict[str, str], secret: str) -> str:
    """The cookie that Starlette's session middleware writes."""
    return (
        itsdangerous.TimestampSigner(secret)
        .sign(base64.b64encode(json.dumps(session).encode()))
        .decode()
    )
