"""The verbs topics, groups, produce and consume, against our own broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from bus.contracts.topics import TOPICS
from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands

pytestmark = pytest.mark.slow

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(bus: BusSettings) -> Run:
    """Run words as `databus` would; the settings point at the broker."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))

    def run(words: str, *, stdin: str = "", at: BusSettings = bus) -> Result:
        settings = SimpleNamespace(bus=at, site=SiteSettings())
        return CliRunner().invoke(app, words.split(), input=stdin, obj=settings)

    return run


def out(result: Result) -> Any:
    """The JSON a verb printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_topics_are_created_described_listed_and_deleted(run: Run) -> None:
    assert run("topics create plates --partitions 3 --config retention.ms=60000").exit_code == 0
    described = out(run("topics describe plates --json"))
    assert len(described["partitions"]) == 3
    assert described["configs"]["retention.ms"] == "60000"
    listed = {row["name"]: row["partitions"] for row in out(run("topics list --json"))}
    assert listed == {"plates": 3}
    assert "plates" in run("topics list").stdout
    assert "retention.ms = 60000" in run("topics describe plates").stdout
    assert run("topics delete plates", stdin="n\n").exit_code == 1
    assert run("topics delete plates --yes").exit_code == 0
    assert out(run("topics list --json")) == []


def test_create_without_a_name_makes_the_topics_of_the_contract(run: Run) -> None:
    """And `describe` says how many partitions each has, how long it keeps, and why (I-1)."""
    assert set(run("topics create").stdout.split()) == TOPICS.keys()
    for contract in TOPICS.values():
        text = run(f"topics describe {contract.name}").stdout
        assert f"{contract.partitions} partitions: {contract.partitions_why}" in text
        assert contract.retention_why in text
        assert contract.live_keys is None or contract.live_keys.bound in text
    described = out(run("topics describe data.vehicle --json"))
    assert len(described["partitions"]) == described["contract"]["partitions"]
    assert "are there" in run("topics create").stdout
    assert "the plate" in run("topics list").stdout


def test_lines_go_in_and_come_out(run: Run) -> None:
    run("topics create lines --partitions 1")
    sent = run("produce lines --key-separator : --header schema=vehicle/1", stdin="a:1\nb:二\n")
    assert "2 of 2 records are on lines" in sent.stderr
    assert run("consume lines --from-beginning --until-end").stdout == "1\n二\n"
    assert run("consume lines --offset 1 --max 1").stdout == "二\n"
    assert run("consume lines --time 2020-01-01 --max 2").stdout == "1\n二\n"
    record = out(run("consume lines --offset 1 --max 1 --json"))
    assert (record["key"], record["value"], record["offset"]) == ("b", "二", 1)
    assert record["headers"] == {"schema": "vehicle/1"}


def test_a_group_goes_on_where_it_was(run: Run) -> None:
    run("topics create shared --partitions 1")
    run("produce shared", stdin="1\n2\n3\n")
    first = run("consume shared --group hands --from-beginning --max 2")
    assert first.stdout == "1\n2\n"
    assert out(run("groups list --json")) == ["hands"]
    described = out(run("groups describe hands --json"))
    assert described["partitions"][0]["lag"] == 1
    assert "shared" in run("groups describe hands").stdout
    second = run("consume shared --group hands --from-beginning --max 1")
    assert second.stdout == "3\n"
    assert run("groups delete hands").exit_code == 0
    assert out(run("groups list --json")) == []


def test_errors_say_what_to_do(run: Run) -> None:
    missing = run("topics describe nowhere")
    assert missing.exit_code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.stderr
    assert "databus topics list" in missing.stderr
    assert "databus topics list" in run("consume nowhere --from-beginning").stderr
    twice = run("topics create data.vehicle")
    again = run("topics create data.vehicle")
    assert "TOPIC_ALREADY_EXISTS" in (twice.stderr + again.stderr)
    assert run("topics create bad/name").exit_code == 1


def test_wrong_words_are_explained(run: Run) -> None:
    assert "key=value" in run("topics create x --config broken").stderr
    assert "no ':' in the line" in run("produce lines --key-separator :", stdin="abc\n").stderr
    assert "is no time" in run("consume data.vehicle --time soon").stderr


def test_a_bus_that_is_away_is_told(run: Run) -> None:
    away = run("topics list", at=BusSettings(bootstrap_servers="127.0.0.1:1"))
    assert away.exit_code == 1
    assert "databus up" in away.stderr
