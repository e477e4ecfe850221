"""Which committed offsets still mean something."""

from __future__ import annotations

from bus.client.committed import valid_offsets
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.contracts.topics import DATA_FACE

A, B = TopicPartition(DATA_FACE, 0), TopicPartition(DATA_FACE, 1)


def test_an_offset_of_an_earlier_topic_of_that_name_is_void_and_one_without_a_word_counts() -> None:
    """The id of the topic stands with the offset; an operator's reset leaves it empty."""
    committed = {A: OffsetAndMetadata(5, "id-1"), B: OffsetAndMetadata(7, "")}
    assert valid_offsets(committed, {DATA_FACE: "id-1"}) == ({A: 5, B: 7}, [])
    assert valid_offsets(committed, {DATA_FACE: "id-2"}) == ({B: 7}, [A])
