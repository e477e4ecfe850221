"""All checks of `secure check`.

In: `SiteFacts`. Out: findings, in the order of the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deploy.secure.check import bus_checks, neighbour_checks, page_checks, secret_checks
from deploy.secure.check.facts import SecurityFinding, SiteFacts

Check = Callable[[SiteFacts], Iterator[SecurityFinding]]

CHECKS: tuple[Check, ...] = (
    bus_checks.unused_folder,
    bus_checks.plain_listener,
    bus_checks.plain_password,
    bus_checks.no_authorizer,
    bus_checks.everybody_without_acl,
    bus_checks.everybody_is_superuser,
    bus_checks.acl_for_everybody,
    bus_checks.plain_connection,
    page_checks.edge_for_everybody,
    page_checks.plain_edge,
    page_checks.plain_console,
    page_checks.open_pages,
    page_checks.plain_pages,
    page_checks.plain_address,
    secret_checks.readable_secret,
    secret_checks.weak_secret,
    secret_checks.guessed_account,
    secret_checks.secret_on_command_line,
    secret_checks.ending_certificate,
    neighbour_checks.plain_hbase,
    neighbour_checks.open_spark,
    neighbour_checks.open_spark_page,
    neighbour_checks.open_zookeeper,
    neighbour_checks.plain_notice,
)
"""Each names its findings after itself."""


def findings(facts: SiteFacts) -> list[SecurityFinding]:
    """Every open door."""
    return [one for check in CHECKS for one in check(facts)]
