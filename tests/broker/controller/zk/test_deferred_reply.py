"""Writes while ZooKeeper is unavailable: answered in time, applied once or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.controller.decisions.decision import Decision
from broker.controller.zk.deferred_reply import TIMEOUT_S
from broker.metadata.image import MetadataImage, ResourceType
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord
from tests.broker.controller.zk.simulated import SimulatedBroker, run_story, settled


def setting(name: str) -> Callable[[MetadataImage], Decision[str]]:
    record = ConfigRecord(
        resource_type=int(ResourceType.BROKER), resource_name="", name=name, value="1"
    )
    return lambda image: Decision((record,), name)


def test_a_write_is_refused_before_its_client_hangs_up_and_not_begun_afterwards() -> None:
    """The first write was in flight: its outcome is unknown, and here it is applied."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        ensemble = one.session._ensemble
        answers: list[object] = []
        ensemble.go_away()
        begun = asyncio.get_running_loop().time()
        for name in ("first", "second"):
            one.controller.write(setting(name), answers.append, answers.append)
        while len(answers) < 2:
            await asyncio.sleep(0.1)
        assert answers == [ErrorCode.REQUEST_TIMED_OUT] * 2
        assert asyncio.get_running_loop().time() - begun < TIMEOUT_S + 1
        ensemble.come_back()
        await settled()
        await settled()
        answers.clear()
        one.controller.write(setting("third"), answers.append, answers.append)
        await settled()
        assert answers == ["third"]
        assert set(one.controller.image.configs[ResourceType.BROKER, ""]) == {"first", "third"}

    run_story(story)


def test_a_short_absence_is_waited_for() -> None:
    """The write succeeds once ZooKeeper is back; the client sees no error."""

    async def story(one: SimulatedBroker, two: SimulatedBroker) -> None:
        ensemble = one.session._ensemble
        answers: list[object] = []
        ensemble.go_away()
        one.controller.write(setting("a"), answers.append, answers.append)
        await asyncio.sleep(TIMEOUT_S / 4)
        ensemble.come_back()
        while not answers:
            await asyncio.sleep(0.1)
        assert answers == ["a"]

    run_story(story)
