"""Which broker processes may take records of topics that are copied to a second site."""

from __future__ import annotations

import random

from broker.controller.decisions.config_values import Alteration, AlterOperation
from broker.controller.decisions.configs import ResourceAlteration, alter_configs
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.site_confirmations import is_closed, leave, members, vouch
from broker.metadata.image import ResourceType
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    TARGET_CLUSTER_KEY,
    ConfirmedBy,
    SiteConfirmation,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, EpochKind, SiteEpoch
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.broker.controller.decisions.world import CLUSTER, ControlWorld

OTHER = "other-cluster"
FIRST = SiteEpoch(1, EpochKind.PLANNED, CLUSTER, OTHER, 1000, "anna@desk")
SECOND = SiteEpoch(2, EpochKind.FORCED, OTHER, CLUSTER, 2000, "bert@desk")


class Site(ControlWorld):
    """A cluster with two topics, of which one is copied to another site."""

    def __init__(self, *brokers: int) -> None:
        super().__init__()
        self.start(*brokers)
        self.create("copied", 1, 1)
        self.create("local", 1, 1)
        assert self.set_config("copied", TARGET_CLUSTER_KEY, OTHER) is ErrorCode.NONE

    def confirm(self, epoch: int = 0) -> ErrorCode:
        said = SiteConfirmation(epoch, ConfirmedBy.MIRROR, 5, "carl@desk", "both were asked")
        return self.set_config("", SITE_CONFIRMATION_KEY, said.text)

    def hear(self, broker_id: int, up_to_epoch: int = 1 << 60) -> list[int]:
        epoch = self.image.brokers[broker_id].epoch
        return self.decide(vouch(self.image, broker_id, epoch, up_to_epoch))

    def closed(self, topic: str = "copied") -> list[int]:
        return [
            broker_id
            for broker_id, broker in self.image.brokers.items()
            if is_closed(self.image, topic, broker.incarnation_id)
        ]


def test_a_cluster_that_nobody_ever_confirmed_never_asks() -> None:
    """It has no second site: no record of a restart is written, no topic is closed."""
    site = Site(1, 2)
    site.start(1)
    site.start(2)
    assert (site.closed(), site.hear(1), members(site.image)) == ([], [], None)
    assert SITE_MEMBERS_KEY not in site.image.configs.get((ResourceType.BROKER, ""), {})


def test_a_process_that_starts_is_confirmed_by_a_member_that_lives_beside_it() -> None:
    """By no other, and only for topics that are copied."""
    site = Site(1, 2, 3)
    assert site.confirm() is ErrorCode.NONE
    assert site.closed() == []
    site.start(2)
    site.start(3)
    assert (site.closed(), site.closed("local")) == ([2, 3], [])
    assert (site.hear(2), site.closed()) == ([], [2, 3])
    assert (site.hear(1), site.closed()) == ([2, 3], [])


def test_a_member_s_word_counts_for_those_only_of_whom_it_has_read() -> None:
    """A heartbeat that was under way while all were killed came from a process that has ended."""
    site = Site(1, 2)
    site.confirm()
    before = len(site.records)
    site.start(2)
    assert site.image.brokers[2].epoch >= before
    assert (site.hear(1, before - 1), site.closed()) == ([], [2])
    assert (site.hear(1, site.image.brokers[2].epoch), site.closed()) == ([2], [])


def test_when_all_have_started_anew_only_a_confirmation_of_the_epoch_in_force_opens() -> None:
    """Those that the metadata still call members are other processes."""
    site = Site(1, 2)
    site.set_config("", SITE_EPOCH_KEY, FIRST.text)
    assert site.confirm(0) is ErrorCode.INVALID_UPDATE_VERSION
    assert site.confirm(1) is ErrorCode.NONE
    site.start(1)
    assert (site.hear(1), site.closed()) == ([], [1])
    site.start(2)
    assert (site.hear(1), site.hear(2), site.closed()) == ([], [], [1, 2])
    assert members(site.image) == {}
    assert site.confirm(2) is ErrorCode.INVALID_UPDATE_VERSION
    assert site.confirm(1) is ErrorCode.NONE
    assert site.closed() == []


def test_a_confirmation_of_what_is_confirmed_is_not_recorded() -> None:
    """The mirror says it once a second."""
    site = Site(1)
    site.confirm()
    count = len(site.records)
    assert (site.confirm(), len(site.records)) == (ErrorCode.NONE, count)


