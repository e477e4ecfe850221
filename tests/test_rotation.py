"""What one run tries of long matrices and stories: computed from the commits' numbers."""

from __future__ import annotations

import random

import pytest

from deploy.test_runs.turn import TURNS
from tests.rotation import (
    FILES_IN_TURN,
    TESTS,
    Story,
    drawn,
    of_changed_packages,
    packages_of_story,
    skip_what_is_not_drawn,
)

MEMBERS = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def own_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test says itself which turn it is and what has changed."""
    monkeypatch.delenv("DATABUS_EVERY_MEMBER", raising=False)
    monkeypatch.delenv("DATABUS_CHANGED", raising=False)
    monkeypatch.setenv("DATABUS_TURN", "7")


def test_ten_commits_in_a_row_draw_every_member_of_every_matrix(
    monkeypatch: pytest.MonkeyPatch, dice: random.Random
) -> None:
    """Before, the commit's hash drew: of a hundred commits one story had eleven."""
    for _ in range(40):
        name, size = f"matrix {dice.random()}", dice.randrange(1, 60)
        wanted, first = dice.randrange(1, size + 1), dice.randrange(10_000)
        seen: set[int] = set()
        for number in range(first, first + TURNS):
            monkeypatch.setenv("DATABUS_TURN", str(number))
            found = drawn(name, range(size), wanted)
            assert found == drawn(name, range(size), wanted) == sorted(set(found))
            assert len(found) == max(wanted, -(-size // TURNS))
            seen.update(found)
        assert seen == set(range(size))


def test_every_member_runs_where_all_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_EVERY_MEMBER", "all")
    assert drawn("matrix", MEMBERS) == MEMBERS


class InTurn:
    """The draw of this project on collected tests of another folder."""

    def __init__(self, groups: dict[str, list[str]] | None = None) -> None:
        self.groups = groups or {}

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        skip_what_is_not_drawn(items, self.groups)


def marked(group: str, *names: str) -> str:
    return "".join(f"@pytest.mark.rotates({group!r})\ndef test_{one}(): pass\n" for one in names)


@pytest.fixture
def outside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests that knows the mark."""
    monkeypatch.setattr("tests.rotation.TESTS", pytester.path)
    pytester.makeini(
        "[pytest]\nmarkers = rotates(group): one runs\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    return pytester


def test_of_tests_that_rotate_one_runs_and_the_others_say_which(
    outside: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another group and tests without the mark run as they did."""
    outside.makepyfile(
        "import pytest\n"
        + marked("g", *MEMBERS)
        + marked("other", "x")
        + "def test_plain(): pass\n"
    )
    outside.inline_run("-rs", plugins=[InTurn()]).assertoutcome(passed=3, skipped=3)
    assert "g: this run's turn is " in capsys.readouterr().out


def test_ten_commits_in_a_row_run_every_story_also_a_marked_one_in_a_file_in_turn(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a marked test whose file was not drawn ran in no commit where only its mark was."""
    for one in MEMBERS:
        outside.makepyfile(
            **{
                f"test_{one}": "import pytest\ndef test_plain(): pass\n"
                + marked("g", one, f"{one}2")
            }
        )
    groups = {"files": [f"test_{one}.py" for one in MEMBERS]}
    ran: set[str] = set()
    for number in range(30, 30 + TURNS):
        monkeypatch.setenv("DATABUS_TURN", str(number))
        done = outside.inline_run(plugins=[InTurn(groups)])
        ran |= {report.nodeid for report in done.listoutcomes()[0]}
    assert len(ran) == 3 * len(MEMBERS)


def test_who_names_a_file_in_turn_gets_it(outside: pytest.Pytester) -> None:
    files = [outside.makepyfile(**{f"test_{one}": "def test(): pass"}) for one in MEMBERS]
    groups = {"g": [file.name for file in files]}
    outside.inline_run(plugins=[InTurn(groups)]).assertoutcome(passed=1, skipped=3)
    outside.inline_run(files[0].name, plugins=[InTurn(groups)]).assertoutcome(passed=1)


def test_stories_of_changed_packages_run_beside_those_whose_turn_it_is(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = outside.mkpydir("dr_mirror")
    (folder / "test_a.py").write_text("import pytest\n" + marked("g", *MEMBERS))
    monkeypatch.setenv("DATABUS_CHANGED", "ingest")
    outside.inline_run(plugins=[InTurn()]).assertoutcome(passed=1, skipped=3)
    monkeypatch.setenv("DATABUS_CHANGED", "bus,dr_mirror")
    outside.inline_run(plugins=[InTurn()]).assertoutcome(passed=4)


def test_the_longest_not_drawn_come_first_until_the_time_is_used() -> None:
    waiting = [Story("g", f"tests/ingest/test_{ago}.py", (), ago) for ago in (3, 0, 9, 1)]
    chosen = of_changed_packages(waiting, ["ingest"], budget_s=125)
    assert [one.turns_ago for one in chosen] == [9, 3]
    assert of_changed_packages(waiting, ["monitor"]) == []


@pytest.mark.parametrize("group", FILES_IN_TURN)
def test_files_in_turn_are_there(group: str) -> None:
    """A file that was renamed would let its whole group run."""
    assert [file for file in FILES_IN_TURN[group] if not (TESTS / file).is_file()] == []
    assert all(packages_of_story(f"tests/{file}") for file in FILES_IN_TURN[group])
