"""Where the time of the tests goes: what is kept of each run, and the page."""

from __future__ import annotations

from deploy.test_runs.times import PAGE, Times, merged, page, read_times

HERE = "tests/deploy/test_runs/test_times.py"


def test_a_run_replaces_what_it_measured_and_keeps_the_rest_that_is_still_there() -> None:
    old = Times(
        {HERE: 9.0, "tests/conftest.py": 1.0, "tests/gone.py": 5.0},
        {f"{HERE}::old": 8.0, "tests/gone.py::x": 9.0},
    )
    new = merged(old, {f"{HERE}::long": 6.04, f"{HERE}::short": 0.1})
    assert new.files == {HERE: 6.1, "tests/conftest.py": 1.0}
    assert new.tests == {f"{HERE}::old": 8.0, f"{HERE}::long": 6.0}
    assert (new.of(HERE, 1), new.of(f"{HERE}::long", 1), new.of("tests/unknown.py", 60)) == (
        6.1,
        6.0,
        60,
    )


def test_the_page_is_that_of_the_kept_times() -> None:
    """Else somebody edited one and not the other."""
    said = PAGE.read_text(encoding="utf-8")
    run = said.split("Last measured: ")[1].split(".")[0]
    assert page(read_times(), run) == said
