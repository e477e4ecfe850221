"""The verbs of `tokens`, against our own broker where everybody logs in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands
from deploy.servers.databus import RunningBroker, start_broker
from tests.broker.handlers.test_every_version import FrameSocket
from tests.token_clients import log_in

pytestmark = pytest.mark.slow

Run = Callable[[str, str], Result]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("tokens"), {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "plain.sasl.jaas.config": f'{MODULE} username="ann" password="of-ann" user_ann="of-ann"'
        ' user_bob="of-bob";',
        "delegation.token.secret.key": "key",
    })  # fmt: skip
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def run(server: RunningBroker) -> Run:
    """Words as `databus` would take them, of a user."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))

    def told(user: str, words: str) -> Result:
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
                 "sasl.username": user, "sasl.password": f"of-{user}"}  # fmt: skip
        bus = BusSettings(bootstrap_servers=server.bootstrap, librdkafka=login)
        settings = SimpleNamespace(bus=bus, site=SiteSettings())
        return CliRunner().invoke(app, words.split(), obj=settings)

    return told


def out(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def is_let_in(server: RunningBroker, token_id: str, password: str) -> bool:
    with closing(FrameSocket(server.bootstrap)) as wire:
        return not log_in(wire, token_id, password, by_token=True).error_code


def test_a_token_is_made_listed_renewed_and_ended(run: Run, server: RunningBroker) -> None:
    assert run("ann", "tokens list").stdout == "no tokens\n"
    made = out(run("ann", "tokens create --renewer bob --hours 2 --json"))
    password = made.pop("password")
    assert len(base64.b64decode(password)) == 64
    assert is_let_in(server, made["token"], password)
    assert (made["owner"], made["renewers"]) == ("User:ann", ["User:bob"])
    assert made["until"] == made["at_most_until"]
    for user in ("ann", "bob"):
        listed = run(user, "tokens list --json")
        assert out(listed) == [made]
        assert password not in listed.output
    assert made["token"] in run("bob", "tokens list --owner ann").stdout
    assert run("bob", "tokens list --owner bob").stdout == "no tokens\n"
    renewed = out(run("bob", f"tokens renew {made['token']} --hours 0.5 --json"))
    assert renewed["until"] < made["until"]
    done = run("bob", f"tokens expire {made['token']}")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"expired: token {made['token']} of User:ann, until ")
    assert not is_let_in(server, made["token"], password)
    assert run("ann", "tokens list").stdout == "no tokens\n"


def test_the_password_of_a_token_is_shown_when_it_is_made(run: Run, server: RunningBroker) -> None:
    """To a person, too."""
    made = run("ann", "tokens create").stdout.split()
    token_id, password = made[2], made[-1]
    assert is_let_in(server, token_id, password)
    assert run("ann", f"tokens expire {token_id}").exit_code == 0


def test_what_cannot_be_done_is_said_with_its_remedy(run: Run) -> None:
    unknown = run("ann", "tokens renew nothing")
    assert unknown.exit_code == 1
    assert "`databus tokens list` shows" in unknown.output
    assert run("ann", "tokens create --hours 0").exit_code == 2


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "Log in by a password or a certificate"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, "Set delegation.token.secret.key"),
    ],
)
def test_where_there_can_be_no_tokens_the_remedy_is_named(
    properties: dict[str, str], said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On a plain listener, and without a secret key."""
    login = {
        "sasl.enabled.mechanisms": "PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "plain.sasl.jaas.config": f'{MODULE} username="a" password="b" user_a="b";',
    }  # fmt: skip
    running = start_broker(tmp_path_factory.mktemp("none"), {**login, **properties} if properties else {})
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a",
            "sasl.password": "b"} if properties else {}  # fmt: skip
    bus = BusSettings(bootstrap_servers=running.bootstrap, librdkafka=keys)
    try:
        refused = CliRunner().invoke(
            app, ["tokens", "create"], obj=SimpleNamespace(bus=bus, site=SiteSettings())
        )
    finally:
        running.stop()
    assert refused.exit_code == 1
    assert said in refused.output
