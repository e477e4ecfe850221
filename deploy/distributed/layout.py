"""Which processes a Spark cluster and a distributed HBase have on one machine, and where. Pure.

In: how many, the first ports, a folder. Out: plans. Never: a free port: the same words give the
same addresses every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deploy.cluster.layout import HOST

FIRST_SPARK_PORT = 7077
FIRST_HBASE_PORT = 16000
MAX_WORKERS = 8
MAX_REGION_SERVERS = 8
THRIFT_SERVERS = 2  # one may die while the other serves
EXECUTOR_MEMORY = "512m"
CORES: dict[str, int] = {"watchlist": 2, "ingest": 2, "meters": 1}
"""Cores of each driver, with one executor for each: what reads records gets two, so that the
records are worked on by more than one worker; what reads meters is content with one."""


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """A standalone master and its workers. Behind the port of each comes the one of its page."""

    home: Path
    first_port: int
    workers: int

    @property
    def master(self) -> str:
        """What `spark.master` is set to."""
        return f"spark://{HOST}:{self.first_port}"

    @property
    def cores_per_worker(self) -> int:
        """All applications have room at once, also on one worker less than there are."""
        survivors = max(1, self.workers - 1)
        return -(-sum(CORES.values()) // survivors)

    @property
    def names(self) -> tuple[str, ...]:
        """The workers, as the supervisor and the log folder call them."""
        return tuple(f"spark-worker-{number}" for number in range(1, self.workers + 1))

    def port_of(self, worker: int) -> int:
        """The port of a worker, counted from 0."""
        return self.first_port + 2 * (worker + 1)


@dataclass(frozen=True, slots=True)
class HbasePlan:
    """A ZooKeeper, a master, region servers and Thrift servers, on consecutive ports."""

    home: Path
    first_port: int
    region_servers: int

    @property
    def zookeeper_port(self) -> int:
        """Where HBase's own ZooKeeper listens."""
        return self.first_port

    @property
    def master_port(self) -> int:
        """Where the master listens."""
        return self.first_port + 1

    def region_server_port(self, number: int) -> int:
        """Where a region server listens, counted from 0."""
        return self.first_port + 2 + number

    def thrift_port(self, number: int) -> int:
        """Where a Thrift server listens, counted from 0."""
        return self.first_port + 2 + self.region_servers + number

    @property
    def thrift_addresses(self) -> tuple[str, ...]:
        """All Thrift servers, as the URL of the store names them."""
        return tuple(f"{HOST}:{self.thrift_port(number)}" for number in range(THRIFT_SERVERS))

    def store_url(self, name: str) -> str:
        """The store in this HBase."""
        return f"hbase://{','.join(self.thrift_addresses)}/{name}"


@dataclass(frozen=True, slots=True)
class DistributedPlan:
    """What runs besides the brokers; None for what stays embedded."""

    spark: SparkPlan | None = None
    hbase: HbasePlan | None = None


EMBEDDED = DistributedPlan()


def plan(
    folder: Path,
    *,
    workers: int = 0,
    region_servers: int = 0,
    first_spark_port: int = FIRST_SPARK_PORT,
    first_hbase_port: int = FIRST_HBASE_PORT,
) -> DistributedPlan:
    """Processes whose data lie in `folder`."""
    return DistributedPlan(
        SparkPlan(folder / "spark", first_spark_port, workers) if workers else None,
        HbasePlan(folder / "hbase", first_hbase_port, region_servers) if region_servers else None,
    )
