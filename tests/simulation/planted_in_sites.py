"""Bugs to plant in a mirror and in a switch: each breaks one promise between two sites.

In: a pytest monkeypatch. Out: a product that is wrong in one place. Never: used outside of tests of
the checkers.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from broker.handlers import k10001_mirror_append
from bus.client.kafka.mirrored_ends import MirroredEnds
from bus.client.kafka.topic_follower import TopicFollower
from dr_mirror.copy import partition_starter
from dr_mirror.service import mirror
from dr_mirror.switch import forced as forced_switch
from dr_mirror.switch.diverged_record_file import DivergedRecordFile
from dr_mirror.switch.plan import forced
from dr_mirror.switch.site_client import SiteClient
from dr_mirror.topics import topics
from ingest.spool import Spool
from tests.simulation.edge_machine import EDGE_PARTITIONS, EDGE_TOPIC
from tests.simulation.site_story import Fate
from tests.simulation.zk_session import SimSession

Plant = Callable[[pytest.MonkeyPatch], None]


def an_append_is_acknowledged_before_it_is_replicated(patch: pytest.MonkeyPatch) -> None:
    """The target's leader alone has what the mirror calls copied."""
    patch.setattr(k10001_mirror_append, "_is_done", lambda one: True)


def a_connection_is_asked_from_two_threads(patch: pytest.MonkeyPatch) -> None:
    """One question fails, the other goes on while both are asked again."""

    async def both(*questions: Callable[[], Any]) -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(one) for one in questions))

    patch.setattr(mirror, "_both", both)


def the_tail_lacks_its_last_record(patch: pytest.MonkeyPatch) -> None:
    """A former primary's own record is in no file, and its log is cut."""
    add = DivergedRecordFile.add

    def without_the_last(self: DivergedRecordFile, batches: Any, position: int) -> None:
        add(self, batches, position)
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        self._file.seek(0)
        self._file.truncate()
        self._file.write(b"".join(lines[:-1]))

    begin = DivergedRecordFile.__init__

    def readable(self: DivergedRecordFile, *args: Any) -> None:
        begin(self, *args)
        self._file.close()
        self._file = self._fresh.open("wb+")

    patch.setattr(DivergedRecordFile, "__init__", readable)
    patch.setattr(DivergedRecordFile, "add", without_the_last)


def the_ids_of_a_tail_are_not_said(patch: pytest.MonkeyPatch) -> None:
    """Rows of the former primary's store cannot be told from others."""
    patch.setattr(SiteClient, "produce", lambda *_: None)


def more_was_heard_than_there_was(patch: pytest.MonkeyPatch) -> None:
    """The report of a forced switch calls records missing that never were."""
    said = forced.heard_partitions

    def too_much(*args: Any) -> Any:
        return [replace(one, heard_end=one.heard_end + 1_000) for one in said(*args)]

    patch.setattr(forced_switch, "heard_partitions", too_much)


def an_edge_moves_without_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    """What the lost site had acknowledged and not handed on is sent to nobody."""
    reader = Spool.retained_reader

    def nothing(self: Spool, held: Any) -> Any:
        kept = reader(self, held)
        kept._end = kept._reader.sequence
        return kept

    patch.setattr(Spool, "retained_reader", nothing)


def an_edge_believes_that_all_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """It deletes what the other site lacks."""
    patch.setattr(Spool, "confirm", lambda self, confirmed: _confirm_all(self))
    acknowledge = Spool.acknowledge

    def and_confirm(self: Spool, end: int, rows: Any = ()) -> None:
        acknowledge(self, end, rows)
        _confirm_all(self)

    patch.setattr(Spool, "acknowledge", and_confirm)


def _confirm_all(spool: Spool) -> None:
    assert spool._retained is not None
    places = [(EDGE_TOPIC, index) for index in range(EDGE_PARTITIONS)]
    spool._retained.on_confirmed(dict.fromkeys(places, 1 << 60))


def a_silent_site_is_left(patch: pytest.MonkeyPatch) -> None:
    """The edge moves though nobody has switched: its records come to a site that refuses them."""
    patch.setattr(MirroredEnds, "is_taken_over", lambda self, topics: True)


def a_configuration_is_read_from_a_server_that_is_behind(patch: pytest.MonkeyPatch) -> None:
    """A broker never knows that a new topic is a mirror; what Kafka's brokers do as well."""

    async def at_once(*_: object) -> None:
        """The server is believed."""

    patch.setattr(SimSession, "sync", at_once)


def a_topic_made_anew_goes_unnamed(patch: pytest.MonkeyPatch) -> None:
    """The id of what is copied is neither kept nor compared with the source's, and the last batch is
    not either."""
    right = mirror.plan_topics

    def forgetful(source: Any, target: Any, selection: Any, clusters: Any, _: Any, names: Any) -> Any:
        return right(source, target, selection, clusters, {}, names)

    patch.setattr(mirror, "plan_topics", forgetful)
    patch.setattr(topics, "_source_topic", lambda _: {})
    patch.setattr(partition_starter, "difference_at", lambda *_: "")


def a_hole_goes_untold(patch: pytest.MonkeyPatch) -> None:
    """What the source deleted before it was copied is left out without a word."""
    patch.setattr(partition_starter, "resume_point", _without_a_hole(partition_starter.resume_point))


def _without_a_hole(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *logs, **words: dataclasses.replace(right(*logs, **words), missing=0)


def what_is_left_of_a_batch_is_not_copied(patch: pytest.MonkeyPatch) -> None:
    """A log that begins within a batch counts as one that begins behind it."""

    async def at_the_start(_: Any, copy: Any, source: Any) -> int:
        return int(source.log_start)

    patch.setattr(partition_starter.PartitionStarter, "_begin_of_batch", at_the_start)


def confirmations_of_another_topic_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """An edge reads on behind the end of a topic that was made anew."""
    patch.setattr(TopicFollower, "renewals", lambda self: frozenset)


class SitesPlant(NamedTuple):
    """A bug, and what must become of the first site, and who must keep metadata, for it to
    matter."""

    plant: Plant
    fate: Fate
    controller: str = "kraft"


_PLANTS = (
    SitesPlant(an_append_is_acknowledged_before_it_is_replicated, Fate.STAYS),
    SitesPlant(a_connection_is_asked_from_two_threads, Fate.STAYS),
    SitesPlant(the_tail_lacks_its_last_record, Fate.DIES),
    SitesPlant(the_ids_of_a_tail_are_not_said, Fate.DIES),
    SitesPlant(more_was_heard_than_there_was, Fate.DIES),
    SitesPlant(an_edge_moves_without_what_is_kept, Fate.DIES),
    SitesPlant(an_edge_believes_that_all_is_confirmed, Fate.DIES),
    SitesPlant(a_silent_site_is_left, Fate.STAYS),
    SitesPlant(a_topic_made_anew_goes_unnamed, Fate.STAYS),
    SitesPlant(a_hole_goes_untold, Fate.STAYS),
    SitesPlant(what_is_left_of_a_batch_is_not_copied, Fate.STAYS),
    SitesPlant(confirmations_of_another_topic_are_waited_for, Fate.STAYS),
    SitesPlant(a_configuration_is_read_from_a_server_that_is_behind, Fate.STAYS, "zookeeper"),
)
PLANTS = {one.plant.__name__: one for one in _PLANTS}
