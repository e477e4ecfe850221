"""A test that cannot hear its time limit fails by name, once, and all others run."""

from __future__ import annotations

import pytest

from deploy.paths import PROJECT_ROOT
from tests.workers import limit_of

INI = "[pytest]\ntimeout = 1\nasyncio_default_fixture_loop_scope = function\n"
HOOKS = f"""
import sys
sys.path.insert(0, {str(PROJECT_ROOT)!r})
from tests import workers

workers.GRACE_S = 0.5

def pytest_configure(config):
    config.pluginmanager.register(workers)
"""

DEAF = """
import time

def test_deaf():
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
"""
OTHER = "def test_other(): pass\n"


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "more"), [(1, 0), (2, 0), (2, 5)])
def test_a_test_that_swallows_its_time_limit_fails_and_the_rest_of_the_run_passes(
    pytester: pytest.Pytester, processes: int, more: int
) -> None:
    """In a refused run such a test held a worker until the run's own end, and nobody knew which."""
    pytester.makeini(INI)
    pytester.makeconftest(HOOKS)
    files = {f"test_{number}": OTHER for number in range(more)}
    pytester.makepyfile(test_a=DEAF + OTHER, **files)
    done = pytester.runpytest_subprocess("-n", str(processes), "--dist", "loadfile", timeout=100)
    done.assert_outcomes(passed=1 + more, failed=1)
    done.stdout.fnmatch_lines(["*crashed while running*test_deaf*"])
    assert "in test_deaf" in done.stderr.str(), "the stacks say where it stands"


def test_the_time_limit_of_a_test_is_its_mark_or_the_run_s_own(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    items = pytester.getitems(
        "import pytest\n"
        "def test_own(): pass\n"
        "@pytest.mark.timeout(30)\ndef test_marked(): pass\n"
        "@pytest.mark.timeout(timeout=40)\ndef test_named(): pass\n"
    )
    assert [limit_of(one) for one in items] == [1, 30, 40]
