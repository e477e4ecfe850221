"""What a worker keeps is bounded: the newest versions, the stores and producers used last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.tasks.worker_cache import MAX_CACHED, LastUsed, hbase, version_of


@given(st.lists(st.integers(0, 5), max_size=40))
def test_only_the_ones_used_last_are_kept_and_the_others_closed(asked: list[int]) -> None:
    dropped: list[int] = []
    made: list[int] = []
    cache: LastUsed[int] = LastUsed(dropped.append)
    for key in asked:

        def make(key: int = key) -> int:
            made.append(key)
            return key

        assert cache.get(key, make) == key
        assert len(cache) <= MAX_CACHED
    assert len(made) - len(dropped) == len(cache)
    last = list(dict.fromkeys(reversed(asked)))[:MAX_CACHED]
    for key in last:
        assert cache.get(key, lambda: -1) == key, "it is still there"


def test_a_late_task_reads_the_version_before_the_newest_without_reading_it_again() -> None:
    read: list[str] = []

    def ask(version: int) -> str:
        return version_of("test", version, lambda: read.append(str(version)) or f"v{version}")

    assert [ask(1), ask(2), ask(1), ask(2), ask(3), ask(2)] == ["v1", "v2", "v1", "v2", "v3", "v2"]
    assert read == ["1", "2", "3"]


def test_what_could_not_be_read_is_read_again() -> None:
    def fail() -> int:
        raise AttributeError

    with pytest.raises(AttributeError):
        version_of("again", 1, fail)
    assert version_of("again", 1, lambda: 7) == 7


def test_lines_to_a_store_are_made_once() -> None:
    url = "hbase://127.0.0.1:9/city"
    assert hbase(url) is hbase(url)
