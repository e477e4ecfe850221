"""What runs besides the brokers in a plan, for the supervisor.

In: settings and a plan. Out: `Child` values; the settings every other role then has.
Never: starting anything.
"""

from __future__ import annotations

from deploy.distributed.hbase import hbase_processes
from deploy.distributed.layout import CORES, EMBEDDED, DistributedPlan
from deploy.distributed.spark import driver_name, spark_processes
from deploy.roles import ALARM_STREAMS, STREAMS
from deploy.settings import Settings, with_changes
from deploy.supervisor import Child

STORE_NAME = "city"


def distributed_settings(settings: Settings, plan: DistributedPlan) -> Settings:
    """The same settings for roles that work with this Spark and this HBase."""
    if plan == EMBEDDED:
        return settings
    changes: dict[str, str] = {}
    if plan.spark:
        changes |= {"streams.master": plan.spark.master, "streams.work_in": "executors"}
    if plan.hbase:
        changes["store.url"] = plan.hbase.store_url(STORE_NAME)
    return with_changes(settings, changes)


def distributed_processes(settings: Settings, plan: DistributedPlan) -> list[Child]:
    """HBase first; then Spark, whose drivers wait for the bus and the store by themselves."""
    hbase = hbase_processes(plan.hbase) if plan.hbase else []
    return [*hbase, *(spark_processes(settings, plan.spark) if plan.spark else [])]


def stands_in(plan: DistributedPlan) -> dict[str, list[str]]:
    """Which roles of one machine are these processes instead."""
    if not plan.spark:
        return {}
    return {STREAMS: [driver_name(name) for name in CORES], ALARM_STREAMS: []}