def test_the_secondary_is_closed_and_takes_no_confirmation() -> None:
    """From the site epoch on, whoever it was confirmed by before."""
    site = Site(1)
    site.confirm()
    assert site.set_config("", SITE_EPOCH_KEY, SECOND.text) is ErrorCode.NONE
    assert site.closed() == [1]
    assert site.confirm(2) is ErrorCode.INVALID_UPDATE_VERSION
    third = SiteEpoch(3, EpochKind.PLANNED, CLUSTER, OTHER, 3000, "anna@desk")
    said = SiteConfirmation(3, ConfirmedBy.SWITCH, 5, "anna@desk", "planned switch")
    both = tuple(
        Alteration(key, AlterOperation.SET, value)
        for key, value in ((SITE_EPOCH_KEY, third.text), (SITE_CONFIRMATION_KEY, said.text))
    )
    asked = [ResourceAlteration(int(ResourceType.BROKER), "", both)]
    [result] = site.decide(alter_configs(site.image, asked))
    assert (result.error, site.closed()) == (ErrorCode.NONE, [])


def test_whoever_unsets_the_confirmation_gives_up_the_second_site() -> None:
    """Nobody is asked any more; but a secondary does not open by that."""
    site = Site(1)
    site.confirm()
    site.start(1)
    assert site.closed() == [1]
    assert site.set_config("", SITE_CONFIRMATION_KEY, None) is ErrorCode.NONE
    assert (site.closed(), members(site.image)) == ([], None)
    assert site.set_config("", SITE_EPOCH_KEY, SECOND.text) is ErrorCode.NONE
    assert site.closed() == [1]


def test_members_are_written_by_the_controller_alone_and_kept_by_old_tools() -> None:
    """Nobody sets or unsets them; AlterConfigs, which unsets what it does not name, keeps both."""
    site = Site(1)
    site.confirm()
    held = dict(site.image.configs[ResourceType.BROKER, ""])
    assert site.set_config("", SITE_MEMBERS_KEY, None) is ErrorCode.INVALID_CONFIG
    for key in (SITE_MEMBERS_KEY, SITE_CONFIRMATION_KEY):
        assert site.set_config("", key, "1:x") is ErrorCode.INVALID_CONFIG
    change = (Alteration("log.retention.ms", AlterOperation.SET, "5"),)
    asked = [ResourceAlteration(int(ResourceType.BROKER), "", change, True)]
    assert site.decide(alter_configs(site.image, asked))[0].error is ErrorCode.NONE
    assert dict(site.image.configs[ResourceType.BROKER, ""]) == held | {"log.retention.ms": "5"}


def test_in_any_history_a_process_is_open_only_while_a_chain_of_living_ones_reaches_back(
    dice: random.Random,
) -> None:
    """Starts, deaths, heartbeats and confirmations in a drawn order; a model that knows who lives
    says which processes may be open: those alive at a confirmation, or beside one that may."""
    for _ in range(60):
        site = Site(1, 2, 3)
        site.confirm()
        living = {1, 2, 3}
        allowed = {each.incarnation_id for each in site.image.brokers.values()}
        for _ in range(60):
            broker = dice.choice((1, 2, 3))
            match dice.choice(("die", "start", "hear", "hear", "confirm")):
                case "die":
                    living.discard(broker)
                case "start" if broker not in living:
                    site.start(broker)
                    living.add(broker)
                case "hear" if broker in living:
                    site.hear(broker)
                case "confirm" if dice.random() < 0.1:
                    site.confirm()
                    allowed |= {each.incarnation_id for each in site.image.brokers.values()}
            alive = {site.image.brokers[one].incarnation_id for one in living}
            if alive & allowed:
                allowed |= alive
            opened = alive - {site.image.brokers[one].incarnation_id for one in site.closed()}
            assert opened <= allowed
        closed = set(site.closed()) & living
        for one in living:
            site.hear(one)
        assert set(site.closed()) & living == (closed if closed == living else set())


def test_a_session_that_ends_under_zookeeper_leaves_the_process_a_member() -> None:
    """It registers again under another broker epoch: all that counts is the process."""
    site = Site(1, 2)
    site.confirm()
    held = site.image.brokers[1]
    for record in (
        UnregisterBrokerRecord(broker_id=1, broker_epoch=held.epoch),
        RegisterBrokerRecord(
            broker_id=1, broker_epoch=1 << 40, incarnation_id=held.incarnation_id, fenced=False
        ),
    ):
        site.decide(Decision((record,), None))
    assert leave(site.image, {1: held.incarnation_id}) == []
    assert (site.image.brokers[1].epoch, site.closed()) == (1 << 40, [])
    site.decide(Decision(tuple(leave(site.image, {1: bytes(15) + b"x"})), None))
    assert members(site.image) == {2: site.image.brokers[2].incarnation_id}


def test_a_process_without_an_incarnation_is_never_a_member() -> None:
    """Apache Kafka's broker under ZooKeeper: two lives of it could not be told apart."""
    site = Site(1)
    kafka = RegisterBrokerRecord(broker_id=9, broker_epoch=1 << 40, fenced=False)
    site.decide(Decision((kafka,), None))
    site.confirm()
    assert set(members(site.image) or ()) == {1}
    site.start(1)
    assert (site.hear(9), site.closed()) == ([], [1, 9])
