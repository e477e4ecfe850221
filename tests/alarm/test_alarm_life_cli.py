"""The verbs of an alarm's life against our own broker and a dispatcher."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm.cli import mount
from alarm.settings import DispatcherSettings
from bus.client.kafka.command_client import CommandClient
from bus.client.kafka.producer import Producer
from bus.contracts.topics import EVENT_ALARM
from bus.notify.acknowledgements import Acknowledgements
from bus.settings import BusSettings, SiteSettings
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.alarm.dispatch.test_operations import alarm
from tests.running_dispatcher import running_dispatcher

pytestmark = pytest.mark.slow

Run = Callable[..., Result]


class AlarmCommandLine:
    """A broker, a data directory, the command line."""

    def __init__(self, bus: BusSettings, folder: Path) -> None:
        self.site = SiteSettings(data_dir=str(folder))
        self._settings = SimpleNamespace(bus=bus, site=self.site, dispatcher=DispatcherSettings())
        self._app = typer.Typer()
        mount(self._app)

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(self._app, ["alarms", *words], obj=self._settings)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    with running_broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        found = BusSettings(bootstrap_servers=broker.bootstrap)
        producer = Producer(found, client_id="test")
        for number in (1, 2, 3):
            producer.send(EVENT_ALARM, msgspec.json.encode(alarm(number)), key="r")
        assert producer.close() == 0
        yield found


@pytest.fixture
def world(bus: BusSettings, tmp_path: Path) -> AlarmCommandLine:
    return AlarmCommandLine(bus, tmp_path)


def test_an_alarm_goes_through_its_life_and_the_list_follows(bus: BusSettings, world: AlarmCommandLine, tmp_path: Path) -> None:
    with running_dispatcher(bus.bootstrap_servers, tmp_path, alarms=3):
        assert world.run("comment", "r:1", "first", "--by", "li").exit_code == 0  # a decider decides
        taken = world.run("take", "r:1", "--by", "li")
        assert (taken.exit_code, taken.stdout) == (0, "r:1: done\n")
        lost = world.run("take", "r:1", "--by", "wang")
        assert (lost.exit_code, "by li at" in lost.stderr) == (1, True)
        assert world.run("false", "r:1", "--why", "bored").exit_code == 2
        assert world.run("close", "r:1", "--result", "lost").exit_code == 1
        assert world.run("false", "r:1", "--why", "other").exit_code == 2
        assert world.run("false", "r:1", "--why", "other", "--text", "a drill", "--by", "li").exit_code == 0
        answer = json.loads(world.run("assign", "r:1", "--to", "zhao", "--json").stdout)
        assert (answer["state"], answer["key"]) == ("accepted", "r:1")
        assert world.run("close", "r:1", "--result", "no_action", "--by", "zhao").exit_code == 0
        assert world.run("reopen", "r:2").exit_code == 1
        unknown = world.run("take", "r:9")
        assert (unknown.exit_code, "no alarm r:9" in unknown.stderr) == (1, True)
        for _ in range(100):
            rows = [json.loads(line) for line in world.run("list", "--state", "closed", "--json").stdout.splitlines()]
            if rows:
                break
        [row] = rows
        assert (row["alarm_id"], row["life"]["owner"], row["life"]["verdict"]) == ("r:1", "zhao", "false")
        assert [one["op"] for one in row["life"]["history"]] == ["comment", "take", "false", "assign", "close"]
        shown = world.run("list", "--state", "unfinished").stdout
        assert ("r:2" in shown, "r:1" in shown) == (True, False)
        assert world.run("list", "--state", "wrong").exit_code == 2
        assert world.run("list", "--owner", "zhao", "--since", "12h", "--json").stdout.count("\n") == 1


def test_without_a_decider_an_alarm_is_taken_here_and_by_one_only(bus: BusSettings, world: AlarmCommandLine) -> None:
    taken = world.run("take", "r:3", "--by", "li")
    assert (taken.exit_code, "said later" in taken.stdout) == (0, True)
    lost = world.run("take", "r:3", "--by", "wang")
    assert (lost.exit_code, "li has it in hand" in lost.stderr) == (1, True)
    assert Acknowledgements(world.site).who("r:3") == "li"


def test_json_says_of_a_request_that_nobody_has_decided_on_that_it_is_undecided(
    world: AlarmCommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the standard output, for scripts; the sentence is beside it, the exit status is 3."""
    monkeypatch.setattr(CommandClient.request, "__defaults__", (0.2,))
    asked = world.run("comment", "r:3", "seen", "--by", "li", "--json")
    assert (asked.exit_code, "nobody has decided on it" in asked.stderr) == (3, True)
    said = json.loads(asked.stdout)
    assert (said["state"], len(said["command_id"])) == ("undecided", 32)
