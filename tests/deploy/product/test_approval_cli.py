"""Proposals at the command line: who approves has an account, its password and the role."""

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
from bus.domain.policy import PolicySettings
from bus.domain.visibility import EVERYTHING
from bus.settings import BusSettings, SiteSettings
from deploy.product import evidence_cli, watch_cli
from deploy.settings import composed
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.cli import mount as mount_accounts
from monitor.questions.question import Asker, question_about
from monitor.questions.question_log import QuestionFilter, QuestionLog

PASSWORD = "correct horse"
Run = Callable[..., Result]
slow = pytest.mark.slow


def running(site: SiteSettings, bus: BusSettings) -> Run:
    app = typer.Typer()
    watch_cli.mount(app)
    mount_accounts(app)
    settings = SimpleNamespace(bus=bus, site=site, policy=PolicySettings())

    def run(*words: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, list(words), obj=settings, input=typed)

    return run


@pytest.fixture
def site(tmp_path: Path) -> SiteSettings:
    return SiteSettings(data_dir=str(tmp_path))


@pytest.fixture
def run(site: SiteSettings, bus: BusSettings) -> Run:
    store = AccountStore(site.data_path)
    store.add("zhao", PASSWORD, [AccountRole.APPROVER])
    store.add("li", PASSWORD, [AccountRole.OPERATOR])
    store.close()
    return running(site, bus)


def propose(run: Run, rule_id: str, *words: str) -> Result:
    usual = ("--plate", "浙A12345", "--reason", "stolen", "--case", "K-1")
    return run("watch", "add", "--id", rule_id, *usual, *words)


def waiting(run: Run) -> dict[str, dict[str, object]]:
    lines = run("watch", "proposed", "--json").stdout.splitlines()
    return {row["rule_id"]: row for row in map(json.loads, lines)}


def in_force(run: Run) -> set[str]:
    return {json.loads(line)["rule_id"] for line in run("watch", "list", "--json").stdout.splitlines()}


@slow
def test_a_rule_is_proposed_listed_and_approved_by_an_account_with_the_role(run: Run) -> None:
    """A wrong password and an account without the role change nothing; nor does another text."""
    proposed = propose(run, "one")
    assert (proposed.exit_code, proposed.output.splitlines()[0]) == (
        0, "one is proposed and waits for an approval: databus watch approve one",
    )  # fmt: skip
    row = waiting(run)["one"]
    assert (row["proposed_by"], row["in_force"], row["seen_version"]) == (shell_user(), None, 0)
    text = run("watch", "proposed").output
    assert str(row["text_sha256"]) in text
    assert "reason: stolen, case: K-1" in text
    approve = ("watch", "approve", "one", "--account")
    named = ("--sha256", str(row["text_sha256"]), "--reason", "checked")
    for words, typed, says in (
        (("zhao", *named), "wrong\n", "another password"), (("li", *named), PASSWORD + "\n", "may not approve"),
        (("nobody", *named), PASSWORD + "\n", "no such account"), (("zhao",), PASSWORD + "\n", "name the text"),
        (("zhao", "--sha256", "f" * 64, "--reason", "x"), PASSWORD + "\n", "read it again"),
        (("zhao", *named[:2]), PASSWORD + "\n", "asks for a reason"),
    ):  # fmt: skip
        refused = run(*approve, *words, typed=typed)
        shown = "".join(sign for sign in refused.output if sign not in "│\n")
        assert refused.exit_code != 0
        assert says.replace(" ", "") in shown.replace(" ", ""), refused.output
    assert "one" not in in_force(run)
    done = run(*approve, "zhao", *named, typed=PASSWORD + "\n")
    assert (done.exit_code, done.stdout) == (0, "one is in force\n")
    assert "one" in in_force(run)
    assert "one" not in waiting(run)


