"""A site that waits to be confirmed is an incident of its watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.client.admin.commands import alter_configs
from bus.client.admin.config_resources import BROKER, AlterConfigOp
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    ConfirmedBy,
    SiteConfirmation,
    members_text,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from monitor.watch.confirmation import SiteKeysOfBus, confirmation_condition
from monitor.watch.questions import OffsetsQuestion

BOTH = frozenset({1, 2})
MEMBER_ONE = {SITE_MEMBERS_KEY: members_text({1: bytes(16)})}
SECONDARY = {SITE_EPOCH_KEY: SiteEpoch(1, EpochKind.FORCED, "B", "A", 1, "anna").text}
PRIMARY = {SITE_EPOCH_KEY: SiteEpoch(1, EpochKind.FORCED, "A", "B", 1, "anna").text}


@pytest.mark.parametrize(
    ("configs", "is_bad"),
    [
        ({}, False),
        (MEMBER_ONE, True),
        ({SITE_MEMBERS_KEY: ""}, True),
        ({SITE_MEMBERS_KEY: members_text({1: bytes(16), 2: bytes(16)})}, False),
        (MEMBER_ONE | PRIMARY, True),
        (MEMBER_ONE | SECONDARY, False),
        ({SITE_MEMBERS_KEY: "damaged"}, None),
        (MEMBER_ONE | {SITE_EPOCH_KEY: "damaged"}, None),
    ],
)
def test_brokers_that_wait_are_bad_at_a_primary_only(
    configs: dict[str, str], is_bad: bool | None
) -> None:
    """Where nobody ever confirmed there is no second site; of damaged keys nothing is said."""
    condition = confirmation_condition(SiteKeysOfBus("A", configs, BOTH))
    assert (condition.kind, condition.is_bad) == ("unconfirmed", is_bad)


@pytest.mark.slow
def test_a_broker_that_restarts_alone_is_seen_to_wait_by_what_it_says_of_itself(
    tmp_path: Path,
) -> None:
    """Not before a mirror has confirmed it for the first time."""
    broker = start_broker(tmp_path / "broker")
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    question = OffsetsQuestion(bus, [], [], 10.0)
    said = SiteConfirmation(0, ConfirmedBy.MIRROR, 1, "test", "both were asked")
    changes = {(BROKER, ""): [(SITE_CONFIRMATION_KEY, AlterConfigOp.SET, said.text)]}
    try:
        assert confirmation_condition(question.ask_site_keys()).is_bad is False
        with SyncClient(broker.bootstrap, "test") as client:
            alter_configs(client, changes)
        assert confirmation_condition(question.ask_site_keys()).is_bad is False
        broker.kill()
        broker = broker.restart()
        assert confirmation_condition(question.ask_site_keys()).is_bad is True
    finally:
        question.close()
        broker.stop()


def test_the_incident_names_the_brokers() -> None:
    """By their ids."""
    condition = confirmation_condition(SiteKeysOfBus("A", {SITE_MEMBERS_KEY: ""}, BOTH))
    assert condition.detail == {"brokers": "1, 2"}
