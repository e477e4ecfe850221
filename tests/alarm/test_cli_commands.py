"""The verbs of the watch list against our own broker: "in force" is what was decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm.asked_answer import UNDECIDED_STATUS
from alarm.cli import watch_commands
from alarm.shell_asker import shell_user
from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.commands import WatchCommand
from bus.settings import BusSettings, SiteSettings
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.running_decider import running_decider

pytestmark = pytest.mark.slow

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    with running_broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        yield BusSettings(bootstrap_servers=broker.bootstrap)


@pytest.fixture
def run(bus: BusSettings) -> Run:
    app = typer.Typer()
    app.add_typer(watch_commands(), name="watch")

    def run(*words: str, at: BusSettings = bus) -> Result:
        return CliRunner().invoke(app, ["watch", *words], obj=SimpleNamespace(bus=at, site=SiteSettings()))

    return run


@pytest.fixture
def decided(bus: BusSettings) -> Iterator[None]:
    with running_decider(bus.bootstrap_servers):
        yield


def listed(run: Run) -> dict[str, dict[str, object]]:
    rows = map(json.loads, run("list", "--json").stdout.splitlines())
    return {row["rule_id"]: row for row in rows}


def test_a_rule_is_put_changed_and_removed_under_versions_that_were_decided(
    run: Run, decided: None
) -> None:
    added = json.loads(run("add", "--plate", "浙A12345", "--id", "one", "--json").stdout)
    changed = run("add", "--plate", "浙A12346", "--id", "one")
    assert (changed.exit_code, changed.output) == (0, "one is in force\n")
    row = listed(run)["one"]
    assert (row["match"], row["author"], row["issuer"]) == (
        {"plate_number": ["浙A12346"]}, shell_user(), "command line",
    )  # fmt: skip
    assert int(str(row["version"])) > added["version"]
    assert str(row["version"]) in run("list").stdout.replace("\n", "")
    stale = run("add", "--plate", "浙A12347", "--id", "one", "--seen", str(added["version"]))
    assert (stale.exit_code, f"by {shell_user()} at" in stale.stderr) == (1, True)
    removed = run("remove", "one")
    assert (removed.exit_code, removed.output) == (0, "one is removed\n")
    assert "one" not in listed(run)
    assert run("remove", "one").exit_code == 2


@pytest.mark.parametrize(
    ("words", "plates"),
    [
        (("--plate", "~浙A8D345", "--where", "speed_kmh > 80"), ["浙A8D345"]),
        (("--where", "plate_number resembles 浙A8D345 or not plate_number not resembles 沪B8D345"),
         ["浙A8D345", "沪B8D345"]),
        (("--where", "plate_number not resembles 浙A8D345 and lane_id = 1"), []),
    ],
)  # fmt: skip
def test_readings_are_shown_that_a_rule_takes_for_its_plate(
    run: Run, decided: None, words: tuple[str, ...], plates: list[str]
) -> None:
    """Those that it asks for, in `match` or its tree; none that it refuses."""
    added = run("add", "--id", "four", *words)
    about = " is also met by readings like "
    lines = added.output.splitlines()[1:]
    assert (added.exit_code, [line.split(about)[0] for line in lines]) == (0, plates)
    assert all("80345" in line.split(about)[1] for line in lines)


def test_a_rule_on_a_list_that_is_not_in_force_is_refused(run: Run, decided: None) -> None:
    refused = run("add", "--where", "plate_number on gone", "--id", "five")
    assert refused.exit_code == 1
    assert "no list gone is in force; import it first; see: databus lists show" in refused.stderr
    assert "five" not in listed(run)


def test_who_removes_what_somebody_else_has_changed_learns_who_and_when(
    run: Run, decided: None, bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading and the request: 1."""
    run("add", "--plate", "浙A12345", "--id", "two")
    request = CommandClient.request

    def another_first(client: CommandClient, command: WatchCommand) -> object:
        with closing(CommandClient(bus, "main", "another")) as other:
            request(other, WatchCommand(
                rule_id="two", op="put", version=1, name="n", account="li", command_id=new_command_id(),
                match={"plate_number": ["浙A12347"]},
            ))  # fmt: skip
        return request(client, command)

    monkeypatch.setattr(CommandClient, "request", another_first)
    refused = run("remove", "two", "--json")
    assert refused.exit_code == 1
    assert "two is refused: seen_version: it was changed since it was read, by li at " in refused.stderr
    answer = json.loads(refused.stdout)
    assert (answer["state"], answer["code"], answer["changed_by"]) == ("refused", "stale", "li")


def test_what_nobody_decides_is_not_said_to_be_in_force(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands on the bus: another exit status, and the words say what to do."""
    request = CommandClient.request
    monkeypatch.setattr(CommandClient, "request", lambda client, command: request(client, command, 0.2))
    waits = run("add", "--plate", "浙A12345", "--id", "three", "--json")
    assert waits.exit_code == UNDECIDED_STATUS
    assert json.loads(waits.stdout)["state"] == "undecided"
    assert "no dispatcher works" in waits.stderr
    assert "three" not in listed(run)


def test_without_a_bus_the_command_was_not_taken(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.client.kafka.command_client.DELIVERY_S", 0.2)
    lost = run("add", "--plate", "浙A12345", at=BusSettings(bootstrap_servers="127.0.0.1:1"))
    assert lost.exit_code == 1
    assert "the command was not taken" in lost.stderr
