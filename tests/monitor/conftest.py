"""What the console's tests share: a filled data directory, services, clients with and without an account."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(
    0, str(Path(__file__).parent)
)  # console_city, console_services and console_traffic, for these tests only

from console_city import fill_store
from console_services import client_of, make_services, signed

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings
from deploy.documentation.screenshots import FLAGS
from deploy.servers.databus import RunningBroker, start_broker
from deploy.setup.test_packages import CHROMIUM
from monitor.accounts import passwords, store
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices

CHEAP_SCRYPT = 2**10  # the lines contain their cost; test_passwords.py tests the real one


@pytest.fixture(autouse=True)
def cheap_passwords(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same code, a smaller number: what is tested here is not how long scrypt takes."""
    if request.path.name != "test_passwords.py":
        monkeypatch.setattr(passwords, "_N", CHEAP_SCRYPT)
        nobody = passwords.UNKNOWN_ACCOUNT.replace(f"${2**15}$", f"${CHEAP_SCRYPT}$")
        monkeypatch.setattr(store, "UNKNOWN_ACCOUNT", nobody)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusSettings]:
    """A broker of the test's own with every topic."""
    broker = start_broker(tmp_path / "broker")
    settings = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Admin(settings, client_id="test")) as admin:
        admin.ensure_topics(TOPICS.values())
    yield settings
    broker.stop()


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


@pytest.fixture
def services(data_path: Path, filled: tuple[Path, int]) -> Iterator[ConsoleServices]:
    """Wired, not started; no broker."""
    made = make_services(data_path, filled[1])
    yield made
    made.records.close()
    made.alarms.close()
    made.previews.close()
    made.account_writes.close()
    made.account_store.close()


@pytest.fixture
def app(services: ConsoleServices) -> FastAPI:
    """The guarded API."""
    return create_api(services)


@pytest.fixture
async def stranger(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Without a log-in."""
    async with client_of(app) as client:
        yield client


LogIn = Callable[..., httpx.AsyncClient]


@pytest.fixture
async def as_role(app: FastAPI, services: ConsoleServices) -> AsyncIterator[LogIn]:
    """A client with a session of the given roles (all of them when none is named)."""
    made: list[httpx.AsyncClient] = []

    def log_in(*roles: AccountRole) -> httpx.AsyncClient:
        client = client_of(app)
        principal = ConsolePrincipal(name="guest", roles=frozenset(roles) or EVERYBODY)
        sid = services.sessions.open(principal, guest=True)
        client.cookies.set("databus_console", signed({"sid": sid}, services.secret))
        made.append(client)
        return client

    yield log_in
    await asyncio.gather(*(client.aclose() for client in made))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Our own broker in a process of its own."""
    running = start_broker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()
