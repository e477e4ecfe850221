"""Both stores behind the port: a file, and a real HBase behind its Thrift server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.servers.hbase import Hbase
from ingest.store.open import open_store
from ingest.store.port import RecordStore

IN_HBASE = pytest.param("hbase", marks=[pytest.mark.java, pytest.mark.slow])
_numbers = itertools.count(1)


def new_name() -> str:
    """A store of its own in the HBase that tests share."""
    return f"t{next(_numbers)}"


@pytest.fixture(params=["sqlite", IN_HBASE])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is, of either kind."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/store/records.db"
    hbase: Hbase = request.getfixturevalue("hbase")
    return f"hbase://{hbase.address}/{new_name()}"


@pytest.fixture
def store(url: str) -> Iterator[RecordStore]:
    opened = open_store(url, "write")
    yield opened
    opened.close()
