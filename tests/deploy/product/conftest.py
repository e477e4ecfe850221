"""A bus whose decider asks for an approval."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.domain.policy import PolicySettings
from bus.settings import BusSettings
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.running_decider import running_decider


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    folder = Path(tmp_path_factory.mktemp("broker"))
    with running_broker(folder) as broker, running_decider(broker.bootstrap, PolicySettings()):
        yield BusSettings(bootstrap_servers=broker.bootstrap)
