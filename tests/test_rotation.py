"""What one run tries of long matrices and stories: computed from the commits' numbers."""

from __future__ import annotations

import itertools
import random

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.test_runs.times import Times
from deploy.test_runs.turn import TURNS
from tests.rotation import (
    ALWAYS,
    Story,
    drawn,
    of_changed_packages,
    packages_of_story,
    places_in_row,
    skip_what_is_not_drawn,
    waiting,
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

    def __init__(self, *, whole_run: bool = False) -> None:
        self.whole_run = whole_run

    @pytest.hookimpl
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        skip_what_is_not_drawn(items, whole_run=self.whole_run)


def marked(group: str, *names: str) -> str:
    return "".join(f"@pytest.mark.rotates({group!r})\ndef test_{one}(): pass\n" for one in names)


@pytest.fixture
def outside(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder of tests that knows the marks."""
    pytester.makeini(
        "[pytest]\nmarkers =\n rotates(group): one runs\n slow: takes long\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    return pytester


def made(outside: pytest.Pytester, path: str, *tests: str) -> None:
    """A file of tests there."""
    file = outside.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("import pytest\n" + "".join(tests))


PLAIN = "def test_plain(): pass\n"
LONG = "@pytest.mark.slow\ndef test_long(): pass\n"


def test_of_tests_that_rotate_one_runs_and_the_others_say_which(
    outside: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another group and tests without the mark run as they did."""
    made(outside, "test_a.py", marked("g", *MEMBERS), marked("other", "x"), PLAIN)
    outside.inline_run("-rs", plugins=[InTurn()]).assertoutcome(passed=3, skipped=3)
    assert "g: this run's turn is " in capsys.readouterr().out


def test_ten_commits_in_a_row_run_every_story_also_a_marked_one_in_a_long_file(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a marked test whose file was not drawn ran in no commit where only its mark was."""
    for one in MEMBERS:
        made(outside, f"tests/bus/test_{one}.py", PLAIN, LONG, marked("g", one, f"{one}2"))
    ran: list[str] = []
    for number in range(30, 30 + TURNS):
        monkeypatch.setenv("DATABUS_TURN", str(number))
        done = outside.inline_run(plugins=[InTurn(whole_run=True)])
        ran += [report.nodeid for report in done.listoutcomes()[0]]
    assert len(set(ran)) == 4 * len(MEMBERS)
    assert ran.count("tests/bus/test_a.py::test_plain") == TURNS
    assert ran.count("tests/bus/test_a.py::test_long") in (1, 2)


def test_a_run_of_all_tests_has_a_tenth_of_the_stories_and_of_each_group_its_share(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each of thirty groups ran a story in every run: a third of all, twenty minutes."""
    groups = {f"g{number}": [f"{number}_{one}" for one in range(7)] for number in range(6)}
    made(outside, "tests/bus/test_a.py", *(marked(one, *groups[one]) for one in groups))
    ran: dict[int, list[str]] = {}
    for number in range(50, 50 + TURNS):
        monkeypatch.setenv("DATABUS_TURN", str(number))
        done = outside.inline_run(plugins=[InTurn(whole_run=True)])
        ran[number] = [report.nodeid for report in done.listoutcomes()[0]]
    assert {len(each) for each in ran.values()} <= {4, 5}
    assert len(set().union(*ran.values())) == 42
    for each in ran.values():
        assert len({name.split("test_")[2].split("_")[0] for name in each}) >= 3, "of many groups"


def test_what_a_story_draws_itself_changes_from_one_of_its_turns_to_another() -> None:
    """Of a hundred stories each comes every tenth turn: of two members it would draw one for ever."""
    for members in (*range(11, 40), 100, 154, 160, 200, 210):
        places = places_in_row(members)
        share = -(-places // TURNS)
        walk = range(TURNS * (places + TURNS))
        turns = [n for n in walk if waiting("all stories", 7, share, places, n) == 0]
        gaps = [later - one for one, later in itertools.pairwise(turns)]
        assert max(gaps) <= TURNS
        for own in (2, 3, 4, 5, 10):
            assert {number % own for number in turns} == set(range(own)), (members, own)


def test_who_names_a_long_file_gets_it(outside: pytest.Pytester) -> None:
    for one in MEMBERS:
        made(outside, f"tests/bus/test_{one}.py", LONG)
    outside.inline_run(plugins=[InTurn(whole_run=True)]).assertoutcome(passed=1, skipped=3)
    outside.inline_run(plugins=[InTurn(whole_run=False)]).assertoutcome(passed=4)


def test_what_is_short_by_measurement_or_always_wanted_takes_no_turns(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.rotation.read_times", lambda: Times({"tests/bus/test_a.py": 3.0}, {})
    )
    made(outside, "tests/bus/test_a.py", LONG)
    made(outside, "tests/spark_apps/test_flow.py", LONG)
    made(outside, "tests/spark_apps/test_b.py", LONG)
    outside.inline_run(plugins=[InTurn(whole_run=True)]).assertoutcome(passed=3)


def test_stories_of_changed_packages_run_beside_those_whose_turn_it_is(
    outside: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(outside, "tests/dr_mirror/test_a.py", marked("g", *MEMBERS))
    monkeypatch.setenv("DATABUS_CHANGED", "ingest")
    outside.inline_run(plugins=[InTurn()]).assertoutcome(passed=1, skipped=3)
    monkeypatch.setenv("DATABUS_CHANGED", "bus,dr_mirror")
    outside.inline_run(plugins=[InTurn()]).assertoutcome(passed=4)


def test_the_longest_not_drawn_come_first_until_the_time_is_used() -> None:
    waiting = [Story("g", f"tests/ingest/test_{ago}.py", (), ago) for ago in (3, 0, 9, 1)]
    chosen = of_changed_packages(waiting, ["ingest"], budget_s=125)
    assert [one.turns_ago for one in chosen] == [9, 3]
    assert of_changed_packages(waiting, ["monitor"]) == []


def test_what_runs_always_is_there() -> None:
    """A file that was renamed would take turns without anybody wanting it."""
    assert [file for file in ALWAYS if not (PROJECT_ROOT / file).is_file()] == []
    assert packages_of_story("tests/processes/cluster/test_stories.py") == ("broker",)
