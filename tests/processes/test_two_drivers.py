"""The product with two drivers: alarms go on while the other driver stands still."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from running_product import Demo, RunningProduct

from bus.client.kafka.consumer import Consumer
from bus.contracts.topics import EVENT_ALARM
from bus.settings import BusSettings

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]
MORE = 5


def alarms(place: RunningProduct) -> int:
    """The number of alarms on their topic."""
    with Consumer(BusSettings(bootstrap_servers=place.bootstrap), client_id="check") as consumer:
        places = consumer.partitions_of(EVENT_ALARM)
        return sum(consumer.bounds(one)[1] for one in places)


def test_alarms_are_raised_while_ingest_is_suspended_and_the_account_balances(
    tmp_path: Path,
) -> None:
    """SIGSTOP: nobody starts it anew. What passed meanwhile is stored afterwards."""
    place = RunningProduct(tmp_path / "data")
    with Demo(place, "--rate", "200", "--set", "streams.drivers=2") as demo:
        demo.runs()
        assert place.role("streams-watchlist")["state"] == "running"
        pid = place.role("streams")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            before = alarms(place)
            demo.wait_until(lambda: alarms(place) >= before + MORE, "alarms without ingest")
        finally:
            os.kill(pid, signal.SIGCONT)
        demo.flows("records are stored again")
        demo.kill(["streams-watchlist"])
        demo.flows("records are stored after the death of the watch list")
        account = demo.ctrl_c()
    assert account["alarms_raised"] >= MORE
