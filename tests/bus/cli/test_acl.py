"""The verbs of `acl`, against our own broker that obeys ACLs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from broker.config.keys_controller import STANDARD_AUTHORIZER
from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands
from deploy.servers.databus import start_broker

pytestmark = pytest.mark.slow

Run = Callable[[str], Result]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Words as `databus` would take them; whoever runs them is a super user."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    keys = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root;User:ANONYMOUS"}
    running = start_broker(tmp_path_factory.mktemp("acl"), keys)
    settings = SimpleNamespace(
        bus=BusSettings(bootstrap_servers=running.bootstrap), site=SiteSettings()
    )
    yield lambda words: CliRunner().invoke(app, words.split(), obj=settings)
    running.stop()


def out(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_rules_are_added_listed_and_removed(run: Run) -> None:
    assert run("acl add alice read topic:data.*").exit_code == 0
    assert run("acl add User:bob ALTER cluster --deny --host 10.0.0.0/8").exit_code == 0
    alice = {"principal": "User:alice", "may": "ALLOW", "operation": "READ",
             "resource": "topic:data.*", "host": "*"}  # fmt: skip
    bob = {"principal": "User:bob", "may": "DENY", "operation": "ALTER", "resource": "cluster",
           "host": "10.0.0.0/8"}  # fmt: skip
    assert out(run("acl list --json")) == [alice, bob]
    assert out(run("acl list --principal bob --json")) == [bob]
    assert out(run("acl list --resource topic:data.* --json")) == [alice]
    assert "User:alice" in run("acl list").stdout
    wrong = run("acl remove alice READ topic:data.")
    assert wrong.exit_code == 1
    assert "there is no such ACL" in wrong.output
    assert out(run("acl remove alice READ topic:data.* --json")) == alice
    assert run("acl remove bob ALTER cluster --deny --host 10.0.0.0/8").exit_code == 0
    assert run("acl list").stdout == "no ACLs\n"


def test_it_is_explained_which_rule_decides(run: Run) -> None:
    run("acl add alice READ topic:data.*")
    run("acl add User:* READ topic:data.face --deny")
    allowed = out(run("acl explain alice describe topic:data.vehicle --json"))
    assert (allowed["allowed"], allowed["acl"]["resource"]) == (True, "topic:data.*")
    denied = out(run("acl explain alice READ topic:data.face --json"))
    assert (denied["allowed"], denied["acl"]["may"]) == (False, "DENY")
    assert "denied: DENY READ TOPIC data.face" in run("acl explain alice READ topic:data.face").stdout
    nothing = out(run("acl explain carol READ topic:data.vehicle --json"))
    assert nothing == {"allowed": False, "reason": "no ACL of the resource allows it", "acl": None,
                       "super_users_known": True}  # fmt: skip
    by_default = out(run("acl explain carol READ group:x --json"))
    assert (by_default["allowed"], by_default["reason"]) == (False, "no ACL is about the resource")
    root = out(run("acl explain root READ topic:data.face --json"))
    assert (root["allowed"], root["reason"]) == (True, "super user")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("acl add alice READ data.vehicle", "topic:NAME"),
        ("acl add alice READ cluster:x", "topic:NAME"),
        ("acl add alice LOOK topic:x", "none of ALL, READ"),
        ("acl add User: READ topic:x", "User:NAME"),
        ("acl explain alice READ topic:data.*", "name one resource"),
    ],
)
def test_wrong_words_are_told_what_is_right(run: Run, words: str, said: str) -> None:
    result = run(words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
