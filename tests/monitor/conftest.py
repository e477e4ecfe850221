"""What the console's tests share: a filled data directory, services, clients with and without an account."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import itsdangerous
import pytest
from fastapi import FastAPI

sys.path.insert(
    0, str(Path(__file__).parent)
)  # console_city and console_traffic, for these tests only

from console_city import ListedAlarms, alarms, fill_store, incidents

from broker.server.embedded import RunningBroker, start_broker_process
from bus.settings import BusSettings, SiteSettings
from ingest.store.open import open_store
from monitor.accounts import passwords
from monitor.accounts.roles import EVERYBODY, Principal, Role
from monitor.api.app import create_api
from monitor.api.services import Services, build_services
from monitor.settings import ConsoleSettings

CHEAP_SCRYPT = 2**10  # the lines tell their cost; test_passwords.py tests the real one
NOBODY_LISTENS = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def cheap_passwords(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same code, a smaller number: what is tested here is not how long scrypt takes."""
    if request.path.name != "test_passwords.py":
        monkeypatch.setattr(passwords, "_N", CHEAP_SCRYPT)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A data directory with six hours of data, and the moment it was made."""
    now_ms = time.time_ns() // 1_000_000
    path = tmp_path_factory.mktemp("filled")
    fill_store(path, now_ms=now_ms, records=450)
    return path, now_ms


@pytest.fixture
def data_path(filled: tuple[Path, int], tmp_path: Path) -> Path:
    """A copy, so that accounts and sessions of one test are not another's."""
    return Path(shutil.copytree(filled[0], tmp_path / "var"))


def make_services(data_path: Path, now_ms: int, bootstrap: str = NOBODY_LISTENS) -> Services:
    """As `deploy` wires them."""
    listed, told = alarms(now_ms), incidents(now_ms)
    return build_services(
        SiteSettings(data_dir=str(data_path)),
        BusSettings(bootstrap_servers=bootstrap),
        ConsoleSettings(),
        lambda: open_store(f"sqlite://{data_path}/store/records.db"),
        lambda: ListedAlarms(listed, told),
    )


@pytest.fixture
def services(data_path: Path, filled: tuple[Path, int]) -> Iterator[Services]:
    """Wired, not started; no broker."""
    made = make_services(data_path, filled[1])
    yield made
    made.records.close()
    made.alarms.close()


@pytest.fixture
def app(services: Services) -> FastAPI:
    """The guarded API."""
    return create_api(services)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    """A browser without cookies."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://console")


@pytest.fixture
async def stranger(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Nobody is logged in."""
    async with client_of(app) as client:
        yield client


LogIn = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def as_role(app: FastAPI, services: Services) -> AsyncIterator[LogIn]:
    """A client with a session of the given roles (all of them when none is named)."""
    made: list[httpx.AsyncClient] = []

    def log_in(*roles: Role) -> httpx.AsyncClient:
        client = client_of(app)
        principal = Principal(name="guest", roles=frozenset(roles) or EVERYBODY)
        sid = services.sessions.open(principal, guest=True)
        client.cookies.set("databus_console", signed({"sid": sid}, services.secret))
        made.append(client)
        return client

    yield log_in
    await asyncio.gather(*(client.aclose() for client in made))


def signed(session: dict[str, str], secret: str) -> str:
    """The cookie that Starlette's session middleware writes."""
    return (
        itsdangerous.TimestampSigner(secret)
        .sign(base64.b64encode(json.dumps(session).encode()))
        .decode()
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Our own broker in a process of its own."""
    running = start_broker_process(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()
