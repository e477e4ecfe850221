"""The verbs of `quotas`, against our own broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands
from deploy.servers.databus import start_broker

pytestmark = pytest.mark.slow

Run = Callable[[str], Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Words as `databus` would take them."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    running = start_broker(tmp_path_factory.mktemp("quotas"))
    settings = SimpleNamespace(
        bus=BusSettings(bootstrap_servers=running.bootstrap), site=SiteSettings()
    )
    yield lambda words: CliRunner().invoke(app, words.split(), obj=settings)
    running.stop()


def out(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def row(key: str, value: float, user: str = "", client_id: str = "", ip: str = "") -> dict[str, object]:
    return {"user": user, "client-id": client_id, "ip": ip, "key": key, "value": value}


def test_quotas_are_set_listed_and_taken_back(run: Run) -> None:
    assert run("quotas list").stdout == "no quotas\n"
    done = run("quotas set --client-id camera producer_byte_rate=1e6 request_percentage=12.5")
    assert done.stdout.splitlines() == [
        "set: producer_byte_rate=1000000 of client-id camera",
        "set: request_percentage=12.5 of client-id camera",
    ]
    pair = row("consumer_byte_rate", 5.0, user="*", client_id="edge")
    assert out(run("quotas set --user * --client-id edge consumer_byte_rate=5 --json")) == [pair]
    address = row("connection_creation_rate", 3.0, ip="10.0.0.1")
    assert out(run("quotas set --ip 10.0.0.1 connection_creation_rate=3 --json")) == [address]
    camera = [row("producer_byte_rate", 1e6, client_id="camera"),
              row("request_percentage", 12.5, client_id="camera")]  # fmt: skip
    assert out(run("quotas list --json")) == [*camera, pair, address]
    assert "camera" in run("quotas list").stdout
    assert out(run("quotas unset --client-id edge --user * consumer_byte_rate --json")) == [pair]
    wrong = run("quotas unset --client-id edge --user * consumer_byte_rate")
    assert (wrong.exit_code, "there is no such quota" in wrong.output) == (1, True)
    assert run("quotas unset --ip 10.0.0.1 connection_creation_rate").exit_code == 0
    assert out(run("quotas list --json")) == camera


@pytest.mark.parametrize(("words", "told"), [
    ("set producer_byte_rate=1", "say whose it is"),
    ("set --ip 10.0.0.1 --user x connection_creation_rate=1", "say whose it is"),
    ("set --user x producer_byte_rate", "write KEY=VALUE"),
    ("set --user x producer_byte_rate=-1", "write KEY=VALUE"),
    ("set --user x producer_byte_rate=nan", "write KEY=VALUE"),
    ("set --user x producer_bytes=1", "Invalid configuration key producer_bytes"),
    ("set --user x producer_byte_rate=0.5", "cannot be a fractional value"),
    ("set --ip garden connection_creation_rate=1", "is not a valid IP"),
])  # fmt: skip
def test_what_cannot_be_a_quota_is_refused_with_a_reason(run: Run, words: str, told: str) -> None:
    """And nothing is set."""
    before = out(run("quotas list --json"))
    done = run(f"quotas {words}")
    assert done.exit_code != 0
    assert told in " ".join(done.output.replace("│", " ").split())
    assert out(run("quotas list --json")) == before
