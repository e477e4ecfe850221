"""What one run tries of a long matrix."""

from __future__ import annotations

import pytest

from tests.rotation import FILES_IN_TURN, TESTS, drawn, skip_files_not_drawn

MEMBERS = ["a", "b", "c", "d"]


def test_the_same_seed_draws_the_same_and_no_member_is_left_out_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DATABUS_EVERY_MEMBER", raising=False)
    seen: set[str] = set()
    for seed in range(50):
        monkeypatch.setenv("DATABUS_SEED", str(seed))
        found = drawn("matrix", MEMBERS, 2)
        assert found == drawn("matrix", MEMBERS, 2) == sorted(set(found))
        assert len(found) == 2
        seen.update(found)
    assert seen == set(MEMBERS)


def test_every_member_runs_where_all_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABUS_EVERY_MEMBER", "all")
    assert drawn("matrix", MEMBERS) == MEMBERS


def test_of_tests_that_rotate_one_runs_and_the_others_say_which(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another group and tests without the mark run as they did."""
    monkeypatch.delenv("DATABUS_EVERY_MEMBER", raising=False)
    pytester.makeconftest(
        "from tests.rotation import skip_what_is_not_drawn\n"
        "def pytest_collection_modifyitems(items): skip_what_is_not_drawn(items)\n"
    )
    pytester.makeini(
        "[pytest]\nmarkers = rotates(group): one runs\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(
        "import pytest\n"
        + "".join(f"@pytest.mark.rotates('g')\ndef test_{one}(): pass\n" for one in MEMBERS)
        + "@pytest.mark.rotates('other')\ndef test_other(): pass\ndef test_plain(): pass\n"
    )
    result = pytester.runpytest_inprocess("-rs")
    result.assert_outcomes(passed=3, skipped=3)
    result.stdout.fnmatch_lines(["*g: this run's turn is test_*"])


@pytest.mark.parametrize("group", FILES_IN_TURN)
def test_files_in_turn_are_there(group: str) -> None:
    """A file that was renamed would let its whole group run."""
    assert [file for file in FILES_IN_TURN[group] if not (TESTS / file).is_file()] == []


def test_of_files_in_turn_one_runs_and_who_names_a_file_gets_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABUS_EVERY_MEMBER", raising=False)
    monkeypatch.setattr("tests.rotation.TESTS", pytester.path)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    files = [pytester.makepyfile(**{f"test_{one}": "def test(): pass"}) for one in MEMBERS]
    names = [file.name for file in files]

    class InTurn:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            skip_files_not_drawn(items, {"g": names})

    pytester.inline_run(plugins=[InTurn()]).assertoutcome(passed=1, skipped=3)
    pytester.inline_run(names[0], plugins=[InTurn()]).assertoutcome(passed=1)
