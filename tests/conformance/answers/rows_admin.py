"""Topics, configurations, metadata: what Kafka answers to an administrator."""

from __future__ import annotations

from tests.conformance.answers.case import Row, ask, row
from tests.conformance.answers.steps import led, new_topic

NO_SUCH_ID = bytes(15) + b"\7"


def one_topic(name: str = "{topic}", partitions: int = 1, **more: object) -> dict[str, object]:
    """A topic as CreateTopics wants it."""
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, **more}


ROWS: list[Row] = [
    *row("K4", "a topic made has a null message",
         ask("CreateTopics", None, topics=[one_topic()]), versions=range(2, 8),
         only=["name", "error_code", "error_message"]),
    *row("K5", "a deletion by name and id is refused, and nothing is deleted",
         ask("DeleteTopics", 6, topics=[{"name": "{topic}", "topic_id": NO_SUCH_ID}]),
         ask("DeleteTopics", 6, topics=[{"name": "{topic}", "topic_id": "{topic_id}"}]),
         led(), given=[new_topic()]),
    *row("5", "a deletion that names a topic twice is refused once",
         ask("DeleteTopics", 5, topic_names=["{topic}", "{topic}", "{other}"]),
         given=[new_topic(), new_topic("{other}")], may_differ=["order"]),
    *row("5", "a deletion that gives an id twice, or nothing, is refused",
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": "{topic_id}"}] * 2),
         ask("DeleteTopics", 6, topics=[{"name": None}, {"name": None}]),
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": NO_SUCH_ID}, {"name": "nil"}]),
         given=[new_topic()], may_differ=["order"]),
    *row("5", "a deletion by the id and the name of one topic is refused",
         ask("DeleteTopics", 6, topics=[{"name": None, "topic_id": "{topic_id}"},
                                        {"name": "{topic}"}]),
         led(), given=[new_topic()], may_differ=["order"]),
]  # fmt: skip
