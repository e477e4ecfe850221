"""Our own blocking client on a bus whose security it cannot speak to."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands


def secured(port: int) -> BusSettings:
    keys = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    return BusSettings(bootstrap_servers=f"127.0.0.1:{port}", librdkafka=keys)


def test_what_cannot_be_spoken_is_refused_without_a_connection() -> None:
    """Plain bytes at a TLS port were "the node closed the connection", and "no broker answers"."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = SyncClient.of(secured(listener.getsockname()[1]), "test")
        with pytest.raises(BusError, match=r"PLAIN needs sasl\.username"):
            client.request(ApiKey.METADATA, MetadataRequest())
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_command_says_what_is_missing() -> None:
    """Status 1, no traceback, no remedy for something else."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    settings = SimpleNamespace(bus=secured(1), site=SiteSettings())
    done = CliRunner().invoke(app, ["quorum", "describe"], obj=settings)
    assert done.exit_code == 1
    assert "sasl.username" in done.output
    assert "databus up" not in done.output
