"""The files of kafka-reassign-partitions and kafka-leader-election, read and written (pure).

In: text or an assignment. Out: an assignment, places, topic names or text, one partition a line so
that two plans can be compared by eye. Never: files themselves. Kafka's tools read what is written
here, and the other way round (T-RAG-02, T-RAG-07, T-RAE-02, T-PRE-05).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bus.client.admin.assignment import Replicas
from bus.client.model import TopicPartition

VERSION = 1


class InvalidPlan(Exception):
    """The file is not what it should be; the text says where."""


def write_plan(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The plan as Kafka's tool reads it."""
    rows = [
        json.dumps({"topic": topic, "partition": index, "replicas": list(replicas)})
        for (topic, index), replicas in sorted(assignment.items())
    ]
    return '{"version": 1, "partitions": [\n' + ",\n".join(rows) + "\n]}\n"


ANY_DIRECTORY = "any"

Directories = dict[tuple[TopicPartition, int], str]
"""The log directory a replica, named by partition and broker, is to lie in."""


def read_log_dirs(text: str) -> Directories:
    """The replicas a plan names a directory for (`"log_dirs": ["/disk1/logs", "any"]`)."""
    wanted: Directories = {}
    for row in _rows(text, "partitions"):
        place, replicas = _partition(row), row.get("replicas") or []
        directories = row.get("log_dirs") or [ANY_DIRECTORY] * len(replicas)
        if not isinstance(directories, list) or len(directories) != len(replicas):
            raise InvalidPlan(f"{_name(place)}: `log_dirs` is to be as long as `replicas`")
        for broker, path in zip(replicas, directories, strict=True):
            if not isinstance(path, str) or not (path == ANY_DIRECTORY or path.startswith("/")):
                raise InvalidPlan(f"{_name(place)}: a log directory is an absolute path or \"any\"")
            if path != ANY_DIRECTORY:
                wanted[place, broker] = path
    return wanted


def read_plan(text: str) -> Replicas:
    """A plan of ours or of Kafka's tool; `read_log_dirs` reads its log directories."""
    plan: Replicas = {}
    for row in _rows(text, "partitions"):
        place = _partition(row)
        replicas = row.get("replicas")
        if not isinstance(replicas, list) or not all(isinstance(one, int) for one in replicas):
            raise InvalidPlan(f"{_name(place)}: `replicas` is to be a list of broker ids")
        if not replicas:
            raise InvalidPlan(f"{_name(place)} has no replicas in the plan")
        twice = sorted({one for one in replicas if replicas.count(one) > 1})
        if twice:
            raise InvalidPlan(f"{_name(place)} names broker {twice[0]} twice")
        if place in plan:
            raise InvalidPlan(f"{_name(place)} stands in the plan twice")
        plan[place] = replicas
    if not plan:
        raise InvalidPlan("the plan has no partitions")
    return plan


def read_topics(text: str) -> list[str]:
    """`{"topics": [{"topic": "a"}], "version": 1}`, the question to kafka-reassign-partitions."""
    names = [row.get("topic") for row in _rows(text, "topics")]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise InvalidPlan(f"topic {twice[0]} stands in the file twice")
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidPlan('each row is to be {"topic": "name"}')
    return [str(name) for name in names]


def read_partitions(text: str) -> list[TopicPartition]:
    """`{"partitions": [{"topic": "a", "partition": 0}]}`, as kafka-leader-election takes it."""
    return [_partition(row) for row in _rows(text, "partitions")]


def _rows(text: str, key: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidPlan(f"this is not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        raise InvalidPlan(f'the file is to be {{"version": 1, "{key}": [...]}}')
    if document.get("version", VERSION) != VERSION:
        raise InvalidPlan(f"version {document['version']} of the file is not known")
    rows: list[dict[str, Any]] = document[key]
    if not all(isinstance(row, dict) for row in rows):
        raise InvalidPlan(f"each of `{key}` is to be an object")
    return rows


def _partition(row: Mapping[str, Any]) -> TopicPartition:
    topic, index = row.get("topic"), row.get("partition")
    if not isinstance(topic, str) or not isinstance(index, int) or index < 0:
        raise InvalidPlan(f"{json.dumps(dict(row))} names no topic and partition")
    return TopicPartition(topic, index)


def _name(place: TopicPartition) -> str:
    return f"{place[0]}-{place[1]}"
