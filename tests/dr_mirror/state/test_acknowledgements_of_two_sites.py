"""Who has taken an alarm or an incident in hand at one site is known at the other one.

Real brokers, a real mirror and a dispatcher of each site; consoles read the file that is asked
here.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.notify.acknowledgements import Acknowledgements
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from tests.alarm.dispatch.dispatch_world import USED, DispatchWorld, until
from tests.dr_mirror.switch.test_switch import both_sites


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_who_took_what_in_hand_is_known_at_both_sites_over_a_switch(tmp_path: Path) -> None:
    """Also of an alarm that the other site does not know yet; who was first there stays."""
    with both_sites(tmp_path) as sites:
        for cluster in sites.clusters.values():
            admin = Admin(BusSettings(bootstrap_servers=cluster.bootstrap), client_id="test")
            admin.ensure_topics([TOPICS[name] for name in USED])
            if cluster is sites.clusters["A"]:
                admin.ensure_topics([TOPICS[DATA_VEHICLE]])
            admin.close()
        sites.wait_until_copying("A")
        worlds = [
            DispatchWorld(sites.clusters[name].bootstrap, tmp_path / f"site-{name}") for name in "AB"
        ]
        at_a, at_b = (Acknowledgements(world.site) for world in worlds)
        async with AsyncExitStack() as running:
            for world in worlds:
                await running.enter_async_context(world.running())
            at_a.add("r:1", "wang", now_ms())
            await until(lambda: at_b.who("r:1"), "wang")
            switched = sites.switch("B")
            assert switched.returncode == 0, switched.stdout + switched.stderr
            sites.wait_until_copying("B")
            at_b.add("r:1", "li", now_ms())
            at_b.add("incident-2", "li", now_ms())
            await until(lambda: at_a.who("incident-2"), "li")
        for each in (at_a, at_b):
            assert each.all_names() == {"r:1": "wang", "incident-2": "li"}
