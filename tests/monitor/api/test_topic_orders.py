"""Topics by the API: who may, which topics, and what brokers say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from console_services import client_of, make_services, signed

from bus.contracts.topics import TOPICS
from bus.domain.command_error import CommandError
from bus.domain.topic_orders import check_deletion, check_new_topic, is_own
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.api.app import create_api

pytestmark = pytest.mark.xdist_group("console-bus")


@pytest.fixture
async def client(
    broker: RunningBroker, data_path: Path, filled: tuple[Path, int]
) -> AsyncIterator[httpx.AsyncClient]:
    services = make_services(data_path, filled[1], broker.bootstrap)
    roles = frozenset({AccountRole.OPERATIONS})
    sid = services.sessions.open(ConsolePrincipal(name="sun", roles=roles), guest=True)
    async with client_of(create_api(services)) as found:
        found.cookies.set("databus_console", signed({"sid": sid}, services.secret))
        yield found


@pytest.mark.slow
async def test_a_topic_is_created_grown_and_deleted_and_brokers_say_why_not(client: httpx.AsyncClient) -> None:
    new = {"name": "orders.one", "partitions": 2, "retention_days": 1}
    made = await client.post("/api/topics", json=new)
    assert (made.status_code, made.json()) == (201, {"name": "orders.one"}), made.text
    again = await client.post("/api/topics", json=new)
    assert (again.status_code, again.json()["code"]) == (409, "topic_already_exists")
    many = await client.post("/api/topics", json={**new, "name": "orders.two", "replication_factor": 9})
    assert (many.status_code, many.json()["code"]) == (422, "invalid_replication_factor")
    where = "/api/topics/orders.one"
    assert (await client.put(f"{where}/partitions", json={"partitions": 4})).status_code == 200
    fewer = await client.put(f"{where}/partitions", json={"partitions": 3})
    assert (fewer.status_code, fewer.json()["code"]) == (422, "invalid_partitions")
    wrong = await client.request("DELETE", where, json={"typed": "orders.two"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "name_not_typed")
    gone = await client.request("DELETE", where, json={"typed": "orders.one"})
    assert gone.status_code == 200, gone.text
    missing = await client.request("DELETE", where, json={"typed": "orders.one"})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_topic_or_partition")


@pytest.mark.parametrize("name", [
    *TOPICS, "__consumer_offsets", "control.of-a-later-version", "state.x", "event.x", "heartbeats",
    "mm2-offset-syncs.b.internal", "b.checkpoints.internal",
])  # fmt: skip
def test_topics_of_product_brokers_and_mirrors_are_not_changed(name: str) -> None:
    assert is_own(name)
    for check in (lambda: check_deletion(name, name), lambda: check_new_topic(name, 1, 0, "delete", 7)):
        with pytest.raises(CommandError) as refused:
            check()
        assert refused.value.code == "own_topic"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("", 1, 0, "delete", 7), "topic_name"), (("a" * 250, 1, 0, "delete", 7), "topic_name"),
        (("a b", 1, 0, "delete", 7), "topic_name"), ((".", 1, 0, "delete", 7), "topic_name"),
        (("a\n", 1, 0, "delete", 7), "topic_name"), (("a", 0, 0, "delete", 7), "partition_count"),
        (("a", 1_001, 0, "delete", 7), "partition_count"), (("a", 1, -1, "delete", 7), "replication_factor"),
        (("a", 1, 16, "delete", 7), "replication_factor"), (("a", 1, 0, "none", 7), "cleanup"),
        (("a", 1, 0, "delete", -1), "retention_days"), (("a", 1, 0, "delete", 36_501), "retention_days"),
    ],
)  # fmt: skip
def test_a_topic_that_cannot_be_is_refused_before_the_brokers_are_asked(
    given: tuple[str, int, int, str, int], code: str
) -> None:
    with pytest.raises(CommandError) as refused:
        check_new_topic(*given)
    assert refused.value.code == code
    check_new_topic("reports.daily_1-a", 1_000, 0, "compact,delete", 0)
