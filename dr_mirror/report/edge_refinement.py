"""Refines the report of a forced switch by what edges have sent to the new primary.

In: the report's folder, addresses of edges. Out: a statement for each edge that has moved. Core:
`dr_mirror.report.plan.switch_loss`. Never: a statement of an edge that is still moving, or of an
earlier move.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from bus.contracts.sent_again import SentAgain, SentAgainError, decode_sent_again
from bus.contracts.site_epoch import SiteEpochError, parse_site_epoch
from bus.runtime.wall_clock import now_ms
from dr_mirror.edges.edge_client import EdgeClient, EdgeUnavailable
from dr_mirror.report.plan.switch_loss import edge_statement
from dr_mirror.report.plan.switch_report import EDGE, FORCED, REJOINED, ReportError, SwitchStatement
from dr_mirror.report.report_file import ReportFile, all_statements, newest_report

log = logging.getLogger(__name__)

EVERY_S = 2.0


async def refine_always(folder: Path, urls: tuple[str, ...], token: str = "") -> None:
    """The report of the newest site epoch, for ever."""
    while urls:
        newest = await asyncio.to_thread(newest_report, folder)
        if newest is not None:
            await refine(newest, urls, token)
        await asyncio.sleep(EVERY_S)


async def refine(report: ReportFile, urls: tuple[str, ...], token: str = "") -> list[str]:
    """Ask the edges that have not told yet, with the token of their pages; the addresses of those
    that still have not. Nobody is asked where there is no forced switch, or where the former
    primary has returned."""
    try:
        statements = await asyncio.to_thread(report.read)
        forced = next((one for one in statements if one.kind == FORCED), None)
        if forced is None or any(one.kind == REJOINED for one in statements):
            return []
        refined = {one.source for one in statements if one.kind == EDGE}
        left = [url for url in urls if url not in refined]
        if not left:
            return []
        async with EdgeClient(token) as client:
            answers = await asyncio.gather(
                *(_refine(client, url, forced, report) for url in left)
            )
    except (OSError, ReportError, SiteEpochError) as error:
        log.warning("the report of the forced switch is not refined for now: %s", error)
        return list(urls)
    return [url for url, has_answered in zip(left, answers, strict=True) if not has_answered]


async def _refine(
    client: EdgeClient, url: str, forced: SwitchStatement, report: ReportFile
) -> bool:
    """Whether the edge has told. Raises OSError, ReportError, SiteEpochError."""
    try:
        answer = await client.sent_again(url, forced.former)
        sent = decode_sent_again(answer) if answer is not None else None
    except (EdgeUnavailable, SentAgainError) as error:
        log.info("the edge %s does not say what it has sent again: %s", url, error)
        return False
    if sent is None or sent.new_cluster_id != forced.new:
        return False
    if await asyncio.to_thread(_is_of_an_earlier_switch, report, url, sent):
        return False
    one = edge_statement(parse_site_epoch(forced.epoch), url, sent, forced, now_ms())
    await asyncio.to_thread(report.append, one)
    log.warning("the edge %s has sent %d records again", url, sent.records)
    return True


def _is_of_an_earlier_switch(report: ReportFile, url: str, sent: SentAgain) -> bool:
    return any(
        one.kind == EDGE and one.source == url and one.moved_ms == sent.at_ms
        for one in all_statements(report.path.parent)
    )
