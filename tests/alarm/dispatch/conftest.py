"""A store of the dispatcher's operations, as its tests open it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alarm.dispatch.operations import OperationsStore
from bus.notify.notice_plan import NoticePlan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "operations.db"


@pytest.fixture
def operations(path: Path) -> Iterator[OperationsStore]:
    store = OperationsStore(path, NoticePlan(("log",)))
    yield store
    store.close()
