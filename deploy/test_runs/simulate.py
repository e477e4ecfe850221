"""Worlds on seeds, from the command line: the simulation lives with the tests.

In: the verb's words. Out: the simulation's exit status. Never: a copy of it in the product; where
the project's tests are not beside the packages (an installed package), it says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.setup.test_packages import ensure_test_packages

MODULE = "tests.simulation"


def run(words: Sequence[str]) -> int:
    """`python -m tests.simulation` with the words, in the project's checkout."""
    if not (PROJECT_ROOT / "tests" / "simulation" / "__main__.py").is_file():
        raise OperatorError(
            f"the simulation is part of the project's tests, which are not at {PROJECT_ROOT}; "
            "run this verb in a checkout of the project"
        )
    ensure_test_packages()
    done = subprocess.run([sys.executable, "-m", MODULE, *words], cwd=PROJECT_ROOT, check=False)
    return done.returncode
