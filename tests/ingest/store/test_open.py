"""The URL of a store: the error for a wrong one shows the right form."""

from __future__ import annotations

import pytest

from ingest.store.open import open_store
from ingest.store.port import StoreError


@pytest.mark.parametrize("url", ["", "records.db", "mysql://host/records"])
def test_an_unknown_kind_shows_both_right_forms(url: str) -> None:
    """No silent default."""
    with pytest.raises(StoreError, match=r"sqlite:///absolute/path or hbase://host:9090/name"):
        open_store(url)


@pytest.mark.parametrize(
    "rest",
    ["", "host", "host/", "host/a-b", "host:port/name", "host:99999/name", "/name",
     "host/name?keep_days=x", "host/name?keep_days=-1", "host/name?keep=1", "host/name?keep_days"],
)  # fmt: skip
def test_a_wrong_url_of_hbase_shows_the_right_form(rest: str) -> None:
    """Also unknown options."""
    with pytest.raises(StoreError, match=r"expected hbase://host:9090/name\?keep_days=90"):
        open_store(f"hbase://{rest}")
