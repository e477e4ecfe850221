"""`cases list` and `cases show` against our own broker: what rules say of themselves, and what was raised."""

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

from alarm.cases_cli import mount
from alarm.cli import watch_commands
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.settings import DispatcherSettings
from bus.domain.policy import PolicySettings
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.alarm.dispatch.test_operations import alarm
from tests.running_decider import running_decider

pytestmark = pytest.mark.slow

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Two rules of a target in force, an emergency; one of another target waits; two alarms, one old."""
    folder = Path(tmp_path_factory.mktemp("site"))
    site, dispatcher = SiteSettings(data_dir=str(folder)), DispatcherSettings()
    app = typer.Typer()
    mount(app)
    app.add_typer(watch_commands(), name="watch")
    with running_broker(Path(tmp_path_factory.mktemp("broker"))) as broker:
        settings = SimpleNamespace(
            bus=BusSettings(bootstrap_servers=broker.bootstrap), site=site, dispatcher=dispatcher
        )

        def called(*words: str) -> Result:
            return CliRunner().invoke(app, list(words), obj=settings)

        def added(*words: str) -> None:
            done = called("watch", "add", "--reason", "stolen", *words)
            assert done.exit_code == 0, done.output

        with running_decider(broker.bootstrap, PolicySettings()):
            for name, plate in (("car", "浙A10001"), ("van", "浙A20002")):
                added("--id", name, "--plate", plate, "--case", "K-7", "--target", "driver", "--emergency", "2h")
            added("--id", "friend", "--plate", "浙A30003", "--case", "K-7", "--target", "friend")
            added("--id", "other", "--plate", "浙A40004", "--case", "K-8", "--emergency", "2h")
            stale = called("watch", "add", "--plate", "浙A50005", "--target", "nobody")
            assert (stale.exit_code, "--target" in stale.output) == (2, True)
        with closing(OperationsStore(dispatcher.operations_path(site))) as operations:
            operations.apply(BatchChanges(alarms=[
                alarm(1, rule_id="car", case="K-7", case_target="driver", raised_at_ms=now_ms() - 60_000),
                alarm(2, rule_id="car", case="K-7", case_target="driver", raised_at_ms=now_ms() - 20 * 86_400_000),
            ]))  # fmt: skip
        yield called


def test_cases_are_listed_with_their_targets(run: Run) -> None:
    rows = [json.loads(line) for line in run("cases", "list", "--json").stdout.splitlines()]
    assert rows == [
        {"case": "K-7", "targets": ["driver", "friend"], "rules": 2, "waiting": 1},
        {"case": "K-8", "targets": [], "rules": 1, "waiting": 0},
    ]
    assert "driver, friend" in run("cases", "list").stdout


def test_a_case_is_shown_with_rules_and_alarms_of_so_many_days(run: Run) -> None:
    shown = run("cases", "show", "K-7")
    assert shown.exit_code == 0, shown.output
    text = shown.stdout.splitlines()
    assert text[:5] == [
        "driver",
        "  in force: car, 浙A10001, warning: plate_number=浙A10001",
        "  in force: van, 浙A20002, warning: plate_number=浙A20002",
        "friend",
        "  waits for an approval: friend, 浙A30003, warning: plate_number=浙A30003",
    ]
    found = json.loads(run("cases", "show", "K-7", "--json").stdout)
    assert [(one["target"], len(one["rules"]), len(one["waiting"])) for one in found["targets"]] == [
        ("driver", 2, 0), ("friend", 0, 1),
    ]  # fmt: skip
    assert [(one["alarm_id"], one["life"]["stage"]) for one in found["alarms"]] == [("r:1", "open")]
    longer = json.loads(run("cases", "show", "K-7", "--days", "30", "--json").stdout)
    assert [one["alarm_id"] for one in longer["alarms"]] == ["r:2", "r:1"]


def test_a_case_of_which_nothing_is_known_is_said_so(run: Run) -> None:
    none = run("cases", "show", "K-9")
    assert (none.exit_code, "no rule and no alarm" in none.stderr) == (1, True)
