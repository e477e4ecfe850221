"""Lists that wait for an approval at the command line: who approves has an account and the role."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm.shell_asker import shell_user
from bus.settings import BusSettings, SiteSettings
from deploy.product import lists_cli
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore

pytestmark = pytest.mark.slow
PASSWORD = "correct horse"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, bus: BusSettings) -> Run:
    site = SiteSettings(data_dir=str(tmp_path))
    store = AccountStore(site.data_path)
    store.add("zhao", PASSWORD, [AccountRole.APPROVER])
    store.add("li", PASSWORD, [AccountRole.OPERATOR])
    store.close()
    app = typer.Typer()
    lists_cli.mount(app)

    def run(*words: str, typed: str = "") -> Result:
        settings = SimpleNamespace(bus=bus, site=site)
        return CliRunner().invoke(app, ["lists", *words], obj=settings, input=typed)

    return run


def import_plates(run: Run, folder: Path, list_id: str, count: int, *words: str) -> Result:
    path = folder / "plates.csv"
    path.write_text("车牌,备注\n" + "".join(f"浙A{n:05d},被盗\n" for n in range(count)))
    return run("import", str(path), "--list", list_id, "--reason", "weekly", *words)


def waiting(run: Run) -> dict[str, dict[str, object]]:
    return {row["list_id"]: row for row in map(json.loads, run("proposed", "--json").stdout.splitlines())}


def lines_in_force(run: Run) -> dict[str, int]:
    rows = map(json.loads, run("show", "--json").stdout.splitlines())
    return {row["list_id"]: row["lines"] + row["changed_lines"] for row in rows}


def test_an_import_waits_until_an_account_with_the_role_approves_just_that(run: Run, tmp_path: Path) -> None:
    proposed = import_plates(run, tmp_path, "one", 20)
    assert "one: this is proposed and waits for an approval: databus lists approve one" in proposed.output
    row = waiting(run)["one"]
    assert (row["proposed_by"], row["lines"], row["seen_version"]) == (shell_user(), 20, 0)
    text = run("proposed").output
    assert "lines: 0 → 20, of which 0 go" in text
    assert str(row["text_sha256"]) in text
    named = ("--sha256", str(row["text_sha256"]), "--reason", "checked")
    for words, typed, says in (
        (("zhao", *named), "wrong\n", "another password"), (("li", *named), PASSWORD + "\n", "may not approve"),
        (("zhao",), PASSWORD + "\n", "name what you have read"),
        (("zhao", "--sha256", "f" * 64, "--reason", "x"), PASSWORD + "\n", "read it again"),
        (("zhao", *named[:2]), PASSWORD + "\n", "asks for a reason"),
    ):  # fmt: skip
        refused = run("approve", "one", "--account", *words, typed=typed)
        shown = "".join(sign for sign in refused.output if sign not in "│\n ")
        assert refused.exit_code != 0
        assert says.replace(" ", "") in shown, refused.output
    assert "one" not in lines_in_force(run)
    done = run("approve", "one", "--account", "zhao", *named, typed=PASSWORD + "\n")
    assert (done.exit_code, done.stdout) == (0, "one is in force\n"), done.output
    assert (lines_in_force(run)["one"], waiting(run)) == (20, {})
    assert '"approved_by": "zhao"' in run("show", "one", "--json").output


def test_a_change_waits_may_be_rejected_or_withdrawn_and_an_end_does_not_wait(run: Run, tmp_path: Path) -> None:
    import_plates(run, tmp_path, "two", 20)
    named = ("--sha256", str(waiting(run)["two"]["text_sha256"]), "--reason", "ok")
    assert run("approve", "two", "--account", "zhao", *named, typed=PASSWORD + "\n").exit_code == 0
    changed = run("add-line", "two", "沪B12345", "--reason", "new")
    assert (changed.exit_code, "waits for an approval" in changed.output) == (0, True), changed.output
    assert "put: 沪B12345" in run("proposed").output
    named = ("--sha256", str(waiting(run)["two"]["text_sha256"]), "--reason", "no such case")
    rejected = run("reject", "two", "--account", "zhao", *named, typed=PASSWORD + "\n")
    assert (rejected.exit_code, rejected.stdout) == (0, "what was proposed under two is rejected\n")
    again = import_plates(run, tmp_path, "two", 19, "--tolerance", "look-alikes", "--json")
    assert json.loads(again.stdout)["answer"]["state"] == "proposed"
    text = run("proposed").output
    assert "two: other lines proposed" in text
    assert "lines: 20 → 19, of which 1 go" in text
    assert "tolerance: exact → look-alikes" in text
    withdrawn = run("withdraw", "two")
    assert (withdrawn.exit_code, withdrawn.output) == (0, "what was proposed under two is withdrawn\n")
    assert run("withdraw", "two").exit_code == 2
    assert lines_in_force(run)["two"] == 20
    assert run("end", "two").output == "two is ended\n"
    assert "two" not in lines_in_force(run)
