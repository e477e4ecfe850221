"""`databus accounts` as a person at a pipe uses it."""

import json
from pathlib import Path
from types import SimpleNamespace

import typer
from typer.testing import CliRunner

from bus.settings import SiteSettings
from monitor.accounts.store import AccountStore
from monitor.cli import mount


def run(tmp_path: Path, *words: str, stdin: str = "") -> tuple[int, str]:
    """One call of the command line."""
    app = typer.Typer()

    @app.callback()
    def root(ctx: typer.Context) -> None:
        ctx.obj = SimpleNamespace(site=SiteSettings(data_dir=str(tmp_path)))

    mount(app)
    result = CliRunner().invoke(app, ["accounts", *words], input=stdin)
    return result.exit_code, result.output


def test_accounts_are_added_listed_changed_and_removed(tmp_path: Path) -> None:
    """The password comes through the pipe, never as a word of the command."""
    assert run(tmp_path, "add", "li", "--role", "operator", stdin="correct horse\n")[0] == 0
    code, text = run(tmp_path, "list", "--json")
    assert (code, json.loads(text)) == (0, [
        {"name": "li", "roles": ["operator"], "unit": "", "districts": []},
    ])
    assert run(tmp_path, "passwd", "li", stdin="another horse\n")[0] == 0
    assert AccountStore(tmp_path).verify("li", "another horse") is not None
    assert run(tmp_path, "roles", "li", "--role", "viewer", "--role", "approver")[0] == 0
    (account,) = AccountStore(tmp_path).accounts()
    assert [role.value for role in account.roles] == ["viewer", "approver"]
    assert run(tmp_path, "roles", "wang", "--role", "viewer")[0] == 1
    assert run(tmp_path, "remove", "li")[0] == 0
    assert AccountStore(tmp_path).accounts() == ()


def test_a_refusal_is_a_sentence_and_a_status(tmp_path: Path) -> None:
    """No traceback for a short password or an unknown name."""
    code, text = run(tmp_path, "add", "li", stdin="short\n")
    assert code == 1
    assert "8 to 256 characters" in text
    code, text = run(tmp_path, "remove", "li")
    assert code == 1
    assert "no account li" in text


def test_a_damaged_file_is_a_sentence_and_a_status_too(tmp_path: Path) -> None:
    """It says what to do."""
    (tmp_path / "console").mkdir()
    (tmp_path / "console" / "accounts.db").write_bytes(b"not a database" * 1000)
    for words in (["list"], ["add", "li"]):
        code, text = run(tmp_path, *words, stdin="correct horse\n")
        assert code == 1
        assert "put back a copy" in text


def test_a_look_at_no_accounts_creates_no_file(tmp_path: Path) -> None:
    """It would belong to the person who looks, who may be another than the console's user."""
    assert run(tmp_path, "list", "--json") == (0, "[]\n")
    assert list(tmp_path.iterdir()) == []


def test_an_account_gets_a_unit_and_districts(tmp_path: Path) -> None:
    run(tmp_path, "add", "li", stdin="correct horse\n")
    code, text = run(tmp_path, "unit", "li", "--unit", "north", "--district", "d1", "--district", "d2")
    assert (code, text.strip()) == (0, "li is of the unit north now, and of the districts d1, d2")
    assert json.loads(run(tmp_path, "list", "--json")[1]) == [
        {"name": "li", "roles": ["viewer"], "unit": "north", "districts": ["d1", "d2"]}
    ]
    assert "north" in run(tmp_path, "list")[1]
    assert run(tmp_path, "unit", "li")[1].strip() == "li is of no unit now, and of all districts"
    code, text = run(tmp_path, "unit", "li", "--unit", "a|b")
    assert (code, text.count("1 to 40 characters")) == (1, 1)
    assert run(tmp_path, "unit", "wang", "--unit", "north")[0] == 1
