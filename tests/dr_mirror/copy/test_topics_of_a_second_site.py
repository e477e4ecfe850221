"""What `up` makes at a second site: not the topics that the mirror copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import CONTROL_WATCHLIST, DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.topics import make_topics
from dr_mirror.settings import MirrorSettings
from tests.dr_mirror.two_sites import start_site


@pytest.mark.slow
def test_copied_topics_are_left_to_the_mirror_at_the_target_and_made_at_the_source(
    tmp_path: Path,
) -> None:
    """One that is there already, made by somebody else, would be no mirror. The settings are the same at
    both sites."""
    a, b = start_site(tmp_path / "a", 1), start_site(tmp_path / "b", 2)
    mirror = MirrorSettings(
        source_bootstrap_servers=a.mirror_bootstrap, target_bootstrap_servers=b.mirror_bootstrap
    )
    try:
        names = []
        for site in (a, b):
            bus = BusSettings(bootstrap_servers=site.bootstrap)
            make_topics(bus, mirror)
            admin = Admin(bus, client_id="test")
            names.append(set(admin.topic_names()))
            admin.close()
        assert TOPICS.keys() <= names[0]
        assert CONTROL_WATCHLIST in names[1]
        assert DATA_VEHICLE not in names[1]
        copied = {name for name in TOPICS if mirror.selection.selects(name)}
        assert names[1] & TOPICS.keys() == TOPICS.keys() - copied
    finally:
        a.kill(1)
        b.kill(1)
