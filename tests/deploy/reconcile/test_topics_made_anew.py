"""The account over a data topic that was made anew: what was stored of the former one arrived."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import ClusterIdentity
from bus.settings import BusSettings
from deploy.reconcile.collect import INGEST
from deploy.reconcile.topic_totals import TopicTotals
from ingest.store.port import Position

TOPIC = "data.vehicle"
COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=4)


def position(topic_id: str, partition: int, end: int, **changed: str) -> Position:
    named = {"application": INGEST, "cluster_id": "c", "topic": TOPIC, **changed}
    return Position(**named, topic_id=topic_id, partition=partition, end_offset=end)


@given(former=st.lists(COUNTS, max_size=3), read=COUNTS, behind=st.integers(0, 9))
def test_what_arrived_is_what_every_topic_of_the_name_had(
    former: list[list[int]], read: list[int], behind: int
) -> None:
    """Of the former ones as far as ingest has passed them, of the new one its ends; those of other
    applications, topics and clusters count nothing. What broke: arrived was less than stored."""
    places = tuple((TOPIC, number) for number in range(len(read)))
    cluster = ClusterIdentity("c", {TOPIC: "now"}, places)
    ends = {place: end + behind for place, end in zip(places, read, strict=True)}
    totals = TopicTotals(BusSettings(), cluster, ends)
    positions = [
        *(position("now", number, end) for number, end in enumerate(read)),
        *(
            position(f"former-{made}", number, end)
            for made, counts in enumerate(former)
            for number, end in enumerate(counts)
        ),
        position("former-0", 0, 1_000, application="watchlist"),
        position("former-0", 0, 1_000, topic="data.face"),
        position("former-0", 0, 1_000, cluster_id="another"),
    ]
    of_former = totals.of_former(INGEST, positions, TOPIC)
    assert of_former == sum(map(sum, former))
    in_flight = totals.behind(INGEST, positions, [TOPIC])
    assert totals.on_topic(TOPIC) + of_former - in_flight == sum(read) + sum(map(sum, former))
