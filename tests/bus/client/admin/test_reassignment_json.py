"""Plans are read and written as Kafka's tools do; what is wrong is named."""

from __future__ import annotations

import json

import pytest

from bus.client.admin.reassignment_json import (
    InvalidPlan,
    read_log_dirs,
    read_partitions,
    read_plan,
    read_topics,
    write_plan,
)

PLAN = {("a", 0): [1, 2], ("a", 1): [2, 1], ("b", 0): [3, 1]}


def test_what_is_written_is_read_again():
    assert read_plan(write_plan(PLAN)) == PLAN


def test_a_plan_of_kafkas_own_tool_is_read():
    text = (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],'
        '"log_dirs":["any","any"]}]}'
    )
    assert read_plan(text) == {("a", 0): [1, 2]}


def row(**fields: object) -> str:
    whole = {"topic": "a", "partition": 0, "replicas": [1], **fields}
    return json.dumps({"version": 1, "partitions": [whole]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "the file is to be"),
        ('{"version": 2, "partitions": []}', "version 2"),
        ('{"version": 1, "partitions": []}', "no partitions"),
        ('{"version": 1, "partitions": [7]}', "an object"),
        (row(replicas=[1, 1]), "names broker 1 twice"),
        (row(replicas=[]), "has no replicas"),
        (row(replicas="1,2"), "list of broker ids"),
        (row(partition="0"), "no topic and partition"),
        (json.dumps({"partitions": [json.loads(row())["partitions"][0]] * 2}), "twice"),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(text: str, why: str):
    with pytest.raises(InvalidPlan, match=why):
        read_plan(text)


def test_the_directories_a_plan_names_are_those_of_single_replicas():
    text = row(replicas=[1, 2, 3], log_dirs=["/x", "any", "/y/z"])
    assert read_log_dirs(text) == {(("a", 0), 1): "/x", (("a", 0), 3): "/y/z"}
    assert read_log_dirs(write_plan(PLAN)) == {}
    with pytest.raises(InvalidPlan, match="as long as"):
        read_log_dirs(row(replicas=[1, 2], log_dirs=["/x"]))
    with pytest.raises(InvalidPlan, match="absolute path"):
        read_log_dirs(row(replicas=[1], log_dirs=["x"]))


def test_topics_and_places_are_read_as_kafka_writes_them():
    assert read_topics('{"topics": [{"topic": "a"}], "version": 1}') == ["a"]
    assert read_partitions('{"partitions": [{"topic": "a", "partition": 3}]}') == [("a", 3)]
    with pytest.raises(InvalidPlan, match="twice"):
        read_topics('{"topics": [{"topic": "a"}, {"topic": "a"}]}')
