"""From the last acknowledgement at A: when that was is told by how its ends grew."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.kinds import KIND_OF_TOPIC
from deploy.demo.two_sites.first_stored import AcknowledgedEnds, last_growth_ms
from deploy.settings.composed import load
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.two_sites import start_site, wait_until

FACE, CAR = ("data.face", 0), ("data.vehicle", 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6),
)
def test_the_last_growth_of_its_own_counts_not_what_comes_from_the_new_primary(
    own: list[tuple[int, int]], copied: list[tuple[int, int]]
):
    """Behind the ends of a planned switch lie copies of what B took."""
    face = car = 0
    seen = []
    expected: int | None = None
    for number, (faces, cars) in enumerate([(0, 0), *own, *copied]):
        if number == len(own) + 1:
            ends = {FACE: face, CAR: car}
        face, car = face + faces, car + cars
        seen.append((1_000 + number, {FACE: face, CAR: car}))
        if number and number <= len(own) and (faces or cars):
            expected = 1_000 + number
    if not copied:
        ends = {FACE: face, CAR: car}
    assert last_growth_ms(seen, ends) == expected
    assert last_growth_ms(seen[:1], ends) is None


@pytest.mark.slow
def test_what_a_cluster_acknowledges_is_seen_until_it_dies(tmp_path: Path):
    """By its ends, asked all the time; its death ends the looking, and not the demo."""
    cluster = start_site(tmp_path / "a", 1)
    for topic in KIND_OF_TOPIC:
        create(cluster, topic, 2)
    site = load(environment={}, flags=[
        f"site.data_dir={tmp_path}", f"bus.bootstrap_servers={cluster.bootstrap}",
    ])  # fmt: skip
    looking = AcknowledgedEnds(site, list(KIND_OF_TOPIC))
    looking.start()
    everything = {(topic, index): 1 << 62 for topic in KIND_OF_TOPIC for index in range(2)}
    try:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})

        def grows() -> bool:
            producer.produce(FACE[0], b"x", partition=FACE[1])
            assert producer.flush(30) == 0
            return looking.last_ms(everything) is not None

        wait_until(grows, "growth is seen")
    finally:
        cluster.kill(1)
    before = looking.last_ms(everything)
    looking.stop()
    assert looking.last_ms(everything) == before
