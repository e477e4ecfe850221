"""What the console makes of the mirror's report."""

from __future__ import annotations

from typing import Any

import msgspec

from bus.contracts.mirror_status import (
    AclStatus,
    EdgeStatus,
    LagPoint,
    MirrorReport,
    MirrorStatus,
    PartitionStatus,
    PictureStatus,
    ProofStatus,
    ReplicaDifference,
    SiteConfirmed,
    StateRemedy,
    StateStatus,
    TopicProof,
    TopicStatus,
)
from monitor.models.mirror_view import api_view

API_FIELDS = {
    "": "status states curve",
    "status": "at_ms source_cluster_id target_cluster_id generation unreachable rpo_s topics "
    "partitions groups_not_copied proof rto_s drilled_ms edges rpo_through_edges_s pictures",
    "status.topics": "topic state detail",
    "status.partitions": "topic partition state detail lag_records lag_bytes lag_s missing",
    "status.proof": "topics differences bytes_per_s not_compared unavailable",
    "status.proof.topics": "topic complete_to_ms blocks unproven_blocks oldest_s differences failures",
    "status.proof.differences": "topic partition broker directory first_offset end_offset found_ms "
    "detail",
    "status.edges": "url heard_ms sends_to kept_records uncovered_records problem",
    "status.pictures": "policy waiting oldest_ms unread_records copied copied_bytes given_up "
    "shown_given_up other compared differing oldest_compared_ms problem",
    "states": "state meaning_en meaning_zh remedy_en remedy_zh",
    "curve": "at_ms lag_records rpo_s",
}
"""What `/api/mirror` has given out since it is there."""


def a_report() -> MirrorReport:
    """One of everything that a report may hold."""
    status = MirrorStatus(
        at_ms=1, source_cluster_id="a", target_cluster_id="b", generation=1, unreachable="",
        buffered_bytes=5, rpo_s=0.0, groups_not_copied={},
        topics=(TopicStatus(topic="t", state="copying", detail=""),),
        partitions=(PartitionStatus(
            topic="t", partition=0, state="copying", detail="", source_end=1, target_end=1,
            lag_records=0, lag_bytes=0, lag_s=0.0, missing=0, copied_records=1, copied_bytes=9,
        ),),
        proof=ProofStatus(
            topics=(TopicProof(
                topic="t", complete_to_ms=1, blocks=1, unproven_blocks=0, oldest_s=1.0,
                differences=1,
            ),),
            differences=(ReplicaDifference(
                topic="t", partition=0, broker=1, directory="/d", first_offset=0, end_offset=1,
                found_ms=1, detail="",
            ),),
        ),
        edges=(EdgeStatus(url="http://edge"),), pictures=PictureStatus(), acls=AclStatus(),
        state=(StateStatus(kind="rules", topic="state.watchlist"),),
        confirmed=(SiteConfirmed(
            cluster_id="a", epoch=1, by="mirror", at_ms=1, who="me@here", reason="",
        ),),
    )  # fmt: skip
    remedy = StateRemedy(
        state="hole", meaning_en="a", meaning_zh="b", remedy_en="c", remedy_zh="d"
    )
    return MirrorReport(status=status, states=(remedy,), curve=(LagPoint(1, 0, 0, 0.0),))


def fields(answer: Any, path: str = "") -> dict[str, str]:
    """The names of each object in it, by where it stands."""
    if isinstance(answer, list | tuple):
        return {where: names for one in answer for where, names in fields(one, path).items()}
    if not isinstance(answer, dict) or not answer:
        return {}
    found = {path: " ".join(answer)}
    for name, value in answer.items():
        found |= fields(value, f"{path}.{name}".removeprefix("."))
    return found


def test_the_api_gives_out_the_fields_that_it_always_had() -> None:
    """Others that the mirror says are the page's and the commands' own."""
    assert fields(api_view(a_report())) == API_FIELDS


def test_the_page_comes_back_as_it_was_said() -> None:
    """One contract for who says it and who reads it."""
    said = a_report()
    assert msgspec.json.decode(msgspec.json.encode(said), type=MirrorReport) == said


def test_a_key_of_a_newer_mirror_is_passed_over() -> None:
    """The two sites are updated one after the other."""
    page = msgspec.to_builtins(a_report())
    page["status"]["of_tomorrow"] = page["of_tomorrow"] = 1
    assert msgspec.convert(page, MirrorReport) == a_report()
