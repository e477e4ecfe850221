"""A forced switch between two closed sites, the way back, and a planned switch, each by the commands of an operator."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.topics import DATA_FACE, TOPICS
from bus.errors import BusError
from deploy.paths import PROJECT_ROOT
from deploy.roles.table import environment
from deploy.secure.layout import IN_FORCE
from deploy.secure.other_site import export_site, trust
from deploy.servers.process import free_range
from dr_mirror.status.status_file import StatusUnavailable, read_status, status_path
from tests.secured_place import WAIT_S, BrokerPlace, new_folder, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PLACES = [TopicPartition(DATA_FACE, n) for n in range(TOPICS[DATA_FACE].partitions)]
RECORDS = 40
POLL_S = 0.2


def closed_pair(root: Path) -> tuple[BrokerPlace, BrokerPlace]:
    """A and B with a folder each, which trusts the other's."""
    first = free_range(6)
    ends = {"A": first + 2, "B": first + 5}
    mirror = {
        "mirror.source_bootstrap_servers": f"127.0.0.1:{ends['A']}",
        "mirror.target_bootstrap_servers": f"127.0.0.1:{ends['B']}",
        "mirror.metrics_port": -1, "mirror.topic_refresh_s": 0.5,
    }  # fmt: skip
    sites = []
    for number, (name, port) in enumerate(ends.items(), 1):
        listeners = ",".join(
            f"{listener}://127.0.0.1:{port - 2 + at}"
            for at, listener in enumerate(("PLAINTEXT", "BROKERS", "MIRROR"))
        )
        more = {
            **mirror, "broker.listeners": listeners, "broker.mirror.listener.name": "MIRROR",
            "broker.site.number": number,
        }  # fmt: skip
        sites.append(BrokerPlace(root / name, port - 2, port - 1, more))
        new_folder(sites[-1])
    a, b = sites
    for name, own, other in (("A", a, b), ("B", b, a)):
        export_site(own.folder / "secure", name, root / "file.toml")
        trust(other.folder / "secure", root / "file.toml", other.settings().mirror)
    return a, b


def send(place: BrokerPlace) -> int:
    """Records that an edge of this site sends there; how many were acknowledged."""
    outcomes: list[object] = []
    producer = Producer(place.bus("edge"), client_id="test", overrides={"message.timeout.ms": int(WAIT_S * 1000)})
    for number in range(RECORDS):
        producer.send(DATA_FACE, b"{}", key=str(number), on_delivery=outcomes.append)
    assert not producer.close(WAIT_S), "neither taken nor refused"
    assert not [one for one in outcomes if isinstance(one, DeliveryError)], outcomes
    return len(outcomes)


def held(place: BrokerPlace) -> int:
    """Records of the topic at this site."""
    admin = Admin(place.bus("operator"), client_id="test")
    try:
        return sum(admin.end_offsets(PLACES).values())
    finally:
        admin.close()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 3 * WAIT_S
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except (BusError, StatusUnavailable) as error:
            last = error
        time.sleep(POLL_S)
    pytest.fail(f"never: {what} {last!r}")


def mirror(place: BrokerPlace, *words: str) -> dict[str, Any]:
    """`databus mirror …` as an operator of this site gives it."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy", *place.settings().arguments, "mirror", *words, "--json"],
        cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def copies_all(place: BrokerPlace) -> bool:
    states = [one.state for one in read_status(status_path(place.settings().site)).partitions]
    return bool(states) and set(states) == {"copying"}


def test_closed_sites_switch_by_force_come_back_and_are_handed_over(tmp_path: Path) -> None:
    a, b = closed_pair(tmp_path)
    log = tmp_path / "mirror.log"
    with ExitStack() as stack:
        stack.enter_context(running(b.settings(), IN_FORCE))
        output = stack.enter_context(log.open("wb"))
        copier = subprocess.Popen(
            [sys.executable, "-m", "deploy", *b.settings().arguments, "run", "mirror"],
            cwd=PROJECT_ROOT, env=environment(), stdout=output, stderr=output,
        )  # fmt: skip
        stack.callback(copier.wait)
        stack.callback(copier.kill)
        with running(a.settings(), IN_FORCE):
            until(lambda: copies_all(b), "the mirror copies")
            sent = send(a)
            until(lambda: held(b) == sent, "what A has is at B")
        mirror(b, "switch", "--to", "B", "--force")
        sent += send(b)
        with running(a.settings(), IN_FORCE):
            mirror(b, "switch", "--back")
            until(lambda: held(a) == sent, "what B took is at A")
            until(lambda: copies_all(b), "the mirror copies back")
            mirror(b, "switch", "--to", "A")
            sent += send(a)
            until(lambda: held(b) == sent, "what A takes again is at B")
            assert mirror(a, "primary"), "the other site's folder knows as much"
    refusals = [line for path in tmp_path.rglob("authorizer.log") for line in path.read_text().splitlines()]
    assert refusals == []
    text = log.read_text()
    assert "ready" in text
    assert b.bus("mirror").librdkafka["sasl.password"] not in text
