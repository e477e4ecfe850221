"""What the tests of dispatchers share: a store of operations, a broker, a site with rules and candidates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alarm.dispatch.operations import OperationsStore
from bus.client.kafka.command_client import CommandClient
from bus.notify.notice_plan import NoticePlan
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import DispatchWorld, running_broker


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "operations.db"


@pytest.fixture
def operations(path: Path) -> Iterator[OperationsStore]:
    store = OperationsStore(path, NoticePlan(("log",)))
    yield store
    store.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def world(broker: RunningBroker, tmp_path: Path) -> DispatchWorld:
    return DispatchWorld(broker.bootstrap, tmp_path / "var")


@pytest.fixture
def client(world: DispatchWorld) -> Iterator[CommandClient]:
    with closing(CommandClient(world.bus, "main", "test")) as found:
        yield found
