"""Puts the helper modules of this folder on the path; draws which long story a whole run tells."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules of this folder

IN_TURN = ("test_backup.py", "test_hbase.py", "test_two_drivers.py")  # two to three minutes each


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One of these where all of them were asked for; who names one file gets it."""
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    if not {item.path.name for item in ours}.issuperset(IN_TURN):
        return
    drawn = random.Random(f"{os.environ.get('DATABUS_SEED', '0')}:products").choice(IN_TURN)
    for item in ours:
        if item.path.name in IN_TURN and item.path.name != drawn:
            item.add_marker(pytest.mark.skip(reason=f"in turn: this run's seed drew {drawn}"))
