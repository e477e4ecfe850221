"""What runs besides the brokers in a plan, for the supervisor.

In: settings and a plan. Out: `Child` values; the settings every other role then has.
Never: starting anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from deploy.distributed.hbase import THRIFT_NAME, hbase_processes
from deploy.distributed.layout import CORES, EMBEDDED, DistributedPlan
from deploy.distributed.spark import spark_processes
from deploy.distributed.spark_key_files import SparkKeyFiles
from deploy.distributed.tables import NAME as TABLES
from deploy.distributed.tables import tables_process
from deploy.roles.table import ALARM_STREAMS, BROKER, STREAMS, driver_name
from deploy.settings.composed import Settings, with_changes
from deploy.supervisor.child import Child

STORE_NAME = "city"


def distributed_settings(settings: Settings, plan: DistributedPlan) -> Settings:
    """The same settings for roles that work with this Spark and this HBase."""
    if plan == EMBEDDED:
        return settings
    changes: dict[str, str] = {}
    if plan.spark:
        changes |= {"streams.master": plan.spark.master, "streams.work_in": "executors"}
        if settings.security.folder:
            properties = SparkKeyFiles(plan.spark.home).properties
            changes["streams.properties_file"] = str(properties)
    if plan.hbase:
        changes["store.url"] = plan.hbase.store_url(STORE_NAME)
    return with_changes(settings, changes)


def distributed_processes(
    settings: Settings, plan: DistributedPlan, bus: Sequence[str] = (BROKER,)
) -> list[Child]:
    """HBase first, then its tables; then Spark, whose drivers wait for the bus by themselves. On a
    secured site they wait for `bus`, the processes of the brokers: nobody is let in before."""
    found: list[Child] = []
    if plan.hbase:
        found = hbase_processes(plan.hbase)
        thrift_servers = [child.name for child in found if child.name.startswith(THRIFT_NAME)]
        found.append(tables_process(settings, plan.hbase, thrift_servers))
    if plan.spark:
        tables = (TABLES,) if plan.hbase else ()
        brokers = tuple(bus) if settings.security.folder else ()
        found += spark_processes(settings, plan.spark, tables, brokers)
    return found


def stands_in(plan: DistributedPlan) -> dict[str, list[str]]:
    """Which roles of one machine are these processes instead."""
    if not plan.spark:
        return {}
    return {STREAMS: [driver_name(name) for name in CORES], ALARM_STREAMS: []}
