"""Every application has one row, and what the settings name is what there is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import get_args

import spark_apps.apps
from bus.contracts.topics import TOPICS as EVERY_TOPIC
from spark_apps.apps.registry import APPLICATIONS, TOPICS, needs_store, queries_of
from spark_apps.settings import ApplicationName, StreamsSettings


def test_settings_command_line_and_table_name_the_same_in_the_same_order() -> None:
    """A port of its own is counted by the settings, the start by the table."""
    assert list(APPLICATIONS) == list(get_args(ApplicationName))
    assert StreamsSettings().applications == tuple(APPLICATIONS)


def test_every_file_of_an_application_has_its_row() -> None:
    folder = Path(spark_apps.apps.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "registry"}
    assert {row.make.__module__ for row in APPLICATIONS.values()} == {
        import_module(f"spark_apps.apps.{name}").__name__ for name in files
    }


def test_watch_list_and_ingest_read_their_records_once() -> None:
    every = list(APPLICATIONS)
    assert queries_of(every, share_reading=True) == [["watchlist", "ingest"], ["latency"], ["quality"]]
    assert queries_of(every, share_reading=False) == [[name] for name in every]


def test_the_order_is_that_of_the_table_and_each_runs_once() -> None:
    named = ["quality", "ingest", "quality", "watchlist"]
    assert queries_of(named, share_reading=True) == [["watchlist", "ingest"], ["quality"]]


def test_only_ingest_opens_the_store_before_the_first_query() -> None:
    assert [name for name in APPLICATIONS if needs_store([name])] == ["ingest"]


def test_a_driver_waits_for_topics_of_ours_alone() -> None:
    assert set(EVERY_TOPIC) >= TOPICS
    assert all(set(row.reads) <= TOPICS for row in APPLICATIONS.values())