@slow
def test_a_change_shows_what_it_changes_and_may_be_rejected_or_withdrawn(run: Run) -> None:
    propose(run, "two")
    sha256 = str(waiting(run)["two"]["text_sha256"])
    approve = ("watch", "approve", "two", "--account", "zhao", "--sha256", sha256, "--reason", "x")
    assert run(*approve, typed=PASSWORD + "\n").exit_code == 0
    propose(run, "two", "--name", "another")
    assert "name: 浙A12345 → another" in run("watch", "proposed").output
    reject = ("watch", "reject", "two", "--account", "zhao", "--reason", "no")
    sha256 = str(waiting(run)["two"]["text_sha256"])
    assert run(*reject, "--sha256", sha256, typed=PASSWORD + "\n").exit_code == 0
    propose(run, "two", "--name", "a third one")
    withdrawn = run("watch", "withdraw", "two")
    assert (withdrawn.exit_code, withdrawn.output) == (0, "what was proposed under two is withdrawn\n")
    assert run("watch", "withdraw", "two").exit_code == 2
    assert "two" in in_force(run)


@slow
def test_an_emergency_is_in_force_at_once_and_a_rule_without_a_reason_is_not_taken(run: Run) -> None:
    plate = ("--plate", "浙E12345")
    without = run("watch", "add", "--id", "three", *plate)
    assert (without.exit_code, "asks for a reason" in without.output) == (1, True)
    reasons = ("--reason", "abducted", "--case", "K-2")
    done = run("watch", "add", "--id", "three", *plate, "--emergency", "6h", *reasons)
    assert (done.exit_code, done.output) == (0, "three is in force\n")
    assert "emergency" in run("watch", "list").output
    again = run("watch", "add", "--id", "four", *plate, "--emergency", "6h", *reasons)
    assert (again.exit_code, "within 30 days" in again.output) == (1, True)
    odd = run("watch", "add", *plate, "--emergency", "90m")
    assert (odd.exit_code, "whole hours" in odd.output) == (2, True)


def test_who_asked_what_is_listed_filtered_and_paged(site: SiteSettings) -> None:
    run = running(site, BusSettings())
    assert run("questions").output == "nobody has asked that\n"
    log = QuestionLog(site.data_path, 400)
    for number in range(3):
        asker = Asker(account="li", reason="[bold]stolen", case=f"K-{number}")
        log.add(question_about(asker, "search", {"plate": f"浙A{number}"}), 1_795_000_000_000 + number)
    shown = run("questions", "--case", "K-1").output
    assert "浙A1" in shown
    assert "浙A2" not in shown
    assert "[bold]" in shown.replace("\n", ""), "what people wrote is no mark-up"
    first = run("questions", "--limit", "2", "--json")
    assert [json.loads(line)["case"] for line in first.stdout.splitlines()] == ["K-2", "K-1"]
    cursor = first.stderr.removeprefix("more: --cursor ").strip()
    rest = run("questions", "--limit", "2", "--json", "--cursor", cursor)
    assert [json.loads(line)["case"] for line in rest.stdout.splitlines()] == ["K-0"]
    assert run("questions", "--from", "tomorrow").exit_code == 2
    assert run("questions", "--from", "2027-01-01").output == "nobody has asked that\n"


@pytest.mark.parametrize("words", [
    ("evidence", "--plate", "浙A12345"), ("watch", "preview", "--plate", "浙A12345"),
])  # fmt: skip
def test_evidence_and_a_preview_at_a_shell_have_a_reason_and_are_kept(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Also where the store has nothing to say."""
    settings = composed.load(None, [f"site.data_dir={tmp_path}/var"], {})
    app = typer.Typer()
    watch_cli.mount(app)
    evidence_cli.mount(app)
    log = QuestionLog(settings.site.data_path, 400)

    def run(*more: str) -> Result:
        return CliRunner().invoke(app, [*words, *more], obj=settings)

    for more, option in (((), "--reason"), (("--reason", "x"), "--case")):
        refused = run(*more)
        assert (refused.exit_code, option in refused.output) == (2, True)
    assert log.page(QuestionFilter(), viewer=EVERYTHING, limit=5) == ([], 0)
    run("--reason", "stolen", "--case", "K-1")
    [one], _ = log.page(QuestionFilter(), viewer=EVERYTHING, limit=5)
    assert (one.account, one.issuer, one.case) == (shell_user(), "command line", "K-1")
    assert any("浙A12345" in value for value in one.subject.values())
