"""Cases over the API: by number, and one with its targets; alarms are asked for by case and target."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from console_services import client_of, make_services, signed

from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import WatchProposal
from monitor.accounts.roles import EVERYBODY
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from tests.alarm.dispatch.test_operations import alarm

NOW_MS = 1_800_000_000_000


@pytest.fixture
def services(data_path: Path, filled: tuple[Path, int], tmp_path: Path) -> ConsoleServices:
    """Alarms of two cases, one of which has no rule any more; rules of two, one of a unit."""
    path = tmp_path / "operations.db"
    with closing(OperationsStore(path)) as operations:
        operations.apply(BatchChanges(alarms=[
            alarm(1, case="K-1", case_target="driver"), alarm(2, case="K-1"), alarm(3, case="K-over"),
            alarm(4, case="K-north", visible_to=["north"]),
        ]))  # fmt: skip
    made = make_services(data_path, filled[1], operations=path)
    for version, (rule_id, case, target, units, begins_ms) in enumerate((
        ("a", "K-1", "driver", [], 0), ("b", "K-1", "driver", [], 9_000_000_000_000), ("c", " K-1 ", "", [], 0),
        ("d", "K/2 号", "", [], 0), ("e", "K-north", "x", ["north"], 0), ("f", "", "", [], 0),
    ), 1):  # fmt: skip
        made.hub.live.on_command(rule_id, DecidedRule(
            rule_id=rule_id, op="put", version=version, name=rule_id, match={"plate_number": ["浙A12345"]},
            case=case, target=target, visible_to=units, valid_from_ms=begins_ms,
        ))  # fmt: skip
    text = WatchCommand(rule_id="a", op="put", version=9, name="a", case="K-1", target="driver", severity="info")
    made.hub.live.on_beside_rules(
        WatchProposal(rule_id="a", version=9, text=text, decided_at_ms=NOW_MS, command_id="c")
    )
    return made


@pytest.fixture
async def ask(services: ConsoleServices) -> AsyncIterator[Any]:
    """A question of a member of a unit."""
    app, store = create_api(services), services.account_store
    for unit in ("north", "south"):
        store.add(unit, "correct horse", EVERYBODY)
        store.set_unit(unit, unit, [])
    accounts = {one.name: one.principal() for one in store.accounts()}

    async def asked(path: str, unit: str = "south", status: int = 200) -> Any:
        session = services.sessions.open(accounts[unit])
        async with client_of(app) as client:
            client.cookies.set("databus_console", signed({"sid": session}, services.secret))
            answer = await client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    yield asked
    for pool in (services.records, services.alarms, services.previews):
        pool.close()


async def test_cases_are_listed_by_number_as_far_as_they_are_seen(ask: Any) -> None:
    found = await ask("/api/cases")
    assert found["rows"] == [
        {"case": "K-1", "targets": ["driver"], "rules": 3, "waiting": 1},
        {"case": "K/2 号", "targets": [], "rules": 1, "waiting": 0},
    ]
    assert [one["case"] for one in (await ask("/api/cases", "north"))["rows"]] == ["K-1", "K-north", "K/2 号"]
    first = await ask("/api/cases?limit=1", "north")
    assert len(first["rows"]) == 1
    rest = await ask(f"/api/cases?limit=9&cursor={first['cursor']}", "north")
    assert ([one["case"] for one in rest["rows"]], rest["cursor"]) == (["K-north", "K/2 号"], "")
    assert [one["case"] for one in (await ask("/api/cases?begins=K-n", "north"))["rows"]] == ["K-north"]
    assert (await ask("/api/cases?begins=K-n"))["rows"] == []


async def test_a_case_has_its_targets_each_with_its_rules_and_what_waits(ask: Any) -> None:
    found = await ask("/api/cases/K-1")
    assert [(one["target"], len(one["waiting"])) for one in found["targets"]] == [("driver", 1), ("", 0)]
    states = {rule["rule_id"]: rule["state"] for one in found["targets"] for rule in one["rules"]}
    assert states == {"a": "changing", "b": "future", "c": "in_force"}
    assert found["targets"][0]["waiting"][0]["changes"] != []
    assert (await ask("/api/cases/K%2F2%20%E5%8F%B7"))["targets"][0]["rules"][0]["rule_id"] == "d"


async def test_a_case_whose_rules_have_ended_is_there_while_its_alarms_are(ask: Any) -> None:
    """One that is hidden answers as one that never was."""
    assert (await ask("/api/cases/K-over"))["targets"] == []
    assert (await ask("/api/cases/K-north", "north"))["targets"] != []
    hidden, absent = await ask("/api/cases/K-north", status=404), await ask("/api/cases/K-none", status=404)
    assert hidden == absent
    assert await ask("/api/cases/%20", status=404) == absent


async def test_alarms_are_asked_for_by_case_and_target(ask: Any) -> None:
    async def ids(query: str, unit: str = "south") -> list[str]:
        return [one["alarm_id"] for one in (await ask(f"/api/alarms?{query}", unit))["rows"]]

    assert await ids("case=K-1") == ["r:2", "r:1"]
    assert await ids("case=K-1&target=driver") == ["r:1"]
    assert (await ids("case=K-north"), await ids("case=K-north", "north")) == ([], ["r:4"])
