"""Every row: our answer equals Apache Kafka's recorded one, and Kafka still answers as recorded."""

from __future__ import annotations

import os

import pytest

from deploy.servers.databus import RunningBroker
from deploy.servers.process import JavaServer
from tests.conformance.answers import (
    rows_cluster,
    rows_configs,
    rows_fetch,
    rows_groups,
    rows_produce,
    rows_topics,
)
from tests.conformance.answers.case import Deviation
from tests.conformance.answers.conversation import answers
from tests.conformance.answers.normalise import differences
from tests.conformance.answers.recordings import record, recorded

AREAS = {
    "topics": rows_topics.ROWS,
    "configs": rows_configs.ROWS,
    "cluster": rows_cluster.ROWS,
    "groups": rows_groups.ROWS,
    "fetch": rows_fetch.ROWS,
    "produce": rows_produce.ROWS,
    "validated": rows_produce.VALIDATED,
}
ASKED = {"validated": "validating_broker"}
"""The fixture of our broker for an area, if it is not `answering_broker`."""
KAFKA_ASKED_AGAIN = 15
RECORDING = os.environ.get("DATABUS_RECORD") == "1"

every_row = pytest.mark.parametrize(
    ("area", "row"),
    [
        pytest.param(area, row, id=f"{area}-{row.label}")
        for area, rows in AREAS.items()
        for row in rows
    ],
)


def agree(said: object, wanted: object) -> None:
    """Fail with one line per field that differs."""
    found = differences(said, wanted)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@every_row
def test_ours_is_what_apache_kafka_was_recorded_to_answer(
    request: pytest.FixtureRequest, area: str, row: Deviation
) -> None:
    """The same requests get the same answers, field by field."""
    ours: RunningBroker = request.getfixturevalue(ASKED.get(area, "answering_broker"))
    assert row.label in recorded(area), "not recorded yet: see this folder's README"
    agree(answers(row, ours.bootstrap), recorded(area)[row.label])


@pytest.mark.java
@pytest.mark.slow
@every_row
def test_apache_kafka_answers_as_recorded(apache_kafka: JavaServer, area: str, row: Deviation) -> None:
    """Kafka is asked again, so that no recording is wrong or outdated; `DATABUS_RECORD=1` replaces
    it.

    Kafka answers a change before all its parts know the change: the next request may see the old
    state, so a row that differs is repeated with new names.
    """
    said = answers(row, apache_kafka.address)
    if RECORDING:
        record(area, row.label, said, frozenset(one.label for one in AREAS[area]))
        return
    for _ in range(KAFKA_ASKED_AGAIN):
        if not differences(said, recorded(area).get(row.label)):
            break
        said = answers(row, apache_kafka.address)
    agree(said, recorded(area).get(row.label))


@pytest.mark.parametrize("area", AREAS)
def test_every_recording_has_its_row(area: str) -> None:
    """Row names are unique, and every recording belongs to a row."""
    labels = [row.label for row in AREAS[area]]
    assert sorted(labels) == sorted(recorded(area))


def test_one_differing_field_is_named() -> None:
    """It is named at any depth; a list of another length is one difference."""
    ours = [{"topics": [{"name": "a", "error_code": 0}], "more": []}]
    theirs = [{"topics": [{"name": "a", "error_code": 42}], "more": [1]}]
    assert differences(ours, theirs) == [
        "[0].topics[0].error_code: recorded 42, said 0",
        "[0].more: recorded [1], said []",
    ]
